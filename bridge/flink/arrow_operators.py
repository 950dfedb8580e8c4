"""The operators that run in the JVM: rows to Arrow, Arrow to rows, and a counter of late rows.

They are Java text in this folder, which Flink compiles like its generated code: neither a JDK nor a
jar is needed. They use classes that are internal to Flink, as do some modules of
`bridge/workarounds`; a test looks for all of them in Flink's jars.
"""

from __future__ import annotations

import functools
import glob
import itertools
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyflink.common import Types
from pyflink.datastream.data_stream import DataStream, KeyedStream
from pyflink.table import Schema as FlinkSchema
from pyflink.table import StreamTableEnvironment, Table
from pyflink.util.exceptions import TableException
from pyflink.util.java_utils import get_field_value, to_jarray

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink.elements import BYTES, ELEMENT, KEY_AND_ELEMENT
from bridge.host.program_folder import program_folder
from bridge.host.shipped import runs_elsewhere
from bridge.schema import Schema
from bridge.settings import Gathering
from bridge.workarounds.java_text import flink_classes, java_text, running_jvm
from bridge.workarounds.pyflink_defects import column_names

# A subtask that deals single rows fills a chunk for each worker at the same time. All of its chunks
# together stay below this size.
_ALL_WRITERS_BYTES = 32 << 20
# These words are in Flink's error for a table with updates.
_UPDATES = "doesn't support consuming"


def rows_for_members(
    table_env: StreamTableEnvironment,
    table: Table,
    keys: Sequence[int],
    gathering: Gathering,
    input_number: int = 0,
    members: Sequence[int] | None = None,
    uid: str | None = None,
    where: str = "the input",
    sends_watermarks: bool = False,
    folder: str | None = None,
) -> DataStream:
    """Rows of a table as a stream of (key, element), dealt to `keys`.

    Each of `members`, by default the keys, gets a START whenever the job starts. With a folder of
    this host, the elements hold names of files there, which the reader removes.
    """
    row_type = _arrow_row_type(table)
    if gathering.by_row:
        share = max(_ALL_WRITERS_BYTES // len(keys), 1 << 16)
        gathering = replace(gathering, bytes=min(gathering.bytes, share))
    try:
        rows = _translated(table_env, table)
    except TableException as error:
        if _UPDATES not in str(error):
            raise
        raise ConfigurationError(
            f"{where} is a changing table (GROUP BY or JOIN of a stream): it updates earlier rows,"
            " but each row is read once here. Group in windows, for example with TUMBLE, or"
            " aggregate after this operator"
        ) from None
    return _to_arrow(
        rows,
        row_type,
        gathering,
        KEY_AND_ELEMENT,
        uid,
        keys=_longs(keys),
        input=input_number,
        members=_longs(keys if members is None else members),
        sendsWatermarks=sends_watermarks,
        folder=folder,
    )


def deal_to(chunks: DataStream, keys: Sequence[int], members: Sequence[int]) -> None:
    """Deal the rows of `rows_for_members` to other keys, in the jobs that start from now on."""
    # The operator reads its settings from this map when a task starts, so a change takes effect in
    # the next job.
    factory = chunks._j_data_stream.getTransformation().getOperatorFactory()
    (settings,) = get_field_value(factory, "generatedClass").getReferences()
    settings.putAll({"keys": _longs(keys), "members": _longs(members)})


def chunks_of(
    table_env: StreamTableEnvironment,
    table: Table,
    gathering: Gathering,
    uid: str | None = None,
    sends_marks: bool = False,
    folder: str | None = None,
    sends_all_out: bool = False,
) -> tuple[DataStream, bool]:
    """Rows of a table as a stream of elements without keys, in their order, and True if it sends
    updates and deletes too.

    See `rows_for_members` for `folder`.
    """
    row_type = _arrow_row_type(table)
    try:
        # Flink refuses to make a stream of new rows from a table with updates. This is how such a
        # table is recognized.
        rows = _translated(table_env, table)
        updates = False
    except TableException as error:
        if _UPDATES not in str(error):
            raise
        rows = _translated(table_env, table, with_updates=True)
        updates = True
    settings = {"sendsMarks": sends_marks, "sendsAllOut": sends_all_out, "folder": folder}
    return _to_arrow(rows, row_type, gathering, ELEMENT, uid, **settings), updates


def whole_chunks(
    table: Table, elements: DataStream, uid: str, sends_marks: bool, ends: bool
) -> DataStream:
    """Chunks of the elements of which a table is made, see `chunks_of`; with `ends`, the last
    element has to be an END.
    """
    return _to_arrow(
        elements._j_data_stream,
        _arrow_row_type(table),
        Gathering(),
        ELEMENT,
        uid,
        sendsMarks=sends_marks,
        ends=ends,
    )


def upsert_keys(table_env: StreamTableEnvironment, table: Table) -> list[list[str]]:
    """The keys, of columns without nulls, by which the updates of a table replace each other."""
    rel = (
        table_env._j_tenv.getPlanner()
        .createRelBuilder()
        .queryOperation(table._j_table.getQueryOperation())
        .build()
    )
    types = column_types(table)
    keys = [
        [types[place] for place in key.toArray()]
        for key in rel.getCluster().getMetadataQuery().getUpsertKeys(rel) or ()
    ]
    return [
        [name for name, _ in key]
        for key in keys
        if key and not any(type_.isNullable() for _, type_ in key)
    ]


def table_of(
    table_env: StreamTableEnvironment,
    chunks: DataStream,
    columns: Sequence[tuple[str, object]],
    schema: Any = None,
    updates: bool = False,
    uid: str | None = None,
    takes_watermarks: bool = False,
    folder: str | None = None,
    ends: bool = False,
) -> Table:
    """Table of a stream of elements without keys; `schema` is a PyFlink schema, such as one with a
    watermark.

    With `ends`, the last element has to be an END.
    """
    flink = flink_classes()
    # Like PyFlink when it makes a table of a stream: earlier functions get the job's configuration.
    flink.python.util.PythonConfigUtil.configPythonOperator(table_env._j_tenv.execEnv())
    row_type = _new_row_type(columns)
    info = flink.table.runtime.typeutils.InternalTypeInfo.of(row_type)
    settings = {
        "type": row_type,
        "takesWatermarks": takes_watermarks,
        "folder": folder,
        "ends": ends,
    }
    rows = _with_chunk_operator(chunks._j_data_stream, "ArrowToRows", info, uid, settings)
    j_tenv = table_env._j_tenv
    j_schema = (schema or FlinkSchema.new_builder().build())._j_schema
    if not updates:
        return Table(j_tenv.fromDataStream(rows, j_schema), table_env)
    # `fromChangelogStream` takes only Flink's external Row, so for RowData its operation is built
    # here.
    catalogs = j_tenv.getCatalogManager()
    found = flink.table.catalog.SchemaTranslator.createConsumingResult(
        catalogs.getDataTypeFactory(), rows.getType(), j_schema
    )
    operation = flink.table.operations.ExternalQueryOperation(
        _anonymous_table(catalogs, "datastream_source", found.getSchema()),
        rows,
        found.getPhysicalDataType(),
        found.isTopLevelRecord(),
        flink.table.connector.ChangelogMode.all(),
    )
    return Table(j_tenv.createTable(operation), table_env)


def with_late_rows_counted(
    table_env: StreamTableEnvironment, table: Table, column: str, name: str, uid: str
) -> Table:
    flink = flink_classes()
    rows = _translated(table_env, table)
    columns = column_types(table)
    place = [name for name, _ in columns].index(column)
    info = flink.table.runtime.typeutils.InternalTypeInfo.of(_new_row_type(columns))
    precision = flink.table.types.logical.utils.LogicalTypeChecks.getPrecision(columns[place][1])
    settings = {"place": place, "precision": precision, "name": name}
    counted = _with_chunk_operator(rows, "LateRows", info, uid, settings)
    # SOURCE_WATERMARK() stands for the watermark that has arrived, so the counter changes no
    # watermarks.
    schema = FlinkSchema.new_builder().watermark(column, "SOURCE_WATERMARK()").build()
    return Table(table_env._j_tenv.fromDataStream(counted, schema._j_schema), table_env)


def table_of_own(
    table_env: StreamTableEnvironment,
    chunks: Iterable[bytes],
    columns: Sequence[tuple[str, object]],
) -> Table:
    environment = table_env._j_tenv.execEnv()
    known = get_field_value(environment, "transformations")
    before = known.size()
    folder = None
    # On a cluster, the rows travel in the job. In a local job, the JVM reads them from files of
    # this program.
    if runs_elsewhere(table_env):
        # The rows go through a file, because py4j would take a second for 25 MB.
        with tempfile.NamedTemporaryFile(dir=program_folder()) as file:
            for chunk in chunks:
                file.write(len(chunk).to_bytes(4, "big"))
                file.write(chunk)
            file.flush()
            arrays = flink_classes().api.common.python.PythonBridgeUtils.readPickledBytes(file.name)
        source = environment.fromData(arrays, BYTES.get_java_type_info())
    else:
        folder = _folder_of_own()
        count = 0
        for count, chunk in enumerate(chunks, 1):
            with open(f"{folder}/{count}", "wb") as file:
                file.write(chunk)
        source = environment.fromSequence(1, count)
    table = table_of(table_env, DataStream(source.setParallelism(1)), columns, folder=folder)
    if folder is not None:
        _owners().put(known.get(known.size() - 1), folder)
    # The environment would hold the rows until its end. The table refers to them anyway.
    del known[before:]
    return table


def _folder_of_own() -> str:
    """Folder for the rows of a table. The folders of tables that Java has collected are removed."""
    # One call of the JVM returns all names, since calls are slow.
    used = set(running_jvm().String.join("\0", _owners().values()).split("\0"))
    for path in glob.glob(f"{glob.escape(program_folder())}/rows_*"):
        if path not in used:
            shutil.rmtree(path, ignore_errors=True)
    return tempfile.mkdtemp(prefix="rows_", dir=program_folder())


@functools.cache
def _owners() -> Any:
    """Folders of the rows of tables, by the transformations that read them, in Java.

    The map is weak, so a table that Java has collected drops out, and its folder can be removed.
    """
    return running_jvm().java.util.WeakHashMap()


def sent_at_once(stream: DataStream) -> DataStream:
    """Let no element wait in a buffer that is not full: in streams for 100 ms, in batch mode until
    the end.
    """
    stream._j_data_stream.getTransformation().setBufferTimeout(0)
    return stream


def keyed(stream: DataStream, value_type: object) -> KeyedStream:
    """Key a stream of (key, value) rows in the JVM; `key_by` would take the whole payload to Python
    and back.
    """
    selector = flink_classes().streaming.api.functions.python.KeyByKeySelector()
    # PyFlink's keys are rows with one field.
    key_type = Types.ROW([Types.LONG()]).get_java_type_info()
    return KeyedStream(stream._j_data_stream.keyBy(selector, key_type), value_type, stream)


def least_keys(groups: int) -> list[int]:
    """Ask Flink for a key of each key group: PyFlink hashes a Row around the key."""
    flink = flink_classes()
    assign = flink.runtime.state.KeyGroupRangeAssignment.assignToKeyGroup
    row = flink.types.Row(1)
    found: dict[int, int] = {}
    for candidate in itertools.count():
        if len(found) == groups:
            break
        row.setField(0, candidate)
        found.setdefault(assign(row, groups), candidate)
    return [key for _, key in sorted(found.items())]


def column_types(table: Table) -> list[tuple[str, Any]]:
    """Names and logical types of a table's columns; time attributes become plain timestamps."""
    remove = flink_classes().table.types.logical.utils.LogicalTypeUtils.removeTimeAttributes
    plain = remove(_row_type(table))
    return [(name, plain.getTypeAt(place)) for place, name in enumerate(column_names(table))]


@functools.cache
def logical_type(sql: str) -> Any:
    """Logical type of Flink for SQL text. It never changes, and calls of the JVM are slow."""
    jvm = running_jvm()
    flink = jvm.org.apache.flink
    loader = jvm.Thread.currentThread().getContextClassLoader()
    return flink.table.types.logical.utils.LogicalTypeParser.parse(sql, loader)


def logical_types(schema: Schema) -> list[tuple[str, Any]]:
    """Names and logical types of a schema's columns."""
    return [(column.name, logical_type(column.type.sql)) for column in schema]


def with_operator(
    stream: Any,
    name: str,
    text: str,
    references: Sequence[object],
    out_type: object,
    uid: str | None = None,
) -> Any:
    """Append an operator to a Java stream. `text` is a Java class, whose constructor takes
    `references` first.
    """
    jvm = running_jvm()
    flink = jvm.org.apache.flink
    # Flink parses each text that is longer than this, to split its methods. Ours are short.
    configuration = flink.configuration.Configuration()
    configuration.setString("table.generated-code.max-length", str(len(text)))
    generated = flink.table.runtime.generated.GeneratedOperator(
        name, text, to_jarray(jvm.Object, references), configuration
    )
    factory = flink.table.runtime.operators.CodeGenOperatorFactory(generated)
    above = stream.getTransformation()
    one_input = flink.streaming.api.transformations.OneInputTransformation
    transformation = one_input(above, name, factory, out_type, above.getParallelism())
    if above.getMaxParallelism() > 0:
        transformation.setMaxParallelism(above.getMaxParallelism())
    if uid is not None:
        transformation.setUid(uid)
    environment = stream.getExecutionEnvironment()
    environment.addOperator(transformation)
    return flink.streaming.api.datastream.DataStream(environment, transformation)


def _to_arrow(
    rows: object,
    row_type: object,
    gathering: Gathering,
    type_info: Any,
    uid: str | None,
    **settings: object,
) -> DataStream:
    settings = {
        "type": row_type,
        "dealsRows": gathering.by_row,
        "mostRows": gathering.rows,
        "mostBytes": gathering.bytes,
        "waitMs": gathering.wait_ms,
        **settings,
    }
    chunks = _with_chunk_operator(
        rows, "RowsToArrow", type_info.get_java_type_info(), uid, settings
    )
    # The name of a file fills no buffer, and in batch mode Flink would send a buffer only when it
    # is full.
    if settings.get("folder") is not None:
        chunks.getTransformation().setBufferTimeout(0)
    return DataStream(chunks)


def _with_chunk_operator(
    stream: object, name: str, out_type: object, uid: str | None, settings: dict[str, object]
) -> Any:
    """Append RowsToArrow, ArrowToRows or LateRows; `settings` are public fields of theirs,
    by name.
    """
    known = running_jvm().java.util.HashMap(settings)
    return with_operator(
        stream, name, java_text(__package__, "ChunkOperator", name), [known], out_type, uid
    )


def _longs(numbers: Sequence[int]) -> Any:
    return to_jarray(running_jvm().long, numbers)


def _translated(table_env: StreamTableEnvironment, table: Table, with_updates: bool = False) -> Any:
    """Rows of a table as a Java stream: `toDataStream`, but with updates too.

    Two operators that copy each row go: one checks NOT NULL, one converts what has the type
    already.
    """
    jvm = running_jvm()
    flink = jvm.org.apache.flink
    j_tenv = table_env._j_tenv
    catalogs = j_tenv.getCatalogManager()
    modes = flink.table.connector.ChangelogMode
    schema = table._j_table.getResolvedSchema()
    inference = flink.table.types.inference
    # The planner adds its check of NOT NULL only for columns that are NOT NULL.
    nullable = to_jarray(inference.TypeTransformation, [inference.TypeTransformations.toNullable()])
    row_type = flink.table.types.utils.DataTypeUtils.transform(
        schema.toSourceRowDataType(), nullable
    )
    loader = jvm.Thread.currentThread().getContextClassLoader()
    row_data = jvm.java.lang.Class.forName("org.apache.flink.table.data.RowData", False, loader)
    found = flink.table.catalog.SchemaTranslator.createProducingResult(
        catalogs.getDataTypeFactory(), schema, row_type.notNull().bridgedTo(row_data)
    )
    operation = flink.table.operations.ExternalModifyOperation(
        _anonymous_table(catalogs, "datastream_sink", found.getSchema()),
        table._j_table.getQueryOperation(),
        modes.all() if with_updates else modes.insertOnly(),
        found.getPhysicalDataType().get(),
    )
    (rows,) = j_tenv.getPlanner().translate(jvm.java.util.Collections.singletonList(operation))
    # The last operator converts RowData to RowData, so its input is taken.
    (rows,) = rows.getInputs()
    environment = j_tenv.execEnv()
    environment.addOperator(rows)
    return flink.streaming.api.datastream.DataStream(environment, rows)


def _anonymous_table(catalogs: Any, name: str, schema: Any) -> Any:
    catalog = flink_classes().table.catalog
    resolved = catalogs.resolveCatalogTable(catalog.ExternalCatalogTable(schema))
    return catalog.ContextResolvedTable.anonymous(name, resolved)


def _row_type(table: Table) -> Any:
    return table._j_table.getResolvedSchema().toSourceRowDataType().getLogicalType()


def _arrow_row_type(table: Table) -> Any:
    """Logical type of a table's rows; SchemaError at the first column of a type that Arrow
    lacks.
    """
    utils = flink_classes().table.runtime.arrow.ArrowUtils
    row_type = _row_type(table)
    try:
        # All columns are tried at once, because there may be thousands, and calls of the JVM are
        # slow.
        utils.toArrowSchema(row_type)
    except Py4JJavaError:
        for column in row_type.getFields():
            try:
                utils.toArrowSchema(_new_row_type([(column.getName(), column.getType())]))
            except Py4JJavaError:
                raise SchemaError(
                    f"the column {column.getName()!r} has the type"
                    f" {column.getType().asSummaryString()}, which Arrow does not have: CAST it, or"
                    " leave it out"
                ) from None
        raise
    return row_type


def arrow_types(table: Table) -> pa.Schema:
    """Arrow types of a table's chunks."""
    jvm = running_jvm()
    flink = jvm.org.apache.flink
    ipc = flink.api.python.shaded.org.apache.arrow.vector.ipc
    out = jvm.java.io.ByteArrayOutputStream()
    channel = ipc.WriteChannel(jvm.java.nio.channels.Channels.newChannel(out))
    schema = flink.table.runtime.arrow.ArrowUtils.toArrowSchema(_arrow_row_type(table))
    ipc.message.MessageSerializer.serialize(channel, schema)
    return pa.ipc.read_schema(pa.py_buffer(out.toByteArray()))


def _new_row_type(columns: Sequence[tuple[str, object]]) -> Any:
    jvm = running_jvm()
    logical = jvm.org.apache.flink.table.types.logical
    types = to_jarray(logical.LogicalType, [type_ for _, type_ in columns])
    return logical.RowType.of(types, to_jarray(jvm.String, [name for name, _ in columns]))
