"""Settings of a prediction, made of the parameters of a predictor and of the columns of its rows;
without Flink.

The message `Serving` has the parameters of the model under their own names, so they are copied here
as a whole, and no code between the catalogue and the module of `akdl.serving` that acts on a
parameter has to know it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from google.protobuf import json_format

from akdl.near_names import listed
from akdl.serving.output_cells import result_columns
from akdl.storage.files import is_registered
from akdl.wire import Serving
from akdl.wire.column_type import INTEGERS, Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, table_columns
from operators.params.checks import read_time, shared_path
from operators.params.param import WithParams


def fed_columns(params: WithParams, columns: Sequence[str]) -> list[str]:
    """Columns whose cells the process of the model gets: its inputs, and then the column of
    keys.
    """
    values = params._values_of_all()
    keys = [] if values.get("modelKeyCol") is None else [values["modelKeyCol"]]
    for parameter, names in (
        ("selectedCols", values["selectedCols"]),
        ("reservedCols", values["reservedCols"]),
        ("modelKeyCol", keys),
    ):
        params._check_known(parameter, names, columns)
    selected = columns if values["selectedCols"] is None else values["selectedCols"]
    return [*(name for name in selected if name not in keys), *keys]


def serving_of(params: WithParams, inputs: Schema) -> Serving:
    """Settings for a model that gets the columns of `fed_columns`.

    Args:
        params: Operator with the parameters of a prediction.
        inputs: Columns that the model process gets, in their order.

    Raises:
        ConfigurationError: Parameters contradict the columns or each other.
    """
    name = type(params).__name__
    values = params._values_of_all()
    outputs = Schema.parse(values["outputSchemaStr"])
    key = values.get("modelKeyCol")
    fed = [column.name for column in inputs if column.name != key]
    check_key(name, "modelKeyCol", [column for column in inputs if column.name == key])
    params._check_known("defaults", list(json.loads(values["defaults"])), fed)
    for parameter, names, other in (
        ("inputSignatureDefs", fed, "selectedCols"),
        ("outputSignatureDefs", outputs.names, "outputSchemaStr"),
    ):
        keys = values.get(parameter)
        if keys is not None and len(keys) != len(names):
            expected = f"{len(names)} names for the columns of {other} ({', '.join(names)})"
            raise ConfigurationError(f"{name}: {parameter}: expected {expected}, got {len(keys)}")
    # The message names its fields as the parameters are named, so a new parameter of the model is
    # copied without a line of code here.
    fields = {field.camelcase_name for field in Serving.DESCRIPTOR.fields}
    given = {each: value for each, value in values.items() if each in fields and value is not None}
    serving = json_format.Parse(json.dumps(given), Serving())
    serving.input_columns.extend(table_columns(inputs))
    serving.output_columns.extend(table_columns(outputs))
    folder = serving.model_stream_file_path
    path = values.get("modelPath") or ""
    # A stream follows an alias. A table does not, since its rows belong together. Newer models
    # have neither candidates nor several processes.
    is_alias = is_registered(path) and "@" in path
    alone = not serving.candidate_path and values.get("inferProcesses", 1) == 1
    if is_alias and alone and not folder and serving.model_stream_scan_interval:
        serving.model_stream_file_path = path
    if serving.model_stream_file_path and key:
        raise ConfigurationError(f"{name}: expected modelKeyCol or modelStreamFilePath, got both")
    if folder and not is_registered(folder):
        serving.model_stream_file_path = shared_path(name, "modelStreamFilePath", folder)
        start = values["modelStreamStartTime"]
        # The moment is fixed here, when an operator is linked, so that all hosts, and a restarted
        # job, agree on which models are new.
        start_s = time.time() if start is None else read_time(start).timestamp()
        serving.models_from_ms = int(start_s * 1000)
    return serving


def check_key(name: str, parameter: str, columns: Sequence[Column]) -> None:
    """ConfigurationError for a column that cannot hold keys."""
    for column in columns:
        if column.type.is_array or column.type.kind not in (*INTEGERS, Kind.STRING):
            raise ConfigurationError(
                f"{name}: {parameter}: expected a column of integers or texts, got {column.name!r},"
                f" {column.type.sql}"
            )


def predicted_schema(serving: Serving) -> Schema:
    """All columns that the process of the model returns."""
    return Schema(
        tuple(Column(column.name, parse_type(column.type)) for column in result_columns(serving))
    )


def columns_of_result(
    params: WithParams, columns: Sequence[str], outputs: Sequence[str]
) -> list[tuple[str, bool]]:
    """Columns of the result: name, and True for an output, False for an input that stays.

    Reserved columns come in the order of the input, then outputs; an output named like an input
    column takes its place.
    """
    reserved = params._values_of_all()["reservedCols"]
    both = [name for name in reserved or () if name in outputs]
    if both:
        raise ConfigurationError(
            f"{type(params).__name__}: reservedCols and outputSchemaStr both name {listed(both)}:"
            " give the output another name in outputSchemaStr, or leave the column out of"
            " reservedCols, and the output replaces it"
        )
    kept = columns if reserved is None else reserved
    front = [(name, name in outputs) for name in columns if name in outputs or name in kept]
    return [*front, *((name, True) for name in outputs if name not in columns)]
