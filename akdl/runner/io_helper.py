"""Models and files between a script and the table.

Scripts written for Alink import these functions from this module.

The format of model tables is described in `akdl.storage.model_archive`.
"""

import glob
import json
import os
from typing import Any

import tensorflow as tf

from akdl.storage.model_archive import unpack, write_model

gfile = tf.io.gfile

_FILES_OF_TRAINING = (
    "checkpoint",
    "pipeline.config",
    "version",
    "graph.pbtxt",
    "model.ckpt-*",
    "checkpoint-*",
    "atexit_sync_*",
    "events.out.tfevents.*",
    "keras",
    "eval_val",
    "export",
    "best",
    "best_ckpt",
    "pretrained_ckpt",
)


def output_model_to_flink(model_dir: str, output_writer: Any) -> None:
    """Write the SavedModel in `model_dir`, or one folder below, as rows.

    The rows are (model_id BIGINT, model_info STRING).
    """
    write_model(model_dir, output_writer)


def output_model_ckpt_to_flink(
    saved_model_dir: str, latest_ckpt_dir: str, output_writer: Any
) -> None:
    """Write a SavedModel, and a folder with a checkpoint, as rows of one model table."""
    write_model(saved_model_dir, output_writer, checkpoint=latest_ckpt_dir)


def unpack_model_from_flink(model_path: str, work_dir: str) -> str:
    """Unpack a model table that arrived as an extra input, and return the path of the new folder.

    Args:
        model_path: The file at `user_params["ALINK:bc_k"]`, with one line "model_id model_info" per
            row, in any order.
        work_dir: The parent of the new folder, which is named like the zip file in row 0. Of a
            table that holds a checkpoint too, the model is unpacked.

    Raises:
        ModelError: The rows are not a model, or a damaged one.
    """
    with open(model_path, encoding="utf-8") as lines:
        rows = {
            int(number): text
            for number, text in (line.rstrip("\n").split(" ", 1) for line in lines)
        }
    # With a checkpoint, row 0 is a list of two zip files, of which the model's is the first.
    name = json.loads(rows[0])[0]["name"] if rows[0].startswith("[") else rows[0]
    # The name comes from a table, so only its last part is used: a path must not lead out of the
    # work folder.
    folder = os.path.join(work_dir, os.path.splitext(os.path.basename(name))[0])
    return unpack(rows.items(), folder, as_is=True)


def remove_checkpoint_files(model_dir: str) -> None:
    """Remove checkpoints, events and exports of an Estimator, so that training starts from scratch.

    Other files stay.

    `model_dir` may be an address that TensorFlow reads, such as "hdfs://...", or not exist.
    """
    for pattern in _FILES_OF_TRAINING:
        # The folder's own name may contain brackets or stars, which are not meant as a pattern.
        for path in gfile.glob(os.path.join(glob.escape(model_dir), pattern)):
            if gfile.isdir(path):
                gfile.rmtree(path)
            else:
                gfile.remove(path)
