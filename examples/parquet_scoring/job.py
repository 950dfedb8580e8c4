"""Train a model on Parquet files, and score others into Parquet files: no row passes through Flink
on its way in.

    python examples/parquet_scoring/job.py

prints

    scored 10000 rides of March, off by less than 0.5 on average
"""

import tempfile

import numpy as np
import pandas as pd

from operators import BatchOperator, ParquetSinkBatchOp, ParquetSourceBatchOp, useLocalEnv
from operators import TF2TableModelTrainBatchOp as Train
from operators import TFTableModelPredictBatchOp as Predict


def write_rides(folder, count=30_000, seed=3):
    """Write the rides of three months, in a folder for each."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"ride": np.arange(count), "month": np.arange(count) * 3 // count + 1})
    frame["km"] = random.gamma(2.0, 3.0, count).astype("f4")
    frame["hour"] = random.integers(0, 24, count)
    frame["fare"] = (
        3 + 1.8 * frame.km + np.where(frame.hour < 6, 4, 0) + random.normal(0, 0.3, count)
    ).astype("f4")
    frame.to_parquet(folder, partition_cols=["month"])


def train(task_config):
    """Train a model whose inputs are columns of the files."""
    import tensorflow as tf

    def with_label(row):
        return row, {"predicted": row.pop("fare")}

    rows = task_config.tf_context.batches(64, shuffle_rows=10_000, num_epochs=4).map(with_label)
    km, hour = tf.keras.Input([], name="km"), tf.keras.Input([], name="hour", dtype=tf.int64)
    hours = tf.keras.layers.CategoryEncoding(24, "one_hot")(tf.keras.layers.Reshape([1])(hour))
    inputs = tf.keras.layers.Concatenate()([tf.keras.layers.Reshape([1])(km), hours])
    model = tf.keras.Model(
        {"km": km, "hour": hour}, {"predicted": tf.keras.layers.Dense(1, name="predicted")(inputs)}
    )
    model.compile(tf.keras.optimizers.Adam(0.05), "mse")
    model.fit(rows, verbose=0)
    model.export(task_config.saved_model_dir)


useLocalEnv(1)
with tempfile.TemporaryDirectory() as folder:
    write_rides(f"{folder}/rides")
    known = ParquetSourceBatchOp(
        filePath=f"{folder}/rides", filter="`month` < 3", selectedCols=["km", "hour", "fare"]
    )
    model = known.link(Train(mainScriptFile=train, numWorkers=1, numPSs=0))
    new = ParquetSourceBatchOp(filePath=f"{folder}/rides", filter="`month` = 3")
    predict = Predict(
        selectedCols=["km", "hour"],
        reservedCols=["ride", "fare"],
        outputSchemaStr="predicted FLOAT",
    )
    predict.linkFrom(model, new).link(ParquetSinkBatchOp(filePath=f"{folder}/scored/"))
    BatchOperator.execute()
    scored = pd.read_parquet(f"{folder}/scored")
    is_good = (scored.predicted - scored.fare).abs().mean() < 0.5
    print(
        f"scored {len(scored)} rides of March, off by {'less' if is_good else 'more'} than 0.5 on"
        " average"
    )
