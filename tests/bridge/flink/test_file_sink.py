"""Files that jobs write: all types, restarts in the middle, streams with and without end."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyflink.table.udf import udf

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.publishing import FileSink
from bridge.flink.elements import origin_of
from bridge.flink.file_sink import write_files
from operators import (
    BatchOperator,
    CsvSinkBatchOp,
    CsvSinkStreamOp,
    FeatherSinkBatchOp,
    FeatherSinkStreamOp,
    JsonSinkBatchOp,
    JsonSinkStreamOp,
    ParquetSinkBatchOp,
    ParquetSinkStreamOp,
    ParquetSourceBatchOp,
    ParquetSourceStreamOp,
    StreamOperator,
    resetEnv,
    useLocalEnv,
)
from operators.flink.joint_job import collect

pytestmark = pytest.mark.flink

ALL_TYPES = """
    id, MOD(id, 3) = 0 AS b, CAST(MOD(id, 100) AS TINYINT) AS i1, CAST(MOD(id, 9999) AS SMALLINT) AS i2, CAST(id AS INT) AS i4,
    CAST(id AS FLOAT) / 7 AS f4, id / CAST(7 AS DOUBLE) AS f8, CAST(id AS DECIMAL(20, 3)) / 7 AS n, CAST(id AS STRING) AS s,
    CAST(CAST(id AS STRING) AS BYTES) AS bin, TIMESTAMPADD(DAY, CAST(MOD(id, 9999) AS INT), DATE '1900-01-01') AS d,
    CAST(TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '2024-01-01 00:00:00.123') AS TIME(3)) AS t,
    TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '1960-02-29 01:02:03.123') AS t3,
    CAST(TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '1960-02-29 01:02:03') AS TIMESTAMP(0)) AS t0,
    CAST(TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '1960-02-29 01:02:03.123456') AS TIMESTAMP_LTZ(6)) AS z6,
    CAST(TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '1960-02-29 01:02:03') AS TIMESTAMP(9)) AS t9,
    NULLIF(MOD(id, 2), 0) AS odd, ARRAY[id, NULL] AS a, MAP['k', CAST(id AS TIMESTAMP_LTZ(3))] AS m, ROW(id, 'x') AS r
""".replace("CAST(id AS TIMESTAMP_LTZ(3))", "TO_TIMESTAMP_LTZ(id, 3)")


@pytest.fixture
def env() -> Iterator[Callable[..., Any]]:
    """Return environments, whose jobs restart where they are told so."""

    def make(parallelism: int = 2, restarts: int = 0, **config: Any) -> Any:
        restart = {
            "type": "fixed-delay",
            "fixed-delay.attempts": str(restarts),
            "fixed-delay.delay": "10 ms",
        }
        options = (
            {f"restart-strategy.{key}": value for key, value in restart.items()} if restarts else {}
        )
        return useLocalEnv(parallelism, {**options, **config})

    yield make
    resetEnv()


def counting(
    table_env: Any, rows: int, per_second: int = 1_000_000_000, endless: bool = False
) -> Any:
    """Table of ids from 0, in a stream for Flink without an end that it has all the same."""
    end = "" if endless else f"'number-of-rows' = '{rows}', "
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'datagen', {end}'rows-per-second' = '{per_second}', "
        f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}')"
    )
    return table_env.from_path("ids")


def failing_once(table_env: Any, folder: pathlib.Path, at: int, times: int = 1) -> Any:
    """The ids, through a function that fails at one of them."""

    @udf(result_type="BIGINT")
    def fails(number: int) -> int:
        if number == at:
            for attempt in range(times):
                with contextlib.suppress(FileExistsError):
                    (folder / f"failed_{attempt}").touch(exist_ok=False)
                    raise ValueError("as asked for")
        return number

    table_env.create_temporary_function("fails", fails)
    return table_env.sql_query("SELECT fails(id) AS id FROM ids")


def files_below(folder: pathlib.Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.name.startswith("failed_")
    )


def ids_in(folder: pathlib.Path, form: str = "parquet") -> list[int]:
    return sorted(ds.dataset(folder, format=form).to_table()["id"].to_pylist())


@pytest.mark.long
def test_files_of_the_sink_hold_all_types_exactly(
    env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env, rows = env(2).btenv, 3000
    counting(table_env, rows)
    op = BatchOperator.fromTable(table_env.sql_query(f"SELECT {ALL_TYPES} FROM ids"))
    batches, _ = collect(op.getOutputTable())
    expected = pa.Table.from_batches(batches).sort_by("id")
    op.link(ParquetSinkBatchOp(filePath=f"{tmp_path}/parquet/", maxFileBytes=100_000))
    op.link(FeatherSinkBatchOp(filePath=str(tmp_path / "one.feather")))
    op.link(JsonSinkBatchOp(filePath=f"{tmp_path}/json/"))
    op.select("id, s, f8, z6").link(CsvSinkBatchOp(filePath=f"{tmp_path}/csv/", numFiles=1))
    op.select("id, s, b").link(
        ParquetSinkBatchOp(filePath=str(tmp_path / "hive"), partitionBy=["b"])
    )
    BatchOperator.execute()
    for found in (
        ds.dataset(tmp_path / "parquet").to_table(),
        pa.feather.read_table(tmp_path / "one.feather"),
    ):
        found = found.sort_by("id")
        assert found.schema.field("z6").type == pa.timestamp("us", "UTC")
        assert found.schema.field("m").type.item_type == pa.timestamp("ms", "UTC")
        for name, column in zip(expected.schema.names, expected.columns):
            if pa.types.is_map(column.type):
                assert (
                    found[name]
                    .combine_chunks()
                    .items.cast(pa.timestamp("ms"))
                    .equals(column.combine_chunks().items)
                )
            else:
                assert (
                    found[name].cast(column.type).combine_chunks().equals(column.combine_chunks())
                ), name
    writers = {path.name.split("-")[1] for path in (tmp_path / "parquet").iterdir()}
    assert writers == {"00000", "00001"}, "each subtask writes"
    assert len(list((tmp_path / "csv").iterdir())) == 1
    lines = sorted(
        line for path in (tmp_path / "csv").iterdir() for line in path.read_text().splitlines()
    )
    cells = zip(*(expected[name].to_pylist() for name in ("id", "s", "f8", "z6")))
    assert lines == sorted(",".join(map(str, row)) for row in cells)
    hive = ds.dataset(tmp_path / "hive", partitioning="hive").to_table()
    assert {row["id"] for row in hive.to_pylist() if row["b"] == "true"} == set(range(0, rows, 3))
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "json").iterdir()) == rows
    assert not [name for name in files_below(tmp_path) if "incomplete" in name or "old" in name]


@pytest.mark.parametrize(
    ("mode", "endless", "interval"),
    [
        pytest.param("btenv", False, None, marks=pytest.mark.long),
        pytest.param("stenv", False, "200 ms", marks=pytest.mark.long),
        ("stenv", True, "200 ms"),
    ],
)
@pytest.mark.fault(
    "jobs", "A job that fails while it writes files loses and doubles no row, and leaves nothing"
)
def test_a_restart_loses_and_doubles_nothing(
    env: Callable[..., Any], tmp_path: pathlib.Path, mode: str, endless: bool, interval: str | None
) -> None:
    config = {} if interval is None else {"execution.checkpointing.interval": interval}
    table_env = getattr(env(2, 5, **config), mode)
    counting(table_env, 2000, 1_000_000_000 if interval is None else 1000, endless)
    table = failing_once(table_env, tmp_path, 1500, times=2)
    address = f"{tmp_path}/out/"
    if mode == "btenv":
        BatchOperator.fromTable(table).link(ParquetSinkBatchOp(filePath=address))
        BatchOperator.execute()
    else:
        StreamOperator.fromTable(table).link(ParquetSinkStreamOp(filePath=address))
        StreamOperator.execute()
    assert sorted(path.name for path in tmp_path.glob("failed_*")) == ["failed_0", "failed_1"]
    assert ids_in(tmp_path / "out") == list(range(2000))
    others = [name for name in files_below(tmp_path) if not name.startswith("out")]
    assert others == [] or (endless and not any((tmp_path / others[0]).iterdir())), others


def operators_of(table: Any) -> list[str]:
    """Names of the operators that make a table of elements."""
    made = table._j_table.getQueryOperation().getDataStream().getTransformation()
    return [each.getName() for each in made.getTransitivePredecessors()]


@pytest.mark.slow
@pytest.mark.fault(
    "jobs", "A job that fails while it writes the chunks of an operator loses and doubles no row"
)
def test_chunks_pass_without_rows(env: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    table_env = env(2, 5, **{"execution.checkpointing.interval": "200 ms"}).stenv
    # its chunk arrives in pieces
    texts = [f"n{number}" * (1_100_000 if number == 777 else 1) for number in range(2000)]
    rows = pa.table({"id": range(2000), "s": texts, "t": [None] * 2000})
    rows = rows.set_column(2, "t", rows["t"].cast(pa.timestamp("us", "UTC")))
    pq.write_table(rows, tmp_path / "in.parquet", row_group_size=100)
    source = ParquetSourceStreamOp(filePath=str(tmp_path / "in.parquet"))
    chosen = source.select("s, id, `t`")
    assert origin_of(source.select("id, id + 1 AS more").getOutputTable()) is None
    target = FileSink("Sink", f"{tmp_path}/never", "parquet", "0", rows.schema)
    for subtasks, passes in ((None, 1), (1, 2)):
        graph = operators_of(write_files(table_env, chosen.getOutputTable(), target, subtasks)[0])
        assert (graph.count("ArrowToRows"), graph.count("RowsToArrow")) == (1, passes), (
            "the table of files alone"
        )
    source.link(ParquetSinkStreamOp(filePath=f"{tmp_path}/all/"))
    chosen.link(ParquetSinkStreamOp(filePath=f"{tmp_path}/one/", numFiles=1))
    table_env.create_temporary_view("ids", source.getOutputTable())
    StreamOperator.fromTable(failing_once(table_env, tmp_path, 1500)).link(
        ParquetSinkStreamOp(filePath=f"{tmp_path}/other/")
    )
    StreamOperator.execute()
    assert (tmp_path / "failed_0").exists()
    assert ds.dataset(tmp_path / "all").to_table().sort_by("id").equals(rows)
    assert pq.read_table(tmp_path / "one").sort_by("id").equals(rows.select(["s", "id", "t"]))
    assert ids_in(tmp_path / "other") == list(range(2000))


@pytest.mark.fault("jobs", "A job that fails leaves the files of the job before it")
def test_a_job_that_fails_leaves_the_earlier_files(
    env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = env(2).btenv
    ids = counting(table_env, 1000)
    target = {"filePath": f"{tmp_path}/out/", "overwriteSink": True}
    BatchOperator.fromTable(ids).link(FeatherSinkBatchOp(**target))
    BatchOperator.fromTable(ids).link(JsonSinkBatchOp(filePath=str(tmp_path / "out.json")))
    BatchOperator.execute()
    before = files_below(tmp_path)
    failing = BatchOperator.fromTable(failing_once(table_env, tmp_path, 900))
    failing.link(FeatherSinkBatchOp(**target))
    failing.link(JsonSinkBatchOp(filePath=str(tmp_path / "out.json"), overwriteSink=True))
    with pytest.raises(BridgeError, match="as asked for"):
        BatchOperator.execute()
    assert files_below(tmp_path) == before and ids_in(tmp_path / "out", "feather") == list(
        range(1000)
    )
    failing.link(FeatherSinkBatchOp(**target))
    BatchOperator.execute()
    assert len(files_below(tmp_path)) == len(before) and files_below(tmp_path) != before
    assert ids_in(tmp_path / "out", "feather") == list(range(1000))


def test_sinks_of_streams_run_with_print(
    env: Callable[..., Any], tmp_path: pathlib.Path, capsys: Any
) -> None:
    table_env = env(1).stenv
    ids = StreamOperator.fromTable(counting(table_env, 100))
    for kind, name in (
        (CsvSinkStreamOp, "a.csv"),
        (FeatherSinkStreamOp, "a.feather"),
        (JsonSinkStreamOp, "a.json"),
    ):
        ids.link(kind(filePath=str(tmp_path / name)))
    ids.filter("id = 7").print(title="seven")
    StreamOperator.execute()
    assert capsys.readouterr().out.splitlines() == ["seven: id", "seven: 7"], "files print nothing"
    numbers = range(100)
    assert (tmp_path / "a.csv").read_text() == "".join(f"{number}\n" for number in numbers)
    assert (tmp_path / "a.json").read_text() == "".join(
        f'{{"id":{number}}}\n' for number in numbers
    )
    assert pa.feather.read_table(tmp_path / "a.feather")["id"].to_pylist() == list(numbers)
    with pytest.raises(
        ConfigurationError, match="JsonSinkStreamOp: filePath: .*a.json exists already"
    ):
        ids.link(JsonSinkStreamOp(filePath=str(tmp_path / "a.json")))


def test_streams_that_cannot_be_written_to_files_are_refused(
    env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = env(1).stenv
    endless = StreamOperator.fromTable(counting(table_env, 10, endless=True))
    folder, one = (
        ParquetSinkStreamOp(filePath=f"{tmp_path}/a/"),
        ParquetSinkStreamOp(filePath=f"{tmp_path}/a"),
    )
    with pytest.raises(
        ConfigurationError,
        match="ParquetSinkStreamOp: files of a stream without end appear with .*checkpoint",
    ):
        endless.link(folder)
    with pytest.raises(
        ConfigurationError,
        match="filePath names one file, and the stream has no end: let it end with '/'",
    ):
        endless.link(one)
    bounded = StreamOperator.fromTable(
        table_env.sql_query("SELECT v, COUNT(*) AS n FROM (VALUES (1), (1)) AS t(v) GROUP BY v")
    )
    with pytest.raises(
        ConfigurationError, match="ParquetSinkStreamOp: the input is a changing table"
    ):
        bounded.link(one)
    with pytest.raises(
        ConfigurationError, match="column 'now' is a processing time: CAST it, or leave it out"
    ):
        StreamOperator.fromTable(table_env.sql_query("SELECT 1 AS a, PROCTIME() AS now")).link(one)
    with pytest.raises(ConfigurationError, match="'partitionBy' names 'idd'.*'id'"):
        endless.link(ParquetSinkStreamOp(filePath=f"{tmp_path}/a", partitionBy=["idd"]))
    with pytest.raises(
        ConfigurationError,
        match="partitionBy: 'id' cannot name folders: expected columns of numbers",
    ):
        endless.link(ParquetSinkStreamOp(filePath=f"{tmp_path}/a", partitionBy=["id"]))
    with pytest.raises(
        ConfigurationError,
        match="ParquetSinkStreamOp: numFiles=2 needs as many slots; the parallelism is 1",
    ):
        endless.link(ParquetSinkStreamOp(filePath=f"{tmp_path}/a", numFiles=2))
    table_env = env(1, **{"execution.checkpointing.interval": "1 s"}).stenv
    with pytest.raises(
        ConfigurationError, match="filePath names one file, which a checkpoint would end"
    ):
        StreamOperator.fromTable(table_env.sql_query("SELECT 1 AS a")).link(
            ParquetSinkStreamOp(filePath=f"{tmp_path}/a")
        )
    assert list(tmp_path.iterdir()) == []


def test_sink_to_an_unwritable_place_fails_the_job_by_name(env: Callable[..., Any]) -> None:
    BatchOperator.fromTable(counting(env(1).btenv, 10)).link(
        ParquetSinkBatchOp(filePath="/proc/a.parquet")
    )
    with pytest.raises(BridgeError, match="ParquetSinkBatchOp: filePath: .*/proc/a.parquet"):
        BatchOperator.execute()


def test_a_table_without_rows_has_its_columns(
    env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = env(2).btenv
    none = BatchOperator.fromTable(counting(table_env, 10)).filter("id > 99")
    none.link(ParquetSinkBatchOp(filePath=f"{tmp_path}/a/"))
    none.link(CsvSinkBatchOp(filePath=str(tmp_path / "a.csv")))
    pairs = none.select("CAST(id AS STRING) AS p, id")
    pairs.link(ParquetSinkBatchOp(filePath=f"{tmp_path}/b/", partitionBy=["p"]))
    BatchOperator.execute()
    source = ParquetSourceBatchOp(filePath=f"{tmp_path}/b")
    assert source.getSchemaStr() == "p STRING, id BIGINT" and source.collectToArrow().num_rows == 0
    pairs.link(ParquetSinkBatchOp(filePath=f"{tmp_path}/b/", partitionBy=["p"], overwriteSink=True))
    BatchOperator.execute()
    assert len([name for name in files_below(tmp_path / "b") if "part-" in name]) == 1
    assert (
        pq.read_table(tmp_path / "a").schema.names == ["id"]
        and (tmp_path / "a.csv").read_text() == ""
    )
