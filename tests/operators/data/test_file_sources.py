"""Sources of files as tables of Flink: all formats in one job, streams, and errors of jobs."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.files.description import describe
from bridge.files.parts import FilePart
from bridge.files.reading import FileParts
from operators import (
    BatchOperator,
    CsvSourceBatchOp,
    FeatherSinkBatchOp,
    FeatherSourceBatchOp,
    FileSourceBatchOp,
    JsonSourceBatchOp,
    MLEnv,
    OrcSourceBatchOp,
    ParquetSinkBatchOp,
    ParquetSourceBatchOp,
    ParquetSourceStreamOp,
    resetEnv,
    useLocalEnv,
)
from operators.flink.collect import arrow_of, frame_of
from tests.bridge.formats.test_csv_cells import CELLS, TEXTS, is_cell
from tests.e2e.streams import Sink, stop_with_savepoint
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.random_tables import ENDINGS, TABLES, difference, random_table, write


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(2, config={"table.local-time-zone": "Asia/Shanghai"})
    resetEnv()


def cells(frame: pd.DataFrame) -> list[str]:
    """Rows as text, sorted: subtasks read in any order."""
    return sorted(
        repr([None if isinstance(cell, float) and cell != cell else cell for cell in row])
        for row in frame.values.tolist()
    )


@pytest.mark.flink
def test_one_job_reads_all_formats(env: MLEnv, tmp_path: pathlib.Path) -> None:
    draw = random.Random(1)
    table = pa.table(
        {
            "id": range(5000),
            "x": [number / 8 for number in range(5000)],
            "s": [f"n{number}" for number in range(5000)],
        }
    )
    for name in ("day=1/a", "day=2/b"):
        (tmp_path / "p" / name).parent.mkdir(parents=True)
        pq.write_table(table, tmp_path / "p" / f"{name}.parquet", row_group_size=1000)
    po.write_table(table, tmp_path / "a.orc")
    with (
        pa.OSFile(str(tmp_path / "a.arrows"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=700)
    table.to_pandas().to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    table.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    pq.write_table(random_table(draw, 50, 25), tmp_path / "wide.parquet")
    instants = pa.array([15 * 3600, 20 * 3600], pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"seen": instants}), tmp_path / "instants.parquet")
    later = "seen >= TIMESTAMP '1970-01-02 00:00:00'"
    sources: dict[str, BatchOperator] = {
        "partitions": ParquetSourceBatchOp(
            filePath=str(tmp_path / "p"), columns=["day", "id"], filter="id < 3 OR day = 2"
        ),
        "expression": ParquetSourceBatchOp()
        .setFilePath([f"{tmp_path}/p/day=1/*"])
        .setFilter(pc.field("s") == "n7"),
        "orc": OrcSourceBatchOp(filePath=f"{tmp_path}/a.orc", schemaStr="x FLOAT, id STRING"),
        "feather": FeatherSourceBatchOp(filePath=f"{tmp_path}/a.arrows"),
        "json": JsonSourceBatchOp(
            filePath=f"{tmp_path}/a.jsonl", schemaStr="id DECIMAL(6, 1), nothing INT"
        ),
        "csv": FileSourceBatchOp(filePath=f"{tmp_path}/a.csv", filter="x > 1"),
        "by name": FileSourceBatchOp(
            filePath=f"{tmp_path}/a.*", selectedCols=["id"], format="orc"
        ).setFilePath(f"{tmp_path}/a.orc"),
        "wide": FileSourceBatchOp(filePath=f"{tmp_path}/wide.parquet"),
        "instants": FileSourceBatchOp(filePath=f"{tmp_path}/instants.parquet", filter=later),
        "in SQL": FileSourceBatchOp(filePath=f"{tmp_path}/instants.parquet").filter(later),
    }
    assert sources["partitions"].getColTypes() == ["BIGINT", "BIGINT"]
    assert sources["orc"].getSchemaStr() == "x FLOAT, id STRING"
    found: dict[str, pd.DataFrame] = {}
    for name, source in sources.items():
        source.lazyCollectToDataframe(lambda frame, name=name: found.update({name: frame}))
    BatchOperator.execute()
    assert sorted(map(tuple, found["partitions"].values.tolist())) == [
        (1, 0),
        (1, 1),
        (1, 2),
        *((2, id_) for id_ in range(5000)),
    ]
    assert found["expression"].values.tolist() == [[7, 0.875, "n7", 1]] or found[
        "expression"
    ].id.tolist() == [7]
    assert (
        set(found["orc"].id) == {str(number) for number in range(5000)}
        and found["orc"].x.max() == 624.875
    )
    assert (
        sorted(found["feather"].s) == sorted(table["s"].to_pylist()) and len(found["json"]) == 5000
    )
    assert found["json"].nothing.isna().all() and float(found["json"].id.sum()) == sum(range(5000))
    assert found["csv"].dtypes.tolist() == table.to_pandas().dtypes.tolist() and sorted(
        found["csv"].id
    ) == list(range(9, 5000))
    assert sorted(found["by name"].id) == list(range(5000))
    assert cells(found["instants"]) == cells(found["in SQL"]) and len(found["in SQL"]) == 1
    described = describe("Source", [f"{tmp_path}/wide.parquet"])
    whole = FilePart(f"{tmp_path}/wide.parquet", 0, 0, 50)
    batches = list(FileParts(described).batches_of(whole))
    assert cells(found["wide"]) == cells(
        frame_of(arrow_of(sources["wide"].getOutputTable(), batches))
    )


@pytest.mark.flink
def test_texts_have_the_same_values_in_lenient_reading(env: MLEnv, tmp_path: pathlib.Path) -> None:
    frame = pd.DataFrame({"t": TEXTS} | {f"l{place}": TEXTS for place in range(len(CELLS))})
    frame.to_csv(tmp_path / "all.csv", index=False, quoting=1, encoding="utf-8")
    schema = ", ".join(f"l{place} {kind}" for place, kind in enumerate(CELLS))
    source = CsvSourceBatchOp(
        filePath=str(tmp_path / "all.csv"),
        schemaStr=f"t STRING, {schema}",
        ignoreFirstLine=True,
        lenient=True,
    )
    columns = (f"CAST(l{place} AS STRING) AS l{place}" for place in range(len(CELLS)))
    read = source.select(f"t, {', '.join(columns)}").collectToDataframe().set_index("t")
    for place, (kind, (good, _)) in enumerate(CELLS.items()):
        found = {text: value for text, value in read[f"l{place}"].items() if not pd.isna(value)}
        assert sorted(found) == [text for text in TEXTS if is_cell(kind, text)], kind
        assert {text: found[text] for text in good} == good, kind


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.parametrize("seed", range(1 + TABLES // 250))
def test_random_tables_pass_from_file_to_file_unchanged(
    env: MLEnv, seed: int, tmp_path: pathlib.Path
) -> None:
    draw, own = random.Random(seed), {}
    for number in range(2):
        ending, name = draw.choice(ENDINGS), f"{number}.{draw.choice(['parquet', 'feather'])}"
        folder = "/" * (number % 2)  # of files from each subtask
        rows = draw.choice([1, 50, 200])
        given = random_table(draw, rows, 12, ending).append_column("row", pa.array(range(rows)))
        own[name] = write(given, str(tmp_path / f"{number}.in.{ending}"), draw.choice([10, 100]))
        source = FileSourceBatchOp(filePath=str(tmp_path / f"{number}.in.{ending}"))
        source.link(
            (ParquetSinkBatchOp if name.endswith("parquet") else FeatherSinkBatchOp)(
                filePath=f"{tmp_path / name}{folder}"
            )
        )
    BatchOperator.execute()
    for name, table in own.items():
        found = (
            ds.dataset(tmp_path / name, format=name.rpartition(".")[2]).to_table().sort_by("row")
        )
        assert difference(table, found) is None, name


@pytest.mark.flink
def test_stream_source_reads_a_folder_to_its_end(env: MLEnv, tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"id": range(300)}), tmp_path / "a.parquet", row_group_size=70)
    table = ParquetSourceStreamOp(filePath=str(tmp_path)).getOutputTable()
    with table.execute().collect() as collected:  # about a millisecond a row
        assert sorted(row[0] for row in collected) == list(range(300))


@pytest.mark.flink
def test_an_error_of_a_job_names_operator_file_and_column(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    """Errors of cells are in test_sources.py, damaged files in tests/bridge/files."""
    first, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(pa.table({"a": [1]}), first)
    pq.write_table(pa.table({"a": ["x"]}), other)
    told = f"ParquetSourceBatchOp: {other}: the column 'a' has the type STRING, but BIGINT in the first file"
    with pytest.raises(SchemaError, match=f"^{told}"):
        ParquetSourceBatchOp(filePath=str(tmp_path)).collectToDataframe()


@pytest.mark.slow
@pytest.mark.flink
@pytest.mark.fault(
    "jobs", "A job that continues from a savepoint reads the new files of a folder alone"
)
def test_folder_that_grows_is_read_once_over_a_restart(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def add(number: int) -> None:
        pq.write_table(
            pa.table({"id": range(10 * number, 10 * number + 10)}), folder / f".{number}"
        )
        (folder / f".{number}").rename(folder / f"{number}.parquet")

    def begin(**config: Any) -> tuple[Sink, Any]:
        env = useLocalEnv(2, config={"execution.checkpointing.interval": "300 ms", **config}).stenv
        sink = Sink(env, tmp_path)
        source = ParquetSourceStreamOp(
            filePath=str(folder), scanInterval=0.2, schemaStr="id BIGINT"
        )
        return sink, source.select("0 AS worker, id").getOutputTable().execute_insert(
            sink.name
        ).get_job_client()

    try:
        sink, client = begin()  # the folder is empty
        for number in (0, 1):
            add(number)
            wait_until(
                lambda number=number: (
                    sorted(id_ for _, id_ in sink.rows()) == list(range(10 * number + 10))
                ),
                f"file {number} is read",
                2 * DEADLINE_S,
            )
        savepoint = stop_with_savepoint(client, tmp_path / "savepoints")
        resetEnv()
        add(2)
        sink, client = begin(**{"execution.state-recovery.path": savepoint})
        wait_until(lambda: len(sink.rows()) >= 10, "the new file is read", 2 * DEADLINE_S)
        assert sorted(id_ for _, id_ in sink.rows()) == list(range(20, 30))
        client.cancel().result()
    finally:
        resetEnv()


def test_wrong_parameters_of_file_sources_are_refused_when_set(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ConfigurationError, match="parameter 'filter': expected a predicate as text, an expression"
    ):
        ParquetSourceBatchOp(filter="")
    with pytest.raises(
        ConfigurationError,
        match="parameter 'format': expected one of 'parquet', 'feather', 'orc', 'json', 'csv'",
    ):
        FileSourceBatchOp(format="xlsx")
    with pytest.raises(
        ConfigurationError, match="ParquetSourceBatchOp has no parameter 'scanInterval'"
    ):
        ParquetSourceBatchOp(scanInterval=1.0)
