"""Parts of files and their rows."""

from __future__ import annotations

import decimal
import pathlib
from collections.abc import Callable
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from bridge.codec.ipc import read_batch
from bridge.exceptions import BridgeError, RowError, SchemaError
from bridge.files.description import describe
from bridge.files.listing import list_files
from bridge.files.parts import TO_THE_END, FilePart, parts_from, parts_to_arrow
from bridge.files.reading import FileParts, FileTable
from bridge.schema import Schema


def parts_in(table: FileTable, *addresses: str, part_bytes: int | None = None) -> list[FilePart]:
    parts = FileParts(table)
    return [part for file in list_files("Source", addresses) for part, _ in parts.parts_of(file.path, part_bytes)]


def rows_of(table: FileTable, parts: list[FilePart]) -> pa.Table:
    reader = FileParts(table)
    batches = [batch for part in parts for batch in reader.batches_of(part)]
    return pa.Table.from_batches(batches, pa.schema([(column.name, column.arrow) for column in table.columns]))


def read(*addresses: str, part_bytes: int | None = None, **wanted: Any) -> pa.Table:
    table = describe("Source", addresses, **wanted)
    return rows_of(table, parts_in(table, *addresses, part_bytes=part_bytes))


def write_arrow(
    table: pa.Table, path: str, rows: int, make: Callable[..., Any] = pa.ipc.new_file, codec: str | None = None
) -> None:
    with pa.OSFile(path, "wb") as file, make(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=rows)


WRITERS: dict[str, Callable[[pa.Table, str, int], None]] = {
    "a.parquet": lambda table, path, rows: pq.write_table(table, path, row_group_size=rows, data_page_size=64),
    "a.orc": lambda table, path, rows: po.write_table(table, path, stripe_size=1024, batch_size=rows),
    "a.feather": lambda table, path, rows: write_arrow(table, path, rows, codec="lz4"),
    "a.arrows": lambda table, path, rows: write_arrow(table, path, rows, pa.ipc.new_stream),
}


def test_parts_travel(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": range(100)}), path, row_group_size=60)
    parts = parts_in(describe("Source", [path]), path)
    assert parts == [FilePart(path, "parquet", 0, 0, 60), FilePart(path, "parquet", 1, 0, 40)]
    assert parts_from(read_batch(parts_to_arrow(parts))) == parts


def test_a_part_of_a_group_that_is_open_is_read_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": range(10_000)}), path)
    begun = []
    real = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *given, **named: begun.append(given) or real(*given, **named))
    table = describe("Source", [path])
    parts = parts_in(table, path, part_bytes=8000)
    assert 8 < len(parts) < 20 and rows_of(table, parts)["a"].to_pylist() == list(range(10_000))
    assert len(begun) == 1


def test_columns_and_filters(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    cost = [decimal.Decimal(number) / 2 for number in range(100)]
    data = {"id": range(100), "cost": pa.array(cost, pa.decimal128(9, 1)), "city": ["Rome", "Oslo", None, "Bern"] * 25}
    pq.write_table(pa.table(data), path, row_group_size=10)
    found = read(path, selected=["city", "id"], condition="cost >= 44.5 AND city <> 'Oslo'")
    assert found.column_names == ["city", "id"] and found["id"].to_pylist() == [91, 92, 95, 96, 99]
    assert read(path, selected=["city"], condition=pc.field("id") == 3).to_pydict() == {"city": ["Bern"]}
    assert read(path, selected=["city"], condition=[("id", "in", [0, 97])]).to_pydict() == {"city": ["Rome", "Oslo"]}
    groups = [part.group for part in parts_in(describe("Source", [path], condition="id BETWEEN 28 AND 31"), path)]
    assert groups == [2, 3]  # by the statistics
    for given, words in {
        "id >": "parameter 'filter': the predicate 'id >' cannot be read: it ends too early",
        "idd = 1": "parameter 'filter': there is no column 'idd' \\(did you mean 'id'\\?\\)",
        "id = 'x'": "parameter 'filter': .* does not fit the columns",
    }.items():
        with pytest.raises(BridgeError, match=f"^Source: {words}"):
            describe("Source", [path], condition=given)
    with pytest.raises(BridgeError, match=r"'selectedCols' names 'citi' \(did you mean 'city'\?\); the first file has 'id'"):
        describe("Source", [path], selected=["citi"])


def test_a_filter_over_cells_that_are_cast_leaves_no_group_out(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["9", "10"], "b": pa.array([10**6, 1], pa.timestamp("us", "UTC"))}), path)
    assert read(path, schema=Schema.parse("a INT"), condition="a > 9")["a"].to_pylist() == [10]
    assert read(path, selected=["a"], condition="b >= TIMESTAMP '1970-01-01 00:00:01'")["a"].to_pylist() == ["9"]


def test_partitions(tmp_path: pathlib.Path) -> None:
    for day, city in (("2024-05-31", "01"), ("2024-06-01", "2"), ("__HIVE_DEFAULT_PARTITION__", "3")):
        folder = tmp_path / f"day={day}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(city)], "city": ["not read"]}), folder / "0.parquet")
    found = read(str(tmp_path))
    assert found.to_pylist() == [
        {"id": 1, "city": 1, "day": "2024-05-31"}, {"id": 2, "city": 2, "day": "2024-06-01"}, {"id": 3, "city": 3, "day": None},
    ]  # fmt: skip
    schema = Schema.parse("day DATE, id INT")
    (tmp_path / "day=2024-06-01" / "city=2" / "0.parquet").write_bytes(b"damaged")  # and is not opened
    assert read(str(tmp_path), schema=schema, condition="day < '2024-06-01'")["id"].to_pylist() == [1]


def test_files_that_disagree(tmp_path: pathlib.Path) -> None:
    first, other = str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), first)
    for data, words in (
        ({"a": [1]}, "it has no column 'b'; it has 'a'"),
        ({"a": [1.5], "b": ["x"]}, "'a' has the type DOUBLE, but BIGINT in the first file"),
        ({"a": [1], "b": ["x"], "c": [1]}, "it has the column 'c', which the first file lacks"),
    ):
        pq.write_table(pa.table(data), other)
        with pytest.raises(SchemaError, match=f"^Source: {other}: .*{words}"):
            read(str(tmp_path))
    assert read(str(tmp_path), selected=["b"])["b"].to_pylist() == ["x", "x"]
    pq.write_table(pa.table({"b": pa.array(["y"]).dictionary_encode(), "a": pa.nulls(1)}), other)
    assert read(str(tmp_path)).to_pydict() == {"a": [1, None], "b": ["x", "y"]}


def test_declared_types(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["1", "x"], "b": [1.0, 2.0], "c": pa.nulls(2)}), path)
    assert read(path, schema=Schema.parse("b INT, c STRING")).to_pydict() == {"b": [1, 2], "c": [None, None]}
    with pytest.raises(RowError, match=f"^Source: {path}: column 'a': a cell of the type string does not fit INT: .*'x'"):
        read(path, schema=Schema.parse("a INT"))
    with pytest.raises(SchemaError, match=f"^Source: {path}: the column 'c' has the type null.*declare another type"):
        read(path)
    with pytest.raises(SchemaError, match="it has no column 'd'; it has 'a', 'b', 'c'"):
        read(path, schema=Schema.parse("d INT"))


def test_damaged_files_are_named(tmp_path: pathlib.Path) -> None:
    for name, write in WRITERS.items():
        path = tmp_path / name
        write(pa.table({"a": range(1000)}), str(path), 100)
        table = describe("Source", [str(path)])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(RowError, match=f"^Source: {path} cannot be read: expected the format {table.format}"):
            rows_of(table, parts_in(table, str(path)))


def test_json(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "at": "2024-05-31 18:00:00", "x": [0.5]}\n\n{"id": 2, "x": null}\n')
    assert [column.sql for column in describe("Source", [str(path)]).columns] == ["BIGINT", "TIMESTAMP(0)", "ARRAY<DOUBLE>"]
    assert read(str(path), part_bytes=1)["x"].to_pylist() == [[0.5], None]
    schema = Schema.parse("id DECIMAL(4, 2), missing STRING, at TIMESTAMP(3)")
    assert read(str(path), schema=schema)["id"].to_pylist() == [1, 2]
    many = "".join(f'{{"id": {number}, "day": "2024-05-31", "text": "{"x" * 90}"}}\n' for number in range(30_000))
    with pa.CompressedOutputStream(str(tmp_path / "b.json.gz"), "gzip") as file:
        file.write(many.encode())
    table = describe("Source", [str(tmp_path / "b.json.gz")], selected=["id"])
    parts = parts_in(table, str(tmp_path / "b.json.gz"), part_bytes=1 << 16)
    assert len(parts) > 3 and parts[-1].rows == TO_THE_END and rows_of(table, parts)["id"].to_pylist() == list(range(30_000))
    path.write_text('{"id": 1}\n{"id": 2, "more": 1}\n' + " " * (1 << 20) + '\n{"id": 3, "late": 1}\n')
    with pytest.raises(
        RowError, match=f"{path} cannot be read: expected the format json, one object per line.*unexpected field"
    ):
        read(str(path))
    assert read(str(path), selected=["id"])["id"].to_pylist() == [1, 2, 3]


def test_a_file_without_groups_is_read_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first rows are short, so there are parts behind its end, which would begin at the first row again."""
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("id,text\n")
        file.writelines(f"{number},{'x' * (number // 100)}\n" for number in range(60_000))
    table = describe("Source", [str(path)])
    parts = parts_in(table, str(path), part_bytes=1 << 20)
    begun: list[Any] = []
    real = pv.open_csv
    monkeypatch.setattr(pv, "open_csv", lambda *given, **named: begun.append(given) or real(*given, **named))
    assert rows_of(table, parts)["id"].to_pylist() == list(range(60_000))
    assert [part.first > 60_000 for part in parts].count(True) > 1
    assert len(begun) == 2, "one for the types"


def test_csv(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,s,x,at\n1,"a\n""b,",NaN,2024-05-31 18:00:00\n,,-Infinity,\n\n3,"",1e-5,2024-05-31T18:00:01\n')
    assert [column.sql for column in describe("Source", [str(path)]).columns] == ["BIGINT", "STRING", "DOUBLE", "TIMESTAMP(0)"]
    found = read(str(path), part_bytes=1)
    assert found["id"].to_pylist() == [1, None, 3] and found["s"].to_pylist() == ['a\n"b,', None, None]
    assert str(found["x"].to_pylist()) == "[nan, -inf, 1e-05]" and found["at"].null_count == 1
    assert read(str(path), schema=Schema.parse("s STRING, id DECIMAL(4, 2)"))["id"].to_pylist() == [1, None, 3]
    assert read(str(path), selected=["x", "id"]).schema.names == ["x", "id"]
    many = "id,day,text\n" + "".join(f"{number},2024-05-31,{'x' * 90}\n" for number in range(60_000))
    with pa.CompressedOutputStream(str(tmp_path / "b.csv.gz"), "gzip") as file:
        file.write(many.encode())
    table = describe("Source", [str(tmp_path / "b.csv.gz")], selected=["id"])
    parts = parts_in(table, str(tmp_path / "b.csv.gz"), part_bytes=1 << 16)
    assert len(parts) > 3 and parts[-1].rows == TO_THE_END and rows_of(table, parts)["id"].to_pylist() == list(range(60_000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,s\n1,2\n1\n", "Row #3: Expected 2 columns, got 1"),
        ("id\nx\n", "CSV column #0: .*invalid value 'x'"),
        ("", "Empty CSV file"),
        ("s\n1\n", "it has no column 'id'; it has 's'"),
    ],
)
def test_wrong_csv_is_an_error_with_its_place(tmp_path: pathlib.Path, text: str, words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises((RowError, SchemaError), match=f"^Source: {path}.*{words}"):
        read(str(path), schema=Schema.parse("id INT"))


def test_files_of_a_storage(tmp_path: pathlib.Path) -> None:
    system = fsspec.filesystem("memory")
    try:
        for name, write in WRITERS.items():
            write(pa.table({"a": range(10)}), str(tmp_path / name), 5)
            system.pipe(f"/lake/{name}", (tmp_path / name).read_bytes())
            assert read(f"memory://lake/{name}", condition="a > 7")["a"].to_pylist() == [8, 9]
    finally:
        system.rm("/lake", recursive=True)


def test_some_columns_of_a_table(tmp_path: pathlib.Path) -> None:
    for number in range(2):
        (tmp_path / f"day={number}").mkdir()
        pq.write_table(
            pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [1.0, 2.0, 3.0]}), tmp_path / f"day={number}/f.parquet"
        )
    whole = describe("Source", [str(tmp_path)])
    assert whole.selected(["a", "b", "c", "day"]) is whole
    filtered = describe("Source", [str(tmp_path)], condition="a > 1 AND day = 1").selected(["c"])
    assert [column.name for column in filtered.read] == ["c", "a", "day"]
    assert rows_of(filtered, parts_in(filtered, str(tmp_path))).to_pydict() == {"c": [2.0, 3.0]}
    again = filtered.selected(["c"])
    assert rows_of(again, parts_in(again, str(tmp_path))).num_rows == 2
    turned = whole.selected(["day", "b"])
    assert rows_of(turned, parts_in(turned, str(tmp_path))).to_pydict() == {"day": [0, 0, 0, 1, 1, 1], "b": ["x", "y", "z"] * 2}


def test_whole_groups_have_exact_counts(tmp_path: pathlib.Path) -> None:
    table = pa.table({"a": range(1000), "s": ["x" * 50] * 1000})
    with pa.OSFile(str(tmp_path / "a.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    described = describe("Source", [f"{tmp_path}/a.arrows"])
    (part,) = parts_in(described, f"{tmp_path}/a.arrows")
    assert part.rows == 1000
    cut = [part._replace(first=first, rows=rows) for first, rows in ((0, 450), (450, 550))]
    assert rows_of(described, cut)["a"].to_pylist() == list(range(1000))


def test_a_file_that_was_written_again_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(10)}), path)
    described = describe("Source", [str(path)])
    parts = parts_in(described, str(path))
    pq.write_table(pa.table({"a": range(9)}), path)
    with pytest.raises(RowError, match="a.parquet: group 0 lacks 1 of its rows: the file was written again while the job"):
        rows_of(described, parts)
