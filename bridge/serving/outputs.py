"""Settings of a predictor, and the outputs of its model.

Three callers share it: predictors, vectorized functions of SQL, and the process behind ML_PREDICT,
which loads no PyFlink. So this module may not load it either.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from akdl.storage.model_place import PlacedModel
from akdl.wire import Prediction
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import BridgeError, RowError
from bridge.host.shipped import path_on_host
from bridge.schema import Schema
from bridge.serving.model_process import ModelProcess, ModelSettings
from bridge.settings import Gathering

if TYPE_CHECKING:
    from bridge.serving.resumption import Resumption


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of a predictor.

    Args:
        process: Settings of the process with the model.
        model: Path of a model that is shipped, or is on every host.
        input_schema: Columns that feed the model.
        output_schema: Columns for its outputs.
        result: Name of each column of the result, and True for an output, False for an input.
        error_column: Column for messages about rows that cannot be predicted. Without it the job
            fails at the first such row.
        gathering: Limits of a chunk of rows.
        placed: A model that each host fetches, in place of `model`.
        resumption: Folder for predictions that outlive the job.
    """

    process: ModelSettings
    model: str
    input_schema: Schema
    output_schema: Schema
    result: tuple[tuple[str, bool], ...]
    error_column: str | None = None
    gathering: Gathering = field(default_factory=Gathering)
    placed: PlacedModel | None = None
    resumption: Resumption | None = None

    @property
    def columns(self) -> tuple[tuple[str, bool], ...]:
        """`result` with the column of errors."""
        if self.error_column is None:
            return self.result
        return (*self.result, (self.error_column, True))


def model_process(settings: PredictionSettings, copy: int = 0) -> ModelProcess:
    """Join the process of this host with the model; the first caller starts it.

    With several copies on a host, each is a group of its own.
    """
    process = replace(settings.process, group=settings.process.groups[copy])
    return ModelProcess(process, settings.placed or path_on_host(settings.model))


def with_outputs(
    batch: pa.RecordBatch,
    prediction: Prediction,
    decoder: ColumnDecoder,
    settings: PredictionSettings,
) -> pa.RecordBatch:
    """Add the model's outputs to rows, and error messages if there is a column for them.

    Raises:
        RowError: A row cannot be predicted, and no column takes its message.
        BridgeError: The process has answered for other rows, which must not be mixed up.
    """
    rows = batch.num_rows
    if prediction.rows.rows != rows or any(bad.row >= rows for bad in prediction.bad_rows):
        raise BridgeError(
            f"{settings.process.operator}: the model process returned other rows than the {rows}"
            " that it received"
        )
    cells = dict(zip(batch.schema.names, batch.columns))
    if settings.error_column is not None:
        errors = np.full(rows, None, object)
        for bad in prediction.bad_rows:
            errors[bad.row] = bad.message
        cells[settings.error_column] = pa.array(errors, pa.string())
    elif prediction.bad_rows:
        bad = prediction.bad_rows[0]
        remedy = (
            "Replace nulls with defaults, or with COALESCE in SQL; or set"
            if "null" in bad.message
            else "Set"
        )
        raise RowError(
            f"{settings.process.operator}: row {bad.row} of a batch cannot be predicted:"
            f" {bad.message}. {remedy} errorCol, a column for such messages, so that the job"
            " continues"
        )
    cells.update(zip(settings.output_schema.names, decoder.decode(prediction.rows)))
    return pa.record_batch(list(cells.values()), names=list(cells))
