"""Scripts that fail on one row of their table, each a function; the user parameter `error` names
the one to run.
"""

from __future__ import annotations

import datetime
import json
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from akdl.features import parse_examples

PRICES = {"apple": 1.0, "pear": 2.0}


def main(config: Any) -> None:
    globals()[config.user_params["error"]](config)


def rows(config: Any) -> Iterator[dict[str, Any]]:
    for batch in config.tf_context.batches(64, columns=["id", "word", "number"]):
        for number, word, value in zip(
            batch["id"].numpy(), batch["word"].numpy(), batch["number"].numpy()
        ):
            yield {
                "id": number,
                "word": word.decode("latin-1"),
                "raw": word,
                "number": float(value),
            }


def unknown_category(config: Any) -> None:
    for row in rows(config):
        PRICES[row["word"]]


def text_for_a_number(config: Any) -> None:
    for row in rows(config):
        len(row["word"]) > 5 and int(row["word"])


def division_by_zero(config: Any) -> None:
    for row in rows(config):
        1 / row["number"]


def null(config: Any) -> None:
    for batch in config.tf_context.batches(64):
        batch["number"]


def not_a_number(config: Any) -> None:
    for batch in config.tf_context.batches(64):
        tf.debugging.check_numerics(batch["number"], "the prices")


def infinite_logarithm(config: Any) -> None:
    for batch in config.tf_context.batches(64):
        tf.debugging.check_numerics(tf.math.log(batch["number"]), "the logarithms")


def index_outside_a_list(config: Any) -> None:
    for row in rows(config):
        ["low", "high"][int(row["number"])]


def index_outside_an_embedding(config: Any) -> None:
    embedding = tf.zeros([8, 2])
    for batch in config.tf_context.batches(64):
        tf.nn.embedding_lookup(embedding, tf.cast(batch["number"], tf.int32))


def label_outside_the_classes(config: Any) -> None:
    for batch in config.tf_context.batches(64):
        labels = tf.cast(batch["number"], tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.zeros([len(labels), 3]))
        tf.debugging.check_numerics(loss, "the loss")


def bytes_that_are_no_utf8(config: Any) -> None:
    for row in rows(config):
        row["raw"].decode()


def broken_json(config: Any) -> None:
    for row in rows(config):
        json.loads(row["word"] if row["word"][:1] == "{" else "{}")


def day_that_does_not_exist(config: Any) -> None:
    for row in rows(config):
        if row["word"][:1] == "2":
            datetime.date.fromisoformat(row["word"])


def picture_that_is_cut_off(config: Any) -> None:
    for row in rows(config):
        if row["raw"][:1] == b"\x89":
            tf.io.decode_png(row["raw"])


def array_of_another_length(config: Any) -> None:
    for batch in config.tf_context.batches(64):
        tf.ensure_shape(tf.sparse.to_dense(batch["cells"]), [None, 2])


def empty_text(config: Any) -> None:
    for row in rows(config):
        row["word"][0]


def key_that_comes_twice(config: Any) -> None:
    known = set()
    for row in rows(config):
        assert row["id"] not in known, f"the id {row['id']} comes twice"
        known.add(row["id"])


def number_too_large_for_its_type(config: Any) -> None:
    for row in rows(config):
        struct.pack("<h", int(row["number"]))


def row_that_does_not_fit_the_result(config: Any) -> None:
    for row in rows(config):
        config.output_writer.write_batch(
            {"id": [row["id"] if row["word"] else "none"], "word": [row["word"]]}
        )


def text_without_the_pattern(config: Any) -> None:
    for row in rows(config):
        re.match(r"\w+", row["word"]).group()  # type: ignore[union-attr]


def flag_that_ends_the_script(config: Any) -> None:
    for row in rows(config):
        if row["number"] < 0:
            sys.exit("a number is negative")


def example_without_a_feature(config: Any) -> None:
    for batch in tf.data.TFRecordDataset(config.dataset_file).batch(64):
        tf.io.parse_example(batch, {"number": tf.io.FixedLenFeature([], tf.float32)})


def word_that_the_extra_input_lacks(config: Any) -> None:
    known = {row["word"] for row in config.extra_inputs[0].rows()}
    for row in rows(config):
        assert row["word"] in known, row["word"]


def shuffled_order(config: Any) -> None:
    """Fails in an order that depends on the seeds."""
    words = sorted({row["word"] for row in rows(config)}, key=hash)
    numbers = [
        np.random.randint(1 << 30),
        int(tf.random.uniform([], maxval=1 << 30, dtype=tf.int32)),
    ]
    raise ValueError(f"{words}: {numbers}")


def fails_once(config: Any) -> None:
    with open(config.user_params["marker"], "a") as file:
        if not file.tell():
            file.write("failed")
            raise RuntimeError("not yet")


def streamed_examples(config: Any) -> None:
    for batch in config.dataset_fn().batch(64):
        word = parse_examples(
            batch, config.tf_context.columns, defaults={"number": 0.0, "word": ""}
        )["word"]
        tf.strings.to_number(tf.boolean_mask(word, tf.strings.length(word) > 5))
