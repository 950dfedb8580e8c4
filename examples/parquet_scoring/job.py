"""Score the rows of a Parquet file with a SavedModel, with SQL before and after it.

Names and types of the columns come from the file.

    python examples/parquet_scoring/job.py

prints

    12000 orders in the file
      country  orders  suspicious  amount_at_risk
    0      de    2277         585         68876.5
    1      fr    2217         541         63990.5
"""

import pathlib
import tempfile

import numpy as np
import pandas as pd

from operators import BatchOperator, ParquetSourceBatchOp, TFSavedModelPredictBatchOp, useLocalEnv


def write_orders(path, count=12_000, seed=3):
    """Write the orders of a shop to a Parquet file."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "customer": random.integers(0, 3000, count),
            "country": pd.Categorical.from_codes(random.integers(0, 3, count), ["de", "fr", "it"]),
            "amount": (random.gamma(2.0, 40.0, count) * 2).round() / 2,
            "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(random.integers(0, 31, count), unit="D"),
        }
    )
    frame.to_parquet(path)


def export_model(folder):
    """Export a model as another team might: risk grows with the amount and with the number of orders."""
    import tensorflow as tf

    class Risk(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "amount"), tf.TensorSpec([None], tf.int64, "orders")])
        def score(self, amount, orders):
            return {"risk": tf.sigmoid(amount / 50 + tf.cast(orders, tf.float32) - 8)}

    model = Risk()
    tf.saved_model.save(model, folder, {"serving_default": model.score})


useLocalEnv(1)
with tempfile.TemporaryDirectory() as folder:
    write_orders(pathlib.Path(folder, "orders.parquet"))
    orders = ParquetSourceBatchOp(filePath=f"{folder}/orders.parquet")
    print(f"{len(orders.collectToDataframe())} orders in the file")
    orders.registerTableName("orders")
    # Inputs of the model: the amount of an order, and the number of orders of its customer in the month.
    enriched = BatchOperator.sqlQuery(
        """
        SELECT o.country, CAST(o.amount AS FLOAT) AS amount, c.orders
        FROM orders AS o
        JOIN (SELECT customer, COUNT(*) AS orders FROM orders GROUP BY customer) AS c ON o.customer = c.customer
        WHERE o.country <> 'it' AND o.`day` >= TIMESTAMP '2024-03-15 00:00:00'
        """
    )
    export_model(f"{folder}/model")
    scored = enriched.link(
        TFSavedModelPredictBatchOp(
            modelPath=f"{folder}/model",
            selectedCols=["amount", "orders"],
            reservedCols=["country", "amount"],
            outputSchemaStr="risk FLOAT",
        )
    )
    result = scored.groupBy(
        "country",
        "country, COUNT(*) AS orders, COUNT(*) FILTER (WHERE risk > 0.5) AS suspicious, "
        "CAST(SUM(amount) FILTER (WHERE risk > 0.5) AS DOUBLE) AS amount_at_risk",
    )
    print(result.collectToDataframe().sort_values("country").reset_index(drop=True).to_string())
