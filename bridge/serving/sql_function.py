"""A function of SQL that predicts with a model process: a vectorized function of PyFlink.

PyFlink hands it series of pandas, in which a null among numbers is NaN, and integers with a null
are float64. A literal is a plain value, not a series.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from pyflink.table.udf import FunctionContext, ScalarFunction

from bridge.codec.ipc import arrow_schema
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.exceptions import RowError
from bridge.schema import Column
from bridge.serving.outputs import PredictionSettings, model_process, with_outputs
from bridge.workarounds.beam_workers import close_with_worker

# Beyond this number, several integers have the same float64.
_LARGEST_EXACT = 1 << 53


class ModelFunction(ScalarFunction):  # type: ignore[misc]
    """Predicts with the columns of `input_schema`; the result is the output, or a frame of
    several.
    """

    def __init__(self, settings: PredictionSettings) -> None:
        self._settings = settings

    def open(self, function_context: FunctionContext) -> None:
        self._decoder = ColumnDecoder(self._settings.output_schema, "the model")
        self._process = model_process(self._settings)
        close_with_worker(self.close)

    def close(self) -> None:
        if hasattr(self, "_process"):
            self._process.close()
            del self._process

    def eval(self, *cells: object) -> object:
        """Predict one batch of rows. PyFlink calls this with a series for each argument.

        Raises:
            RowError: The arguments do not fit the columns of the model.
            TaskError: The model has failed.
        """
        operator = self._settings.process.operator
        schema = self._settings.input_schema
        # Only a series has the number of rows; a literal stands for all of them.
        rows = next((len(each) for each in cells if isinstance(each, pd.Series)), None)
        if rows is None or len(cells) != len(schema.names):
            raise RowError(
                f"{operator}: expected {len(schema.names)} columns ({', '.join(schema.names)}), got"
                f" {len(cells)} arguments"
                + (
                    ""
                    if rows is not None
                    else ", all literals: name a column of the table among them"
                )
            )
        arrays = [
            self._array(*each, rows) for each in zip(cells, schema, arrow_schema(schema).types)
        ]
        batch = pa.record_batch(arrays, names=schema.names)
        prediction = self._process.predict(to_columns(batch, schema, operator))
        predicted = with_outputs(batch, prediction, self._decoder, self._settings)
        outputs = [
            predicted.column(predicted.schema.get_field_index(name))
            for name, _ in self._settings.result
        ]
        found = [
            output.to_pandas(date_as_object=True, integer_object_nulls=True) for output in outputs
        ]
        return found[0] if len(found) == 1 else pd.concat(found, axis=1)

    def _array(self, cells: object, column: Column, arrow_type: pa.DataType, rows: int) -> pa.Array:
        where = f"{self._settings.process.operator}: argument {column.name!r} ({column.type.sql})"
        if not isinstance(cells, pd.Series):
            cells = pd.Series([cells] * rows, dtype=object)
        is_rounded = cells.dtype == np.float64 and pa.types.is_integer(arrow_type)
        if is_rounded and (cells.abs() >= _LARGEST_EXACT).any():
            raise RowError(
                f"{where}: PyFlink rounds integers beyond 2**53 where a column has nulls: replace"
                " the nulls with COALESCE"
            )
        try:
            # PyFlink hands over a DECIMAL as Python's Decimal, which pyarrow does not make a float.
            if cells.dtype == object and pa.types.is_floating(arrow_type):
                cells = cells.map(float, na_action="ignore")
            # PyFlink labels the clock of UTC as local time, which Arrow would convert to UTC again.
            if isinstance(cells.dtype, pd.DatetimeTZDtype):
                cells = cells.dt.tz_localize(None)
            return pa.Array.from_pandas(cells, type=arrow_type)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise RowError(f"{where}: {error}: CAST the argument") from None
