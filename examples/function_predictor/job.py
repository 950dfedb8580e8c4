"""A function predicts in place of a SavedModel: here in plain numpy. A row that it rejects gets a
message.

    python examples/function_predictor/job.py

prints

       id species  distance                  why
    0   1  setosa      0.14                    -
    1   2  virgin      0.28                    -
    2   3       -       NaN  a length is below 0
"""

import pathlib

from operators import MemSourceBatchOp, PredictBatchOp, useLocalEnv

here = pathlib.Path(__file__).parent

useLocalEnv(1)
rows = [(1, [5.1, 1.5]), (2, [6.7, 5.8]), (3, [-1.0, 0.2])]
predict = PredictBatchOp(
    predictFn=str(here / "nearest.py") + ":load",
    userFiles=[str(here / "centres.csv")],
    userParams={"names": ["setosa", "virgin"]},
    selectedCols=["features"],
    reservedCols=["id"],
    outputSchemaStr="species STRING, distance DOUBLE",
    errorCol="why",
)
found = MemSourceBatchOp(rows, "id LONG, features ARRAY<DOUBLE>").link(predict).collectToDataframe()
found["why"] = found["why"].str.extract("ValueError: (.*) \\(")[0]
print(found.round(2).fillna({"species": "-", "why": "-"}))
