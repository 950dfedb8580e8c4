"""Two workers and a parameter server train the two-tower model on a table of clicks; it predicts
clicks of another table.

    python examples/estimator_two_tower/job.py

prints

       predicted  well
    0       1000  True
"""

import pathlib
import tempfile

import click_data
import pandas as pd

from operators import (
    MemSourceBatchOp,
    TFTableModelPredictBatchOp,
    TFTableModelTrainBatchOp,
    useLocalEnv,
)

here = pathlib.Path(__file__).parent
names = [
    "on_table.py",
    "two_tower.py",
    "click_model.py",
    "towers.py",
    "click_input.py",
    "click_flags.py",
]
scripts = [str(here / name) for name in names]
inputs = ["user_keyword", "user_gender", "user_age", "item_keyword", "item_price", "item_published"]
schema = (
    "user_keyword STRING, user_gender STRING, user_age FLOAT, item_keyword STRING, item_price"
    " FLOAT, item_published FLOAT, label BIGINT"
)
params = {
    "user_hidden_units": "32,16",
    "item_hidden_units": "32,16",
    "user_dropout": 0.0,
    "item_dropout": 0.0,
    "learning_rate": 0.01,
}

useLocalEnv(3)
clicks = MemSourceBatchOp(pd.DataFrame(click_data.make(4000, seed=0)), schema)
others = MemSourceBatchOp(pd.DataFrame(click_data.make(1000, seed=1)), schema)
with tempfile.TemporaryDirectory() as folder:
    click_data.write_keywords(folder)
    train = TFTableModelTrainBatchOp(
        userFiles=[*scripts, f"{folder}/keywords.txt", f"{folder}/keywords.npy"],
        mainScriptFile=scripts[0],
        userParams={**params, "max_train_steps": 400},
        numWorkers=2,
        numPSs=1,
    )
    predict = TFTableModelPredictBatchOp(outputSchemaStr="logistic DOUBLE", selectedCols=inputs)
    predicted = predict.linkFrom(clicks.link(train), others).select(
        "(logistic > 0.5) = (label = 1) AS is_right"
    )
    predicted.select(
        "COUNT(*) AS predicted, AVG(CASE WHEN is_right THEN 1e0 ELSE 0e0 END) > 0.75 AS well"
    ).print()
