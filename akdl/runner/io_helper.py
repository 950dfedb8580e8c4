"""Models and files between a script and the table: functions that scripts written for Alink import from this module.

The format of model tables is described in `akdl.storage.model_archive`.
"""

import base64
import glob
import os
import shutil
from typing import Any, Dict

import tensorflow as tf

from akdl.storage.archive import unpack_archive
from akdl.storage.model_archive import CHUNK_BYTES, find_saved_model, write_model

_FILES_OF_TRAINING = (
    "checkpoint",
    "pipeline.config",
    "version",
    "graph.pbtxt",
    "model.ckpt-*",
    "atexit_sync_*",
    "events.out.tfevents.*",
    "keras",
    "eval_val",
    "export",
    "best_ckpt",
    "pretrained_ckpt",
)


def output_model_to_flink(model_dir: str, output_writer: Any) -> None:
    """Write the SavedModel in `model_dir`, or one folder below, as rows of (model_id BIGINT, model_info STRING)."""
    write_model(model_dir, output_writer)


def output_model_ckpt_to_flink(saved_model_dir: str, latest_ckpt_dir: str, output_writer: Any) -> None:
    """Write a SavedModel, and the content of a folder with a checkpoint, as rows of one model table."""
    write_model(saved_model_dir, output_writer, checkpoint=latest_ckpt_dir)


def find_timestamp_dir(saved_model_dir: str) -> str:
    """Return the SavedModel in a folder, see `akdl.storage.model_archive.find_saved_model`."""
    return find_saved_model(saved_model_dir)


def pack_dir_to_file(directory: str, chunk_size: int = CHUNK_BYTES) -> Dict[str, Any]:
    """Write the content of a folder as a zip file next to it; return its name, size, and number of chunks."""
    path = shutil.make_archive(os.path.abspath(directory), "zip", directory)
    size = os.path.getsize(path)
    return {"name": path, "size": size, "chunk_size": chunk_size, "chunks": -(-size // chunk_size)}


def unpack_model_from_flink(model_path: str, work_dir: str) -> str:
    """Unpack a model table that arrived as an extra input, and return the path of the new folder.

    Args:
        model_path: The file at `user_params["ALINK:bc_k"]`, with one line "model_id model_info" per row, in any order.
        work_dir: The parent of the new folder, which is named like the zip file in row 0.
    """
    with open(model_path, encoding="utf-8") as lines:
        rows = {int(number): text for number, text in (line.rstrip("\n").split(" ", 1) for line in lines)}
    name = os.path.basename(rows.pop(0))
    path, folder = os.path.join(work_dir, name), os.path.join(work_dir, os.path.splitext(name)[0])
    with open(path, "wb") as file:
        for _, text in sorted(rows.items()):
            file.write(base64.b64decode(text, validate=True))
    os.makedirs(folder)
    with open(path, "rb") as file:
        unpack_archive(file, folder)
    return folder


def remove_checkpoint_files(model_dir: str) -> None:
    """Remove checkpoints, events and exports of an Estimator, so that training starts from scratch; other files stay.

    `model_dir` may be an address that TensorFlow reads, such as "hdfs://...", or not exist.
    """
    for pattern in _FILES_OF_TRAINING:
        for path in tf.io.gfile.glob(os.path.join(glob.escape(model_dir), pattern)):
            if tf.io.gfile.isdir(path):
                tf.io.gfile.rmtree(path)
            else:
                tf.io.gfile.remove(path)


def gfile_copy_dir_content(remote_dir: str, local_dir: str) -> None:
    """Copy the content of a folder to another one with TensorFlow's file access; replace files of the same name."""
    tf.io.gfile.makedirs(local_dir)
    for entry in tf.io.gfile.listdir(remote_dir):
        name = entry.strip("/")
        if name:
            source, target = os.path.join(remote_dir, name), os.path.join(local_dir, name)
            copy = gfile_copy_dir_content if tf.io.gfile.isdir(source) else _replace
            copy(source, target)


def file_io_copy_fix(src: str, dst: str, overwrite: bool = False) -> None:
    """Copy a file with TensorFlow's file access; a ValueError if `dst` exists, unless `overwrite` is set."""
    if not overwrite and tf.io.gfile.exists(dst):
        raise ValueError(f"{dst} exists: set overwrite=True to replace it")
    _replace(src, dst)


def _replace(source: str, target: str) -> None:
    # gfile.copy fails for object stores that cannot rename; reading and writing work everywhere.
    with tf.io.gfile.GFile(source, "rb") as read, tf.io.gfile.GFile(target, "wb") as written:
        written.write(b"")  # creates the file even if it is empty
        shutil.copyfileobj(read, written)
