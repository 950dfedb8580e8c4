"""Forecast the sales of each shop for the next week: one script learns from windows of all shops
and writes the forecasts.

A forecast counts as right if the sum of the week is off by less than 15 %.

    python examples/forecasting/job.py

prints

    8 shops, 1752 windows of 28 days to learn from
        shop           week  right
    0  shop0  [7 forecasts]   True
    1  shop1  [7 forecasts]   True
    mean error: the model is better than the numbers of the week before
"""

import numpy as np
import pandas as pd

from operators import BatchOperator, TensorFlow2BatchOp, useLocalEnv

PAST, NEXT = 28, 7


def daily_sales(shops=8, days=260, seed=5):
    """Return a time series for each shop, with a level, a trend, a weekly rhythm and noise."""
    random = np.random.default_rng(seed)
    level, trend = random.uniform(80, 300, (shops, 1)), random.uniform(-0.1, 0.3, (shops, 1))
    rhythm = 1 + 0.4 * np.sin(2 * np.pi * (np.arange(days) / 7 + random.random((shops, 1))))
    return (level + trend * np.arange(days)) * rhythm * random.normal(1, 0.05, (shops, days))


def forecast(task_config):
    """Learn from the rows whose week is known, then write a forecast for each other row."""
    import tensorflow as tf

    batches = list(task_config.tf_context.batches(512))
    shop = np.concatenate([batch["shop"].numpy() for batch in batches])
    past = np.concatenate([tf.sparse.to_dense(batch["past"]) for batch in batches])
    week = np.concatenate([tf.sparse.to_dense(batch["week"]) for batch in batches])
    scale = past.mean(axis=1, keepdims=True)  # brings shops of all sizes to one scale
    known = week[:, 0] > 0
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(NEXT)])
    model.compile(tf.keras.optimizers.Adam(0.003), "mae")
    model.fit((past / scale)[known], (week / scale)[known], batch_size=64, epochs=20, verbose=0)
    weeks = model.predict((past / scale)[~known], verbose=0) * scale[~known]
    task_config.output_writer.write_batch({"shop": shop[~known], "week": weeks})


sales = daily_sales()
true = sales[:, -NEXT:]
windows = [
    {"shop": f"shop{number}", "past": series[end - PAST : end], "week": series[end : end + NEXT]}
    for number, series in enumerate(sales[:, :-NEXT])
    for end in range(PAST, len(series) - NEXT + 1)
]
# Zeros mark the unknown week to forecast.
now = [
    {"shop": f"shop{number}", "past": series[-NEXT - PAST : -NEXT], "week": np.zeros(NEXT)}
    for number, series in enumerate(sales)
]
print(f"{len(sales)} shops, {len(windows)} windows of {PAST} days to learn from")

useLocalEnv(1)
table = BatchOperator.fromDataframe(
    pd.DataFrame(windows + now), "shop STRING, past ARRAY<FLOAT>, week ARRAY<FLOAT>"
)
script = TensorFlow2BatchOp(
    mainScriptFile=forecast,
    outputSchemaStr="shop STRING, week ARRAY<FLOAT>",
    numWorkers=1,
    numPSs=0,
)
result = table.link(script).collectToDataframe().sort_values("shop").reset_index(drop=True)

weeks = np.stack(result["week"])
result["right"] = np.abs(weeks.sum(axis=1) / true.sum(axis=1) - 1) < 0.15
shown = result.head(2).assign(week=[f"[{len(week)} forecasts]" for week in weeks[:2]])
print(shown.to_string())
before = np.abs(sales[:, -2 * NEXT : -NEXT] - true).mean()
print(
    "mean error: the model is",
    "better" if np.abs(weeks - true).mean() < before else "worse",
    "than the numbers of the week before",
)
