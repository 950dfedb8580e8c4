"""The Flink graph of one script operator: encode, announce, exchange.

    table --SQL and a vectorized function--> (key, ROW(rows, records)) --keyed--+
    one element per member --keyed--> Announce --(key, ROW(address))-----------> Exchange --> slices of columns
    slices of columns --UNNEST, CAST--> table

Rows are keyed in the JVM. Announce and Exchange have one subtask per member and are co-located, so both run where the
member's process runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pyflink.common import TypeInformation, Types
from pyflink.datastream.data_stream import DataStream, KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, StreamTableEnvironment, Table
from pyflink.table import Schema as FlinkSchema
from pyflink.table.udf import ScalarFunction, udf

from bridge.carried import carry, carry_own_packages
from bridge.decoder import RowDecoder
from bridge.encoder import RowEncoder
from bridge.exceptions import ConfigurationError
from bridge.exchange import Exchange
from bridge.rendezvous import Announce
from bridge.schema import quoted
from bridge.settings import RESTART, UNCOMMITTED, GroupSettings
from bridge.stream_exchange import StreamExchange

MAX_PARALLELISM = 128  # keys are chosen for it, so it is set on both keyed operators

_TYPE_INFOS = {
    "BOOLEAN": Types.BOOLEAN(),
    "TINYINT": Types.BYTE(),
    "SMALLINT": Types.SHORT(),
    "INT": Types.INT(),
    "BIGINT": Types.LONG(),
    "FLOAT": Types.FLOAT(),
    "DOUBLE": Types.DOUBLE(),
    "STRING": Types.STRING(),
    "BYTES": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "TIMESTAMP_LTZ": Types.INSTANT(),
}
_CHUNK = Types.ROW_NAMED(["x", "n", "b"], [Types.INT(), Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
_INDEX = Types.ROW_NAMED(["i"], [Types.INT()])
_ADDRESS = Types.ROW_NAMED(["i", "h", "p", "g"], [Types.INT(), Types.STRING(), Types.INT(), Types.INT()])


def run_script(
    table_env: StreamTableEnvironment, table: Table, extra: Sequence[Table], settings: GroupSettings, group: str
) -> Table:
    """Return the table of rows that the script writes when it is fed with `table`.

    Args:
        table_env: The environment of `table`, in batch or streaming mode.
        table: The input, with exactly the columns of `settings.input_schema`.
        extra: Inputs that every process gets whole, with exactly the columns of `settings.extra_schemas`.
        settings: What the group of processes is told.
        group: Unique name of the group, made of letters, digits and `_`.
    """
    keys = _one_key_per_subtask(settings.size)
    carry_own_packages(table_env)
    for path in settings.carried:
        carry(table_env, path)
    chunks = _encode(table_env, table, extra, settings, group, keys)
    indexes = _indexes(keys)
    if settings.kind == "stream":
        exchange: Exchange = StreamExchange(settings, group, keys, _keeps_rows(table_env, settings))
        chunks, indexes = _alive_as_long(table_env, chunks, indexes, group)
    else:
        exchange = Exchange(settings, group, keys, is_streaming(table_env))
    announced = _announce(table_env, indexes, settings, group, keys)
    decoder = RowDecoder(settings.output_schema)
    # Arrays have names of their own, so that the schema may use any.
    arrays = [f"c{place}" for place in range(len(decoder.transport_types))]
    slices = announced.connect(_keyed(chunks, _CHUNK)).process(
        exchange,
        output_type=Types.ROW_NAMED(
            ["akdl_places", *arrays],
            [Types.OBJECT_ARRAY(Types.INT()), *(Types.OBJECT_ARRAY(_type_info(sql)) for sql in decoder.transport_types)],
        ),
    )
    _place(slices, settings.operator, group, settings.size)
    if not is_streaming(table_env):
        _take_chunks_unsorted(slices)
    view = f"akdl_slices_{group}"
    table_env.create_temporary_view(view, table_env.from_data_stream(slices))
    cells = ", ".join(f"{array}[akdl_place] AS {quoted(name)}" for array, name in zip(arrays, settings.output_schema.names))
    rows = f"SELECT {cells} FROM {view} CROSS JOIN UNNEST(akdl_places) AS of_slice(akdl_place)"
    result = table_env.sql_query(f"SELECT {', '.join(decoder.casts)} FROM ({rows})")
    if settings.watermark is None:
        return result
    # Those of the input do not hold here: the script may write late, and other times.
    event_time = FlinkSchema.new_builder().watermark(*settings.watermark).build()
    return table_env.from_data_stream(table_env.to_data_stream(result), event_time)


class _Encode(ScalarFunction):  # type: ignore[misc]
    """Turns n rows into at most one cell per worker: (key, number of rows, their records); other cells are null."""

    def __init__(self, encoder: RowEncoder, worker_keys: list[int]) -> None:
        self._encoder = encoder
        self._keys = worker_keys

    def open(self, function_context: Any) -> None:
        self._first = 0  # where dealing goes on, so that shares differ by at most one row

    def is_deterministic(self) -> bool:
        return False  # the same rows are dealt differently each time

    def eval(self, *columns: Any) -> pd.DataFrame:
        encoded = self._encoder.encode(columns)
        size = len(encoded)
        # Arrays of objects: PyFlink cannot convert pandas' own nullable types, and pandas would look at each cell of a list.
        key, rows, records = (np.full(size, None, object) for _ in range(3))
        for cell, (worker, count, chunk) in enumerate(encoded.deal(len(self._keys), self._first)):
            key[cell], rows[cell], records[cell] = self._keys[worker], count, chunk
        self._first = (self._first + size) % len(self._keys)
        return pd.DataFrame({"w": key, "n": rows, "b": records})


def _encode(
    table_env: StreamTableEnvironment,
    table: Table,
    extra: Sequence[Table],
    settings: GroupSettings,
    group: str,
    keys: list[int],
) -> DataStream:
    added = settings.script_schema.columns[len(settings.input_schema.columns) :]
    encoder = RowEncoder(settings.input_schema, settings.exact_doubles, added)
    cells = _cells(table_env, table, encoder, [keys[index] for index in settings.fed], group)
    queries = [f"SELECT p.w AS w, ROW(0, p.n, p.b) AS v FROM ({cells}) WHERE p.w IS NOT NULL"]
    members = ", ".join(f"(CAST({key} AS BIGINT))" for key in keys)
    for number, (each, schema) in enumerate(zip(extra, settings.extra_schemas), 1):
        cells = _cells(table_env, each, RowEncoder(schema, settings.exact_doubles), [0], f"{group}_{number}")
        queries.append(
            f"SELECT m.w AS w, ROW({number}, p.n, p.b) AS v FROM ({cells}) CROSS JOIN (VALUES {members}) AS m(w) "
            "WHERE p.w IS NOT NULL"
        )
    return _stream(table_env, table_env.sql_query(" UNION ALL ".join(queries)), _CHUNK)


def _cells(table_env: StreamTableEnvironment, table: Table, encoder: RowEncoder, keys: list[int], name: str) -> str:
    """Return a query for the column p of cells, see `_Encode`."""
    cell = DataTypes.ROW(
        [
            DataTypes.FIELD("w", DataTypes.BIGINT()),
            DataTypes.FIELD("n", DataTypes.INT()),
            DataTypes.FIELD("b", DataTypes.BYTES()),
        ]
    )
    # Names that no built-in function has: Flink would take the built-in without a word.
    function, view = f"akdl_encode_{name}", f"akdl_input_{name}"
    encode = udf(_Encode(encoder, keys), result_type=cell, func_type="pandas")
    table_env.create_temporary_function(function, encode)
    table_env.create_temporary_view(view, table)
    return f"SELECT {function}({', '.join(encoder.sql_arguments)}) AS p FROM {view}"


def _indexes(keys: list[int]) -> str:
    members = ", ".join(f"({key}, {index})" for index, key in enumerate(keys))
    return f"SELECT CAST(w AS BIGINT) AS w, ROW(i) AS v FROM (VALUES {members}) AS m(w, i)"


def _alive_as_long(table_env: StreamTableEnvironment, chunks: DataStream, indexes: str, group: str) -> tuple[DataStream, str]:
    """Return the chunks, and a query for the indexes that does not end before the chunks do.

    A job that goes on from a checkpoint does not run again what had ended before it, and the addresses would be missing.
    So the announcement also waits for elements that never come, from a branch of the chunks.
    """
    view = f"akdl_chunks_{group}"
    table_env.create_temporary_view(view, table_env.from_data_stream(chunks))
    again = _stream(table_env, table_env.sql_query(f"SELECT w, ROW(v.x, v.n, v.b) AS v FROM {view} WHERE v.x >= 0"), _CHUNK)
    return again, f"{indexes} UNION ALL SELECT w, ROW(v.x) AS v FROM {view} WHERE v.x < 0"


def _keeps_rows(table_env: StreamTableEnvironment, settings: GroupSettings) -> bool:
    """Whether rows have to be kept until the script is done with them: for a checkpoint, or for the script's next start."""
    return has_checkpoints(table_env) or settings.replay == UNCOMMITTED or settings.on_return == RESTART


def _announce(
    table_env: StreamTableEnvironment, indexes: str, settings: GroupSettings, group: str, keys: list[int]
) -> KeyedStream:
    announced = _keyed(_stream(table_env, table_env.sql_query(indexes), _INDEX), _INDEX).process(
        Announce(group, keys, settings.host_network, again=settings.kind == "stream"),
        output_type=Types.ROW([Types.LONG(), _ADDRESS]),
    )
    _place(announced, f"{settings.operator}, addresses", group, settings.size)
    return _keyed(announced, _ADDRESS)


def has_checkpoints(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment take checkpoints."""
    enabled = table_env._j_tenv.execEnv().getCheckpointConfig().isCheckpointingEnabled()
    return bool(enabled or table_env.get_config().get("execution.checkpointing.interval", "") != "")


def is_streaming(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment run in streaming mode."""
    return bool(table_env.get_config().get("execution.runtime-mode", "STREAMING").upper() != "BATCH")


def _stream(table_env: StreamTableEnvironment, table: Table, value_type: Any) -> DataStream:
    # to_data_stream would give a type that keyed Python operators refuse.
    return table_env.to_append_stream(table, Types.ROW_NAMED(["w", "v"], [Types.LONG(), value_type]))


def _keyed(stream: DataStream, value_type: Any) -> KeyedStream:
    """Key a stream of (key, value) rows in the JVM; `key_by` would take the whole payload to Python and back."""
    selector = get_gateway().jvm.org.apache.flink.streaming.api.functions.python.KeyByKeySelector()
    key_type = Types.ROW([Types.LONG()]).get_java_type_info()
    return KeyedStream(stream._j_data_stream.keyBy(selector, key_type), value_type, stream)


def _place(stream: DataStream, name: str, group: str, parallelism: int) -> None:
    """One subtask per member, each on the same TaskManager as its fellow of the other operator."""
    stream.set_parallelism(parallelism).set_max_parallelism(MAX_PARALLELISM).name(name)
    stream._j_data_stream.getTransformation().setCoLocationGroupKey(group)


def _take_chunks_unsorted(slices: DataStream) -> None:
    """Let chunks through as they come, in batch mode, where Flink sorts keyed inputs by their key.

    A subtask has one key, so there is nothing to sort, but it took as long as the feed itself. Without a key selector in the
    JVM an input passes unsorted; PyFlink has the key in the row. Flink takes such an input whole before it takes the sorted
    one, the addresses, and their watermark: so the end of input still comes after the last row, whatever the plan before it is.
    """
    two_inputs = slices._j_data_stream.getTransformation()
    two_inputs.setStateKeySelectors(two_inputs.getStateKeySelector1(), None)


def _type_info(sql: str) -> TypeInformation:
    """Return the stream type of a transport type of the decoder."""
    if sql.startswith("ARRAY<"):
        return Types.OBJECT_ARRAY(_TYPE_INFOS[sql[len("ARRAY<") : -1]])
    return _TYPE_INFOS[sql]


def _one_key_per_subtask(size: int) -> list[int]:
    """Search a key that each subtask owns. PyFlink hashes a Row around the key, so Flink itself is asked."""
    if size > MAX_PARALLELISM:
        raise ConfigurationError(f"numWorkers + numPSs is {size}, but one group has at most {MAX_PARALLELISM} processes")
    gateway = get_gateway()
    assign = gateway.jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment.assignKeyToParallelOperator
    found: dict[int, int] = {}
    for candidate in itertools.count():
        if len(found) == size:
            break
        fields = gateway.new_array(gateway.jvm.Object, 1)
        fields[0] = candidate
        found.setdefault(assign(gateway.jvm.org.apache.flink.types.Row.of(fields), MAX_PARALLELISM, size), candidate)
    return [found[index] for index in range(size)]
