"""Two workers train one model on the rows of a table; the resulting model table is used to predict.

    python examples/train_together/job.py

prints

       predicted  well
    0       1000  True
"""

import pathlib

from operators import (
    RandomTableSourceBatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    useLocalEnv,
)

script = str(pathlib.Path(__file__).with_name("train.py"))

useLocalEnv(2)
points = RandomTableSourceBatchOp(numRows=1000, numCols=2, outputCols=["x", "y"], idCol="id")
# Half of the points are moved above the diagonal, half below it.
data = points.select(
    "x, CASE WHEN MOD(id, 2) = 1 THEN x + 0.1 + y ELSE x - 0.1 - y END AS y, MOD(id, 2) AS above"
)

train = TF2TableModelTrainBatchOp(userFiles=[script], mainScriptFile=script, numWorkers=2, numPSs=0)
predict = TFTableModelPredictBatchOp(outputSchemaStr="probability DOUBLE", selectedCols=["x", "y"])
predicted = predict.linkFrom(data.link(train), data).select(
    "(probability > 0.5) = (above = 1) AS is_right"
)
predicted.select(
    "COUNT(*) AS predicted, AVG(CASE WHEN is_right THEN 1e0 ELSE 0e0 END) > 0.95 AS well"
).print()
