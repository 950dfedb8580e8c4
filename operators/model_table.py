"""A model table, as a job makes it, to a file that travels with other jobs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from akdl.model_archive import ModelError, unpack
from bridge.exceptions import ConfigurationError
from operators.operator import BatchOperator


def pack_model_table(model: BatchOperator, folder: str) -> str:
    """Run the job of a model table, once, and return a zip file of its SavedModel, in a folder of its own below `folder`.

    Rows are read one after the other, so a large model needs little memory.

    Raises:
        ConfigurationError: The rows are no model.
    """
    if model._packed is None:
        place = tempfile.mkdtemp(dir=folder)
        unpacked = os.path.join(place, "unpacked")
        try:
            found = model._run(lambda: unpack(_rows(model), unpacked))
        except ModelError as error:
            raise ConfigurationError(f"the model table that {type(model).__name__} makes: {error}") from None
        # A name of its own: all files that a job carries lie side by side on the hosts.
        name = os.path.join(place, "carried", f"akdl_model_{os.path.basename(place)}")
        os.mkdir(os.path.dirname(name))
        model._packed = shutil.make_archive(name, "zip", found)
        shutil.rmtree(unpacked)
    return model._packed


def _rows(model: BatchOperator) -> Iterator[tuple[Any, Any]]:
    with model.getOutputTable().execute().collect() as rows:
        for row in rows:
            yield row[0], row[1]
