"""A model, as a job makes it or as it lies somewhere, to a file that travels with jobs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from akdl.storage.files import fetch
from akdl.storage.model_archive import ModelError, find_saved_model, unpack
from bridge.exceptions import ConfigurationError
from operators.batch_operator import BatchOperator
from operators.prepare.program_folder import named_by_content, program_folder


def pack_model_table(model: BatchOperator) -> str:
    """Run the job of a model table, once, and return a file of its SavedModel that can travel with jobs.

    Rows are read one after the other, so a large model needs little memory.

    Raises:
        ConfigurationError: The rows are no model.
    """
    if model._packed is None:
        place = tempfile.mkdtemp(dir=program_folder())
        try:
            model._packed = _pack(model._run(lambda: unpack(_rows(model), os.path.join(place, "unpacked"))), place)
        except ModelError as error:
            raise ConfigurationError(f"the model table that {type(model).__name__} makes: {error}") from None
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return model._packed


def packed_model(address: str) -> str:
    """Return a file of a SavedModel that can travel with jobs.

    Args:
        address: The model's folder, or a zip or tar file of one: any address of `akdl.storage.files`.

    Raises:
        FileError: It cannot be had.
        ModelError: The folder holds no SavedModel.
    """
    place = tempfile.mkdtemp(dir=program_folder())
    try:
        path = fetch(address, place)
        return _pack(find_saved_model(path), place) if os.path.isdir(path) else named_by_content(path, "model")[0]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _pack(saved_model: str, place: str) -> str:
    return named_by_content(shutil.make_archive(os.path.join(place, "packed"), "zip", saved_model), "model")[0]


def _rows(model: BatchOperator) -> Iterator[tuple[Any, Any]]:
    with model.getOutputTable().execute().collect() as rows:
        for row in rows:
            yield row[0], row[1]
