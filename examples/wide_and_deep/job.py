"""Click-through rates: a wide and deep model learns from a log of impressions who clicks which
advertisement.

The wide part memorizes pairs, such as students and concerts. The deep part generalizes from
embeddings.

    python examples/wide_and_deep/job.py

prints

    4000 impressions to learn from, 1000 to predict
    better than the click rate of each advertisement alone: True
    clicks among the 100 that the model puts first: at least twice the average
"""

import numpy as np
import pandas as pd

from operators import (
    BatchOperator,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    useLocalEnv,
)

GROUPS = ["student", "parent", "retired", "tourist"]
ADS = ["concert", "toys", "garden", "hotel", "car"]
LIKED = {
    ("student", "concert"),
    ("parent", "toys"),
    ("retired", "garden"),
    ("tourist", "hotel"),
    ("tourist", "concert"),
}


def impressions(count, seed):
    """Return a log of impressions: visitor, advertisement, hour, and whether the visitor
    clicked.
    """
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "visitor": random.choice(GROUPS, count),
            "ad": random.choice(ADS, count, p=[0.3, 0.2, 0.2, 0.2, 0.1]),
            "hour": random.integers(0, 24, count),
        }
    )
    liked = [pair in LIKED for pair in zip(frame.visitor, frame.ad)]
    chance = 0.03 + 0.45 * np.array(liked) + 0.1 * (frame.hour > 18)
    return frame.assign(clicked=(random.random(count) < chance).astype(int))


def train(task_config):
    """Train one model of a linear part on crossed columns and a network on embeddings."""
    import tensorflow as tf

    layers = tf.keras.layers

    def with_label(row):
        return row, {"probability": row.pop("clicked")}

    rows = task_config.tf_context.batches(64, shuffle_rows=2000, num_epochs=5).map(with_label)
    visitor = tf.keras.Input([], name="visitor", dtype=tf.string)
    ad = tf.keras.Input([], name="ad", dtype=tf.string)
    hour = tf.keras.Input([], name="hour", dtype=tf.int64)
    who = layers.StringLookup(vocabulary=GROUPS)(visitor)
    what = layers.StringLookup(vocabulary=ADS)(ad)
    pair = layers.Reshape([1])(who * 6 + what)
    wide = layers.Dense(1, use_bias=False)(
        layers.CategoryEncoding(num_tokens=36, output_mode="one_hot")(pair)
    )
    embedded = [
        layers.Embedding(6, 4)(who),
        layers.Embedding(6, 4)(what),
        layers.Rescaling(1 / 24)(layers.Reshape([1])(hour)),
    ]
    deep = layers.Dense(1)(layers.Dense(16, "relu")(layers.Concatenate()(embedded)))
    probability = layers.Activation("sigmoid", name="probability")(wide + deep)
    model = tf.keras.Model(
        {"visitor": visitor, "ad": ad, "hour": hour}, {"probability": probability}
    )
    model.compile(tf.keras.optimizers.Adam(0.01), "binary_crossentropy")
    model.fit(rows, verbose=0)
    model.export(task_config.saved_model_dir)


def loss(clicked, probability):
    return -np.log(np.where(clicked == 1, probability, 1 - probability)).mean()


useLocalEnv(1)
log, others = impressions(4000, seed=1), impressions(1000, seed=2)
print(f"{len(log)} impressions to learn from, {len(others)} to predict")
model = BatchOperator.fromDataframe(log).link(
    TF2TableModelTrainBatchOp(mainScriptFile=train, numWorkers=1, numPSs=0)
)
predict = TFTableModelPredictBatchOp(
    selectedCols=["visitor", "ad", "hour"], outputSchemaStr="probability DOUBLE"
)
result = predict.linkFrom(model, BatchOperator.fromDataframe(others)).collectToDataframe()

rates = result.ad.map(log.groupby("ad").clicked.mean())
better = loss(result.clicked, result.probability) < loss(result.clicked, rates)
print(f"better than the click rate of each advertisement alone: {better}")
first = (
    result.sort_values("probability", ascending=False).head(100).clicked.mean()
    / result.clicked.mean()
)
print(
    "clicks among the 100 that the model puts first:",
    "at least twice the average" if first >= 2 else f"only {first:.1f}",
)
