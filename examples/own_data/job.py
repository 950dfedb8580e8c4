"""Train a classifier on your own CSV file, which has missing values, and predict customers that it
has not seen.

    python examples/own_data/job.py

prints

    1600 customers to learn from, 40 of them without an age
    predicted 400 customers, more than 85 % of them right
         id      plan  calls churned predicted
    0  1600     basic      2     yes       yes
    1  1601  business      2     yes       yes
    2  1602    family      0      no        no
"""

import pathlib
import tempfile

import numpy as np
import pandas as pd

from operators import (
    BatchOperator,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    useLocalEnv,
)

PLANS = ["basic", "family", "business"]


def write_customers(path, count=2000, seed=1):
    """Write a CSV file as a shop might export it."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": np.arange(count),
            "age": pd.array(random.integers(18, 80, count), "Int64"),
            "plan": random.choice(PLANS, count, p=[0.5, 0.3, 0.2]),
            "calls": random.poisson(1.5, count),
        }
    )
    unhappy = frame.calls * 2.5 - 4 + (frame["plan"] == "basic") * 2.5 - (frame.age > 60) * 1.5
    frame["churned"] = np.where(unhappy + random.normal(0, 0.5, count) > 0, "yes", "no")
    frame.loc[random.random(count) < 0.03, "age"] = pd.NA
    frame.to_csv(path, index=False)


def train(task_config):
    """Train a model whose inputs are the columns of the table."""
    import tensorflow as tf

    def with_label(row):
        return row, {"churns": tf.where(row.pop("churned") == "yes", 1.0, 0.0)}

    rows = task_config.tf_context.batches(
        32, defaults=DEFAULTS, shuffle_rows=1000, num_epochs=8
    ).map(with_label)
    age = tf.keras.Input([], name="age", dtype=tf.int64)
    plan = tf.keras.Input([], name="plan", dtype=tf.string)
    calls = tf.keras.Input([], name="calls", dtype=tf.int64)
    features = [
        tf.keras.layers.Rescaling(1 / 50, offset=-1)(tf.keras.layers.Reshape([1])(age)),
        tf.keras.layers.StringLookup(vocabulary=PLANS, output_mode="one_hot")(
            tf.keras.layers.Reshape([1])(plan)
        ),
        tf.keras.layers.Rescaling(1 / 3)(tf.keras.layers.Reshape([1])(calls)),
    ]
    hidden = tf.keras.layers.Dense(16, "relu")(tf.keras.layers.Concatenate()(features))
    churns = tf.keras.layers.Dense(1, "sigmoid", name="churns")(hidden)
    model = tf.keras.Model({"age": age, "plan": plan, "calls": calls}, {"churns": churns})
    model.compile(
        tf.keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["binary_accuracy"]
    )
    model.fit(rows, verbose=0)
    model.export(task_config.saved_model_dir)


FEATURES = ["age", "plan", "calls"]
DEFAULTS = {"age": 50}  # for customers whose age is missing

useLocalEnv(1)
with tempfile.TemporaryDirectory() as folder:
    write_customers(pathlib.Path(folder, "customers.csv"))
    customers = pd.read_csv(
        pathlib.Path(folder, "customers.csv"), dtype={"age": "Int64", "plan": "category"}
    )
known, new = customers[:1600], customers[1600:]
print(f"{len(known)} customers to learn from, {known.age.isna().sum()} of them without an age")

trained = BatchOperator.fromDataframe(known.drop(columns="id")).link(
    TF2TableModelTrainBatchOp(mainScriptFile=train, numWorkers=1, numPSs=0)
)
predict = TFTableModelPredictBatchOp(
    selectedCols=FEATURES, defaults=DEFAULTS, outputSchemaStr="churns FLOAT"
)
result = (
    predict.linkFrom(trained, BatchOperator.fromDataframe(new))
    .collectToDataframe()
    .sort_values("id")
)
result["predicted"] = np.where(result.churns > 0.5, "yes", "no")
right = (result.predicted == result.churned).mean()
print(
    f"predicted {len(result)} customers, more than 85 % of them right"
    if right > 0.85
    else f"only {right:.0%} are right"
)
print(
    result.head(3)[["id", "plan", "calls", "churned", "predicted"]]
    .reset_index(drop=True)
    .to_string()
)
