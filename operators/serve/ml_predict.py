"""Process that predicts for ML_PREDICT in SQL: an Arrow stream in, one out, see SqlModels.java in
bridge/serving.

The first line of its input has the settings. Like a task of an operator, it starts the model
process of its host.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import datetime
from typing import BinaryIO

import pyarrow as pa

from akdl.masking import shown
from akdl.near_names import short
from bridge.codec.ipc import arrow_schema, selected
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.exceptions import BridgeError, ConfigurationError, RowError, refused_at
from bridge.schema import Schema, schema_text
from bridge.serving.outputs import PredictionSettings, model_process, with_outputs
from operators.errors.summary import summary_of
from operators.predict_function import function_settings

_NAME = "ML_PREDICT"


def settings_of(line: bytes) -> tuple[PredictionSettings, Schema]:
    """Read the settings, and the columns of the result, including the column of errors."""
    given = json.loads(line)
    # Flink writes the columns as `ROW<...> NOT NULL`, of which only the part between the outermost
    # brackets is a schema.
    inputs, outputs = (
        given[name].partition("<")[2].rpartition(">")[0] for name in ("inputs", "outputs")
    )
    result = Schema.parse(outputs)
    with refused_at(
        f"{_NAME}: the option 'params' is not an object of JSON", TypeError, ValueError
    ):
        params = dict(json.loads(given["params"]))
    # This process starts again with each attempt of the query, whose start decides which models are
    # new.
    if "modelStreamFilePath" in params:
        params.setdefault("modelStreamStartTime", str(datetime.fromtimestamp(given["begun"])))
    predicted = [column for column in result if column.name != params.get("errorCol")]
    text = schema_text(
        [column.name for column in predicted], [column.type.sql for column in predicted]
    )
    settings = function_settings(_NAME, given["path"], inputs, text, params, is_host=True)
    texts = {column.name for column in result if column.type.sql.startswith(("STRING", "VARCHAR"))}
    if (name := settings.error_column) is not None and name not in texts:
        raise ConfigurationError(
            f"{_NAME}: OUTPUT of the model lacks the errorCol {name!r}, a STRING"
        )
    if settings.error_column and (
        strict := [column.name for column in result if not column.type.nullable]
    ):
        raise ConfigurationError(
            f"{_NAME}: OUTPUT {strict[0]!r} is NOT NULL, but with errorCol bad rows have nulls:"
            " remove NOT NULL"
        )
    return settings, result


def serve(given: BinaryIO, answers: BinaryIO) -> None:
    """Predict batches until the input ends."""
    line = given.readline()
    settings, result = settings_of(line)
    decoder = ColumnDecoder(settings.output_schema, "the model")
    schema = arrow_schema(result.all_nullable)
    process = model_process(settings)
    try:
        with pa.ipc.open_stream(given) as batches, pa.ipc.new_stream(answers, schema) as predicted:
            # The JVM waits for this empty batch, which shows that the model is loaded, before it
            # sends rows.
            predicted.write_batch(pa.RecordBatch.from_pylist([], schema))
            answers.flush()
            for batch in batches:
                prediction = process.predict(to_columns(batch, settings.input_schema, _NAME))
                try:
                    whole = with_outputs(batch, prediction, decoder, settings)
                # A query may have several models, and its user does not see batches. So the error
                # also names the model and shows the inputs of the row.
                except RowError as error:
                    cells = [
                        short(row)
                        for bad in prediction.bad_rows[:1]
                        for row in batch.slice(bad.row, 1).to_pylist()
                    ]
                    model = shown(json.loads(line)["path"])
                    raise RowError(
                        f"{error}. The model is {model}, its inputs are {', '.join(cells)}"
                    ) from None
                predicted.write_batch(selected(whole, result.names))
                answers.flush()
    finally:
        process.close()


def main() -> int:
    """Serve the JVM that has started this process; return its exit status.

    The pipes are for Arrow, and at the end for one error.
    """
    answers, errors = (os.fdopen(os.dup(number), "wb") for number in (1, 2))
    # Libraries print to these descriptors, which would damage the Arrow stream and the text of the
    # error.
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    try:
        serve(sys.stdin.buffer, answers)
    except Exception as error:
        # This is the form in which Flink reports errors of Python functions, so the JVM's text of
        # this error is translated like the text of any other Python function.
        known = f"bridge.exceptions.{type(error).__name__}: {error}"
        # The SQL client shows the innermost cause, with all of its lines, so the JVM makes one of
        # the summary.
        both = f"{known}\0{summary_of(known, 'in the logs of the TaskManagers')}"
        with errors:
            errors.write(
                (both if isinstance(error, BridgeError) else traceback.format_exc()).encode()
            )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
