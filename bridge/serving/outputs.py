"""Settings of a predictor, and the outputs of its model. No module of PyFlink is loaded: a process of SQL imports this one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from akdl.storage.model_place import PlacedModel
from akdl.wire import Prediction
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import BridgeError, RowError
from bridge.folders.shipped import path_on_host
from bridge.schema import Schema
from bridge.serving.model_process import ModelProcess, ModelSettings
from bridge.settings import Gathering

if TYPE_CHECKING:
    from bridge.serving.resumption import Resumption


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of a predictor: a `model` that is shipped or on every host, or a `placed` one that each host fetches.

    `result` has the name of each column, and True for an output, False for an input that stays. Without an `error_column` the
    job fails at the first row that cannot be predicted.
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
        return self.result if self.error_column is None else (*self.result, (self.error_column, True))


def model_process(settings: PredictionSettings, copy: int = 0) -> ModelProcess:
    """Join a process of this host with the model, which is started if need be; it may have several."""
    process = replace(settings.process, group=f"{settings.process.group}_{copy}") if copy else settings.process
    return ModelProcess(process, settings.placed or path_on_host(settings.model))


def with_outputs(
    batch: pa.RecordBatch, prediction: Prediction, decoder: ColumnDecoder, settings: PredictionSettings
) -> pa.RecordBatch:
    """Add the model's outputs to rows, and error messages where a column is named for them (else RowError)."""
    rows = batch.num_rows
    if prediction.rows.rows != rows or any(bad.row >= rows for bad in prediction.bad_rows):
        raise BridgeError(
            f"{settings.process.operator}: the model process returned other rows than the {rows} that it received"
        )
    cells = dict(zip(batch.schema.names, batch.columns))
    if settings.error_column is not None:
        errors = np.full(rows, None, object)
        for bad in prediction.bad_rows:
            errors[bad.row] = bad.message
        cells[settings.error_column] = pa.array(errors, pa.string())
    elif prediction.bad_rows:
        bad = prediction.bad_rows[0]
        remedy = "Replace nulls with defaults, or with COALESCE in SQL; or set" if "null" in bad.message else "Set"
        raise RowError(
            f"{settings.process.operator}: row {bad.row} of a batch cannot be predicted: {bad.message}. "
            f"{remedy} errorCol, a column for such messages, so that the job continues"
        )
    cells.update(zip(settings.output_schema.names, decoder.decode(prediction.rows)))
    return pa.record_batch(list(cells.values()), names=list(cells))
