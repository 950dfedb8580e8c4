"""The four functions of `mnist.py` in a Flink job: two workers and a parameter server train on a
table of digits.

    python examples/estimator_mnist/job.py

prints

       predicted  well
    0        300  True
"""

import json
import pathlib

import digits
import pandas as pd

from operators import (
    MemSourceBatchOp,
    TFTableModelPredictBatchOp,
    TFTableModelTrainBatchOp,
    useLocalEnv,
)

here = pathlib.Path(__file__).parent
script = str(here / "mnist.py")


def table(count, seed):
    images, labels = digits.make(count, seed)
    pixels = (images / 255.0).astype("float32").reshape([count, 784])
    columns = pd.DataFrame({"images": list(pixels), "label": labels.astype("int64")})
    return MemSourceBatchOp(columns, "images ARRAY<FLOAT>, label BIGINT")


useLocalEnv(3)
train = TFTableModelTrainBatchOp(
    userFiles=[script, str(here / "parameters.json")],
    mainScriptFile=script,
    userParams=json.dumps({"train_max_steps": 400}),  # overrides parameters.json
    numWorkers=2,
    numPSs=1,
)
predict = TFTableModelPredictBatchOp(outputSchemaStr="class_id BIGINT", selectedCols=["images"])
predicted = predict.linkFrom(table(2000, seed=0).link(train), table(300, seed=1)).select(
    "class_id = label AS is_right"
)
predicted.select(
    "COUNT(*) AS predicted, AVG(CASE WHEN is_right THEN 1e0 ELSE 0e0 END) > 0.95 AS well"
).print()
