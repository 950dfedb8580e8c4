"""Parts of files and their rows."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator
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
from bridge.files.publishing import publish
from bridge.files.reading import FileParts, FileTable
from bridge.files.writing import PartFiles
from bridge.formats import csv_text
from bridge.schema import Schema
from tests.bridge.files.attempts import sink_of, written


def parts_one_by_one(
    table: FileTable, *addresses: str, part_bytes: int | None = None
) -> Iterator[FilePart]:
    parts = FileParts(table)
    for file in list_files("Source", addresses):
        for part, _ in parts.parts_of(file.path, part_bytes):
            yield part


def parts_in(*arguments: Any, **more: Any) -> list[FilePart]:
    return list(parts_one_by_one(*arguments, **more))


def rows_of(table: FileTable, parts: Iterable[FilePart]) -> pa.Table:
    reader = FileParts(table)
    batches = [batch for part in parts for batch in reader.batches_of(part)]
    return pa.Table.from_batches(
        batches, pa.schema([(column.name, column.arrow) for column in table.columns])
    )


def read(*addresses: str, part_bytes: int | None = None, **wanted: Any) -> pa.Table:
    table = describe("Source", addresses, **wanted)
    # Of a file that claims to have many rows, there are millions of parts.
    return rows_of(table, parts_one_by_one(table, *addresses, part_bytes=part_bytes))


def write_arrow(
    table: pa.Table,
    path: str,
    rows: int,
    make: Callable[..., Any] = pa.ipc.new_file,
    codec: str | None = None,
) -> None:
    with (
        pa.OSFile(path, "wb") as file,
        make(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer,
    ):
        writer.write_table(table, max_chunksize=rows)


WRITERS: dict[str, Callable[[pa.Table, str, int], None]] = {
    "a.parquet": lambda table, path, rows: pq.write_table(
        table, path, row_group_size=rows, data_page_size=64
    ),
    "a.orc": lambda table, path, rows: po.write_table(
        table, path, stripe_size=1024, batch_size=rows
    ),
    "a.feather": lambda table, path, rows: write_arrow(table, path, rows, codec="lz4"),
    "a.arrows": lambda table, path, rows: write_arrow(table, path, rows, pa.ipc.new_stream),
}


def test_parts_of_files_are_sent_as_arrow_and_read_back(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": range(100)}), path, row_group_size=60)
    parts = parts_in(describe("Source", [path]), path)
    assert parts == [FilePart(path, 0, 0, 60), FilePart(path, 1, 0, 40)]
    assert parts_from(read_batch(parts_to_arrow(parts))) == parts


def test_a_part_of_a_group_that_is_open_is_read_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": range(10_000)}), path)
    begun = []
    real = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda *given, **named: begun.append(given) or real(*given, **named),
    )
    table = describe("Source", [path])
    parts = parts_in(table, path, part_bytes=8000)
    assert 8 < len(parts) < 20 and rows_of(table, parts)["a"].to_pylist() == list(range(10_000))
    assert len(begun) == 1


def test_selected_columns_and_filters_are_read(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    cost = [decimal.Decimal(number) / 2 for number in range(100)]
    data = {
        "id": range(100),
        "cost": pa.array(cost, pa.decimal128(9, 1)),
        "city": ["Rome", "Oslo", None, "Bern"] * 25,
    }
    pq.write_table(pa.table(data), path, row_group_size=10)
    found = read(path, selected=["city", "id"], condition="cost >= 44.5 AND city <> 'Oslo'")
    assert found.column_names == ["city", "id"] and found["id"].to_pylist() == [91, 92, 95, 96, 99]
    assert read(path, selected=["city"], condition=pc.field("id") == 3).to_pydict() == {
        "city": ["Bern"]
    }
    assert read(path, selected=["city"], condition=[("id", "in", [0, 97])]).to_pydict() == {
        "city": ["Rome", "Oslo"]
    }
    groups = [
        part.group
        for part in parts_in(describe("Source", [path], condition="id BETWEEN 28 AND 31"), path)
    ]
    assert groups == [2, 3]  # by the statistics
    for given, words in {
        "id >": "parameter 'filter': the predicate 'id >' cannot be read: it ends too early",
        "idd = 1": "parameter 'filter': there is no column 'idd' \\(did you mean 'id'\\?\\)",
        "id = 'x'": "parameter 'filter': .* does not fit the columns",
    }.items():
        with pytest.raises(BridgeError, match=f"^Source: {words}"):
            describe("Source", [path], condition=given)
    with pytest.raises(
        BridgeError,
        match=r"'selectedCols' names 'citi' \(did you mean 'city'\?\); the first file has 'id'",
    ):
        describe("Source", [path], selected=["citi"])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id > 94.5", range(95, 100)),
        ("2.5 > id", range(3)),
        ("id = 50.5", ()),
        ("NOT id <> 50.0", [50]),
        ("id BETWEEN 18.5 AND 2.1e1", range(19, 22)),
    ],
)
def test_groups_of_integers_are_filtered_by_decimals(
    tmp_path: pathlib.Path, condition: str, expected: Iterable[int]
) -> None:
    path = str(tmp_path / "a.parquet")
    ids = pa.array([*range(100), 2**60])
    pq.write_table(pa.table({"id": ids}), path, row_group_size=10)
    found = read(path, condition=f"id < 1e2 AND ({condition})")["id"].to_pylist()
    assert found == list(expected)


def test_a_filter_over_cells_that_are_cast_leaves_no_group_out(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"a": ["9", "10"], "b": pa.array([10**6, 1], pa.timestamp("us", "UTC"))}), path
    )
    assert read(path, schema=Schema.parse("a INT"), condition="a > 9")["a"].to_pylist() == [10]
    assert read(path, selected=["a"], condition="b >= TIMESTAMP '1970-01-01 00:00:01'")[
        "a"
    ].to_pylist() == ["9"]


@pytest.mark.fault("data", "A filter keeps rows with NaN where it does without statistics")
@pytest.mark.parametrize(
    "condition",
    [
        "x <> 1",
        "NOT x <= 5",
        "x NOT BETWEEN 0 AND 5",
        pc.is_nan(pc.field("x")),
        pc.field("x").is_null(nan_is_null=True),
        pc.field("x").isin([float("nan")]),
        pc.if_else(pc.field("x") == 1.0, False, True),
        (pc.field("x") == 1.0) == pc.scalar(False),
        pc.scalar(False) == (pc.field("x") == 1.0),
        (pc.field("x") <= 5.0) < pc.scalar(True),
    ],
)
def test_nan_is_kept_as_without_statistics(tmp_path: pathlib.Path, condition: object) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), path)
    assert str(read(path, condition=condition)["x"].to_pylist()) == "[nan]"
    # A comparison and a check for nulls are never true for NaN, so they still skip the group.
    table = describe("Source", [path], condition="x > 5 AND x IS NOT NULL")
    assert parts_in(table, path) == []


def test_partitions_are_read_as_columns_and_filtered(tmp_path: pathlib.Path) -> None:
    for day, city in (
        ("2024-05-31", "01"),
        ("2024-06-01", "2"),
        ("__HIVE_DEFAULT_PARTITION__", "3"),
    ):
        folder = tmp_path / f"day={day}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(city)], "city": ["not read"]}), folder / "0.parquet")
    found = read(str(tmp_path))
    assert found.to_pylist() == [
        {"id": 1, "city": "01", "day": "2024-05-31"}, {"id": 2, "city": "2", "day": "2024-06-01"},
        {"id": 3, "city": "3", "day": None},
    ]  # fmt: skip
    schema = Schema.parse("day DATE, id INT")
    # and is not opened
    (tmp_path / "day=2024-06-01" / "city=2" / "0.parquet").write_bytes(b"damaged")
    assert read(str(tmp_path), schema=schema, condition="day < '2024-06-01'")["id"].to_pylist() == [
        1
    ]


def partitioned(root: pathlib.Path, *folders: str) -> str:
    for number, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": [number]}), root / folder / "0.parquet")
    return str(root)


@pytest.mark.fault(
    "data", "A text in the name of a folder, such as zip=00501, does not become a number"
)
@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (["00501", "10001"], ["00501", "10001"]),
        (["10", "1A"], ["10", "1A"]),
        (["1", "__HIVE_DEFAULT_PARTITION__", "2"], [1, None, 2]),
        (["__HIVE_DEFAULT_PARTITION__"], [None]),
        (["-1", "0", "10"], [-1, 0, 10]),
        (["-0", "1"], ["-0", "1"]),
        (["+1", "1"], ["+1", "1"]),
        (["1_0"], ["1_0"]),
        ([" 1"], [" 1"]),
        (["1", "٣"], ["1", "٣"]),
        (["²"], ["²"]),
        (["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
        (["1", ""], ["1", ""]),
    ],
)
def test_all_folders_decide_the_type_of_a_partition(
    tmp_path: pathlib.Path, values: list[str], cells: list[Any]
) -> None:
    for order in (values, values[::-1]):
        place = partitioned(
            tmp_path / str(len(list(tmp_path.iterdir()))), *(f"k={value}" for value in order)
        )
        rows = read(place, part_bytes=1000).sort_by("x").to_pylist()
        assert [row["k"] for row in rows] == (cells if order == values else cells[::-1])
        last = next(cell for cell in reversed(cells))
        if last is not None:
            written = f"'{last}'" if isinstance(last, str) else str(last)
            assert read(place, condition=f"k = {written}")["k"].to_pylist() == [last]


def test_types_of_partitions_are_found_without_listing_where_they_are_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitioned(tmp_path / "numbers", *(f"n={number}" for number in range(20)))
    partitioned(tmp_path / "days", *(f"day=2024-05-{day}" for day in range(10, 30)))
    listed: list[str] = []
    real = list_files
    monkeypatch.setattr(
        "bridge.files.description.list_files",
        lambda *given: (listed.append(file.path) or file for file in real(*given)),
    )
    for name, schema, most in (
        ("numbers", "n BIGINT, x BIGINT", 3),
        ("days", None, 3),
        ("numbers", None, 30),
    ):
        listed.clear()
        describe(
            "Source",
            [str(tmp_path / name)],
            schema=None if schema is None else Schema.parse(schema),
        )
        assert len(listed) <= most, name


@pytest.mark.fault("data", "Columns that name the folders of a sink come back with their types")
def test_partitions_of_a_sink_keep_their_types(root: str) -> None:
    types = {
        "zip": (pa.string(), ["10001", "20002"]), "n": (pa.int32(), [1, -2]), "b": (pa.bool_(), [True, False]),
        "price": (pa.decimal128(5, 2), [decimal.Decimal("1.50"), decimal.Decimal("2.00")]),
        "f": (pa.float64(), [1.0, 1e22]), "at": (pa.timestamp("us"), ["2024-05-31 12:00:00", "2024-05-31 12:00:00"]),
    }  # fmt: skip
    columns = [
        pa.array(cells, type_) if name != "at" else pa.array([0, 0], type_)
        for name, (type_, cells) in types.items()
    ]
    batch = pa.record_batch([*columns, pa.array([1, 2])], [*types, "x"])
    schemas = []
    for appends in (False, True):
        sink = sink_of(
            f"{root}/out{appends}/", batch.schema, partition_by=tuple(types), appends=appends
        )
        files = written(PartFiles(sink, 0, 1), batch)
        if not appends:
            publish(sink, files)
        table = describe("Source", [f"{root}/out{appends}"])
        schemas.append({column.name: column.sql for column in table.columns})
        rows = rows_of(table, parts_in(table, f"{root}/out{appends}")).sort_by("x").to_pylist()
        assert [row["zip"] for row in rows] == ["10001", "20002"] and [
            row["n"] for row in rows
        ] == [1, -2]
        assert [row["f"] for row in rows] == [1.0, 1e22] and [
            row["price"] for row in rows
        ] == types["price"][1]
        pattern = f"{root}/out{appends}/zip=1*/*/*/*/*/*/*.parquet"
        assert read(pattern, condition="zip = '10001'")["zip"].to_pylist() == ["10001"]
    expected = {
        "x": "BIGINT",
        "zip": "STRING",
        "n": "INT",
        "b": "BOOLEAN",
        "price": "DECIMAL(5, 2)",
        "f": "DOUBLE",
    }
    assert schemas[0] == schemas[1] == {**expected, "at": "STRING"}


def test_partitions_of_several_sinks_have_a_common_type(tmp_path: pathlib.Path) -> None:
    for name, type_ in (("texts", pa.string()), ("ints", pa.int32())):
        batch = pa.record_batch([pa.array([1, 2]).cast(type_), pa.array([1, 2])], ["k", "x"])
        sink = sink_of(f"{tmp_path}/{name}/", batch.schema, partition_by=("k",))
        publish(sink, written(PartFiles(sink, 0, 1), batch))
    foreign = partitioned(tmp_path / "foreign", "k=7")
    for places, type_ in (
        (("ints", "texts"), pa.string()), (("texts", "ints"), pa.string()), (("ints",), pa.int32()), (("", ), pa.string())
    ):  # fmt: skip
        assert (
            describe("Source", [str(tmp_path / each) for each in places]).columns[-1].arrow == type_
        ), places
    assert describe("Source", [foreign, str(tmp_path / "ints")]).columns[-1].arrow == pa.int64()


@pytest.mark.fault("data", "Timestamps of type INT96 are read exactly, also far from today")
def test_timestamps_of_int96_are_exact(tmp_path: pathlib.Path) -> None:
    far = [
        datetime.datetime(1, 1, 1),
        None,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(9999, 12, 31),
        datetime.datetime(1950, 5, 5, 10),
        datetime.datetime(1900, 1, 1),
        datetime.datetime(2300, 6, 1, 12, 0, 0, 1),
        datetime.datetime(2554, 1, 1),
    ]
    table = pa.table({"a.b": pa.array(far, pa.timestamp("us")), "id": range(8)})
    nested = pa.array([[far[0], None], None, [], far[3:4]] * 2, pa.list_(pa.timestamp("us")))
    table = table.append_column("l", nested).append_column(
        "s", pa.StructArray.from_arrays([nested], ["x"])
    )
    path, plain = str(tmp_path / "int96.parquet"), str(tmp_path / "us.parquet")
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, store_schema=False, row_group_size=3
    )
    pq.write_table(table, plain)
    assert read(path, part_bytes=20).to_pylist() == table.to_pylist() == read(plain).to_pylist()
    for declared in ("`a.b` TIMESTAMP(6)", "`a.b` STRING"):
        schema = Schema.parse(declared)
        assert read(path, schema=schema).to_pylist() == read(plain, schema=schema).to_pylist()
    assert read(path, condition="`a.b` > TIMESTAMP '9000-01-01 00:00:00'")["id"].to_pylist() == [3]


@pytest.mark.parametrize("rows", [1, 3])
def test_nanoseconds_of_int96_are_not_cut(tmp_path: pathlib.Path, rows: int) -> None:
    path = str(tmp_path / "int96.parquet")
    for numbers, words, row in (
        ([0, 1001, 10**18], "would lose data", 2),
        ([-1, 0, 0], "would lose data", 1),
    ):
        table = pa.table({"t": pa.array(numbers, pa.timestamp("ns"))})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=rows)
        with pytest.raises(RowError, match=f"{path}: column 't', row {row}: .*{words}"):
            read(path)
    # 9999-12-31 and a nanosecond, which Arrow cannot write itself.
    table = pa.table({"t": pa.array([1001] * rows, pa.timestamp("ns"))})
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False
    )
    content = pathlib.Path(path).read_bytes()
    old, new = (
        (1001).to_bytes(8, "little") + day.to_bytes(4, "little") for day in (2_440_588, 5_373_484)
    )
    assert content.count(old) == rows
    pathlib.Path(path).write_bytes(content.replace(old, new))
    with pytest.raises(RowError, match=f"{path} cannot be read: .*out of bounds"):
        read(path)


@pytest.mark.parametrize("name", [*WRITERS, "a.csv"])
def test_two_columns_of_one_name_are_refused_in_each_file(
    tmp_path: pathlib.Path, name: str
) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([3])], names=["a", "a"])
    write = WRITERS.get(name, lambda table, path, rows: pv.write_csv(table, path))
    first, later = (str(tmp_path / f"{number}{name}") for number in range(2))
    try:
        write(twice, later, 10)
    except pa.ArrowInvalid:  # of a writer that refuses them itself
        return
    with pytest.raises(SchemaError, match=f"^Source: {later}: it has two columns 'a': rename one"):
        read(later)
    write(pa.table({"a": [9], "b": [1]}), first, 10)
    for wanted in (
        {},
        {"selected": ["a"]},
        {"selected": ["b"]},
        {"schema": Schema.parse("a BIGINT")},
    ):
        with pytest.raises(
            SchemaError, match=f"^Source: {later}: it has two columns 'a': rename one"
        ):
            read(str(tmp_path), part_bytes=1000, **wanted)


def test_files_that_disagree_with_the_first_one_are_refused(tmp_path: pathlib.Path) -> None:
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


def test_declared_types_are_cast_or_refused(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["1", "x"], "b": [1.0, 2.0], "c": pa.nulls(2)}), path)
    assert read(path, schema=Schema.parse("b INT, c STRING")).to_pydict() == {
        "b": [1, 2],
        "c": [None, None],
    }
    with pytest.raises(
        RowError,
        match=f"^Source: {path}: column 'a', row 2: a cell of the type string does not fit INT: .*'x'",
    ):
        read(path, schema=Schema.parse("a INT"))
    with pytest.raises(
        SchemaError,
        match=f"^Source: {path}: the column 'c' has the type null.*declare another type",
    ):
        read(path)
    with pytest.raises(SchemaError, match="it has no column 'd'; it has 'a', 'b', 'c'"):
        read(path, schema=Schema.parse("d INT"))


def test_damaged_files_are_named(tmp_path: pathlib.Path) -> None:
    for name, write in WRITERS.items():
        path = tmp_path / name
        write(pa.table({"a": range(1000)}), str(path), 100)
        table = describe("Source", [str(path)])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(
            RowError, match=f"^Source: {path} cannot be read: expected the format {table.format}"
        ):
            rows_of(table, parts_in(table, str(path)))


def test_json_files_are_read_with_columns_of_the_first_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "at": "2024-05-31 18:00:00", "x": [0.5]}\n\n{"id": 2, "x": null}\n')
    assert [column.sql for column in describe("Source", [str(path)]).columns] == [
        "BIGINT",
        "TIMESTAMP(0)",
        "ARRAY<DOUBLE>",
    ]
    assert read(str(path), part_bytes=1)["x"].to_pylist() == [[0.5], None]
    schema = Schema.parse("id DECIMAL(4, 2), missing STRING, at TIMESTAMP(3)")
    assert read(str(path), schema=schema)["id"].to_pylist() == [1, 2]
    many = "".join(
        f'{{"id": {number}, "day": "2024-05-31", "text": "{"x" * 90}"}}\n'
        for number in range(30_000)
    )
    with pa.CompressedOutputStream(str(tmp_path / "b.json.gz"), "gzip") as file:
        file.write(many.encode())
    table = describe("Source", [str(tmp_path / "b.json.gz")], selected=["id"])
    parts = parts_in(table, str(tmp_path / "b.json.gz"), part_bytes=1 << 16)
    assert (
        len(parts) > 3
        and parts[-1].rows == TO_THE_END
        and rows_of(table, parts)["id"].to_pylist() == list(range(30_000))
    )
    path.write_text(
        '{"id": 1}\n{"id": 2, "more": 1}\n' + " " * (1 << 20) + '\n{"id": 3, "late": 1}\n'
    )
    with pytest.raises(
        RowError,
        match=f"^Source: {path}: line 4 has the key 'late', which the beginning of the first file",
    ):
        read(str(path))
    assert read(str(path), selected=["id"])["id"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("key", ["1", '"x"', '"2024-05-31"', "1.5", "null", '[{"a": 1}]'])
def test_names_of_folders_win_over_keys_of_json(tmp_path: pathlib.Path, key: str) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.json").write_text(f'{{"x": 1, "day": {key}}}\n{{"x": 2}}\n')
    for schema in (None, Schema.parse("x BIGINT, day BIGINT")):
        found = read(str(tmp_path), schema=schema)
        assert found.to_pydict() == {"x": [1, 2] * 2, "day": [1, 1, 2, 2]}
    assert read(str(tmp_path), selected=["day"])["day"].to_pylist() == [1, 1, 2, 2]
    (tmp_path / "day=2" / "a.json").write_text(f'{{"x": 1, "day": {key}, "late": 1}}')
    with pytest.raises(RowError, match="day=2/a.json: line 1 has the key 'late', which the"):
        read(str(tmp_path))


def test_a_file_without_groups_is_read_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first rows are short, so there are parts behind its end, which would begin at the first
    row again.
    """
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("id,text\n")
        file.writelines(f"{number},{'x' * (number // 100)}\n" for number in range(60_000))
    table = describe("Source", [str(path)])
    parts = parts_in(table, str(path), part_bytes=1 << 20)
    begun: list[Any] = []
    real = csv_text.open_text
    monkeypatch.setattr(csv_text, "open_text", lambda *given: begun.append(given) or real(*given))
    assert rows_of(table, parts)["id"].to_pylist() == list(range(60_000))
    assert [part.first > 60_000 for part in parts].count(True) > 1
    assert len(begun) == 2, "one for the types"


def test_csv_files_are_read_with_types_of_the_first_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        'id,s,x,at\n1,"a\n""b,",NaN,2024-05-31 18:00:00\n,,-Infinity,\n\n3,"",1e-5,2024-05-31T18:00:01\n'
    )
    assert [column.sql for column in describe("Source", [str(path)]).columns] == [
        "BIGINT",
        "STRING",
        "DOUBLE",
        "TIMESTAMP(0)",
    ]
    found = read(str(path), part_bytes=1)
    assert found["id"].to_pylist() == [1, None, 3] and found["s"].to_pylist() == [
        'a\n"b,',
        None,
        None,
    ]
    assert str(found["x"].to_pylist()) == "[nan, -inf, 1e-05]" and found["at"].null_count == 1
    assert read(str(path), schema=Schema.parse("s STRING, id DECIMAL(4, 2)"))["id"].to_pylist() == [
        1,
        None,
        3,
    ]
    assert read(str(path), selected=["x", "id"]).schema.names == ["x", "id"]
    many = "id,day,text\n" + "".join(
        f"{number},2024-05-31,{'x' * 90}\n" for number in range(60_000)
    )
    with pa.CompressedOutputStream(str(tmp_path / "b.csv.gz"), "gzip") as file:
        file.write(many.encode())
    table = describe("Source", [str(tmp_path / "b.csv.gz")], selected=["id"])
    parts = parts_in(table, str(tmp_path / "b.csv.gz"), part_bytes=1 << 16)
    assert (
        len(parts) > 3
        and parts[-1].rows == TO_THE_END
        and rows_of(table, parts)["id"].to_pylist() == list(range(60_000))
    )


@pytest.mark.parametrize(
    ("text", "sql", "cells"),
    [
        ("a,b\n1,2\n\n   \n3,4\n", "BIGINT", [1, 3]),
        ('a,b\n1,2\n \n3,"4\n"\n', "BIGINT", [1, 3]),
        ("a\n1\n\n   \n3\n", "BIGINT", [1, 3]),
        ('a\n1\n"  "\n', "STRING", ["1", "  "]),
    ],
)
def test_types_of_csv_come_from_its_rows(
    tmp_path: pathlib.Path, text: str, sql: str, cells: list[object]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert describe("Source", [str(path)]).columns[0].sql == sql
    assert read(str(path))["a"].to_pylist() == cells


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,s\n1,2\n1\n", "line 3: expected 2 cells, got 1"),
        ("id\nx\n", "line 2, column 'id': expected INT, got 'x'"),
        ("", "it has no column 'id'; it has none"),
        ("s\n1\n", "it has no column 'id'; it has 's'"),
    ],
)
def test_wrong_csv_is_an_error_with_line_and_column(
    tmp_path: pathlib.Path, text: str, words: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises((RowError, SchemaError), match=f"^Source: {path}.*{words}"):
        read(str(path), schema=Schema.parse("id INT"))


def test_files_of_a_storage_are_read_with_a_filter(tmp_path: pathlib.Path) -> None:
    system = fsspec.filesystem("memory")
    try:
        for name, write in WRITERS.items():
            write(pa.table({"a": range(10)}), str(tmp_path / name), 5)
            system.pipe(f"/lake/{name}", (tmp_path / name).read_bytes())
            assert read(f"memory://lake/{name}", condition="a > 7")["a"].to_pylist() == [8, 9]
    finally:
        system.rm("/lake", recursive=True)


def test_selected_reads_only_the_columns_asked_for(tmp_path: pathlib.Path) -> None:
    for number in range(2):
        (tmp_path / f"day={number}").mkdir()
        pq.write_table(
            pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [1.0, 2.0, 3.0]}),
            tmp_path / f"day={number}/f.parquet",
        )
    whole = describe("Source", [str(tmp_path)])
    assert whole.selected(["a", "b", "c", "day"]) is whole
    filtered = describe("Source", [str(tmp_path)], condition="a > 1 AND day = 1").selected(["c"])
    assert [column.name for column in filtered.read] == ["c", "a", "day"]
    assert rows_of(filtered, parts_in(filtered, str(tmp_path))).to_pydict() == {"c": [2.0, 3.0]}
    again = filtered.selected(["c"])
    assert rows_of(again, parts_in(again, str(tmp_path))).num_rows == 2
    turned = whole.selected(["day", "b"])
    assert rows_of(turned, parts_in(turned, str(tmp_path))).to_pydict() == {
        "day": [0, 0, 0, 1, 1, 1],
        "b": ["x", "y", "z"] * 2,
    }


def test_whole_groups_have_exact_counts(tmp_path: pathlib.Path) -> None:
    table = pa.table({"a": range(1000), "s": ["x" * 50] * 1000})
    with (
        pa.OSFile(str(tmp_path / "a.arrows"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
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
    with pytest.raises(
        RowError,
        match="a.parquet: group 0 lacks 1 of its rows: the file was written again while the job",
    ):
        rows_of(described, parts)


def repeated(kind: str, path: str, text: str, rows: int) -> None:
    """A file that has one text once, and names it in each row."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array([None, *[0] * (rows - 1)], pa.int32()), pa.array([text])
    )
    if kind == "lists":
        texts = pa.ListArray.from_arrays(pa.array([0, 0, *range(1, rows + 1)], pa.int32()), texts)
    table = pa.table({"t": texts})
    if path.endswith("parquet"):
        pq.write_table(
            table, path, store_schema=False, compression="zstd", dictionary_pagesize_limit=1 << 30
        )
    else:
        write_arrow(table, path, 1 << 20, codec="zstd")


@pytest.mark.fault(
    "security", "A small file that decodes to gigabytes is read in small batches, up to a limit"
)
@pytest.mark.parametrize(
    ("kind", "ending"), [("texts", "parquet"), ("lists", "parquet"), ("texts", "feather")]
)
def test_batches_stay_small_where_each_row_has_the_longest_text(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str
) -> None:
    path = str(tmp_path / f"a.{ending}")
    repeated(kind, path, "A" * (1 << 20), 600)
    before = pa.total_allocated_bytes()
    table = describe("Source", [path])
    parts, reader = parts_in(table, path, part_bytes=1 << 20), FileParts(table)
    rows = most = 0
    for part in parts:
        for batch in reader.batches_of(part):
            rows, most = rows + batch.num_rows, max(most, pa.total_allocated_bytes() - before)
    assert rows == 600 + (kind == "lists") and most < 300 << 20, most >> 20
    monkeypatch.setenv("AKDL_GROUP_MB", "100")
    with pytest.raises(
        RowError,
        match=f"^Source: {path} .*more than 104857600 bytes; if you trust it, set AKDL_GROUP_MB to a higher",
    ):
        rows_of(table, parts)


def test_ordinary_dictionaries_do_not_make_batches_smaller(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    texts = [f"text {number % 1000}" for number in range(200_000)]
    pq.write_table(
        pa.table(
            {"t": texts, "l": [[text] for text in texts], "u": list(map(str, range(200_000)))}
        ),
        path,
    )
    table = describe("Source", [path], selected=["t"])
    reader = FileParts(table)
    (part,) = (part for part, _ in reader.parts_of(path, None))
    assert max(batch.num_rows for batch in reader.batches_of(part)) == 65_536
    assert len(read(path)) == 200_000


def replaced(path: str, old: bytes, new: bytes) -> None:
    content = pathlib.Path(path).read_bytes()
    assert content.count(old) >= 1 and len(old) == len(new)
    pathlib.Path(path).write_bytes(content.replace(old, new))


@pytest.mark.fault(
    "security", "Offsets and indices of a damaged Arrow file never show the memory of the process"
)
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_offsets_and_indices_outside_of_a_file_are_refused(
    tmp_path: pathlib.Path, make: Callable[..., Any]
) -> None:
    path = str(tmp_path / "a.arrow")
    for cells, numbers, row in (
        (pa.array(["abcdefgh"] * 4), [0, 8, 16, 24, 4096], 4),
        (pa.array(["abcdefgh"] * 4), [0, 8, 16, 24, 1 << 30], 4),
        (pa.array(["abcdefgh"] * 4), [-4096, 8, 16, 24, 32], 1),
        (pa.array(["abcdefgh"] * 4), [0, 8, 1 << 29, 24, 32], 2),
        (pa.array(["abcdefgh"] * 4), [0, 8, 16, 4, 32], 3),
        (pa.array([b"abcdefgh"] * 4), [0, 8, 1 << 16, 24, 32], 2),
        (pa.array([[1] * 8] * 4), [0, 8, 1 << 16, 24, 32], 2),
    ):
        write_arrow(pa.table({"t": cells}), path, 10, make)
        replaced(path, struct.pack("<5i", 0, 8, 16, 24, 32), struct.pack("<5i", *numbers))
        with pytest.raises(
            RowError,
            match=f"^Source: {path}: column 't', row {row} of its row group: the cell is not valid: .*write",
        ):
            read(path)
    for index in (1 << 28, -5, 2):
        texts = pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 0], pa.int32()), pa.array(["x", "y"])
        )
        write_arrow(pa.table({"t": texts}), path, 10, make)
        replaced(path, struct.pack("<3i", 0, 1, 0), struct.pack("<3i", 0, index, 0))
        with pytest.raises(
            RowError, match=f"^Source: {path}: column 't', row 2 of its row group: "
        ):
            read(path)


@pytest.mark.parametrize("name", WRITERS)
def test_invalid_utf_8_is_an_error_with_its_place(tmp_path: pathlib.Path, name: str) -> None:
    path = str(tmp_path / name)
    cells = pa.array([b"Rome"] * 999 + [b"K\xf6ln"], pa.binary())
    table = pa.table(
        {"id": range(1000), "city": pa.Array.from_buffers(pa.string(), 1000, cells.buffers())}
    )
    WRITERS[name](table, path, 1 << 20)
    with pytest.raises(
        RowError,
        match=f"^Source: {path}: column 'city', row 1000: a cell is not UTF-8: declare BYTES",
    ):
        read(path)


@pytest.mark.fault(
    "security", "A Parquet file that claims any number of rows is refused where they end"
)
@pytest.mark.parametrize("claimed", [10**9, 2**40, 2**60, -5])
def test_a_forged_number_of_rows_is_an_error(tmp_path: pathlib.Path, claimed: int) -> None:
    def varint(number: int) -> bytes:
        number, found = ((number << 1) ^ (number >> 63)) & (2**64 - 1), b""
        while number > 127:
            number, found = number >> 7, found + bytes([number & 127 | 128])
        return found + bytes([number])

    path, rows = tmp_path / "a.parquet", 100_003
    pq.write_table(pa.table({"a": pa.array([1] * rows)}), path)
    raw = path.read_bytes()
    size = struct.unpack("<I", raw[-8:-4])[0]
    data, footer = raw[: -8 - size], raw[-8 - size : -8].replace(varint(rows), varint(claimed))
    path.write_bytes(data + footer + struct.pack("<I", len(footer)) + b"PAR1")
    with pytest.raises(RowError, match=f"^Source: {path}.*(lacks|claims to have {claimed} rows)"):
        read(str(path), part_bytes=1 << 20)


def test_a_column_without_a_name_is_refused_with_the_remedy(tmp_path: pathlib.Path) -> None:
    for name, write in {
        **WRITERS,
        "a.csv": lambda table, path, rows: pv.write_csv(table, path),
    }.items():
        path = str(tmp_path / name)
        write(pa.table([pa.array([0, 1]), pa.array(["Rome", "Oslo"])], ["", "city"]), path, 10)
        with pytest.raises(
            SchemaError,
            match=f"^Source: {path}: column 1 of '', 'city' has no name.* selectedCols.*index=False",
        ):
            read(path)
        assert read(path, selected=["city"])["city"].to_pylist() == ["Rome", "Oslo"]


@pytest.mark.parametrize("aside", ["README.md", "z_state.json", "LICENSE"])
def test_a_file_that_is_no_part_of_the_table_is_named_with_a_pattern(
    tmp_path: pathlib.Path, aside: str
) -> None:
    write_arrow(pa.table({"a": [1]}), str(tmp_path / "data-0.arrow"), 10)
    (tmp_path / aside).write_text('{"splits": 1}')
    pattern = re.escape(f"set filePath to a pattern, such as {tmp_path}/*.feather")
    with pytest.raises(BridgeError, match=f"^Source: {tmp_path}/{aside} .*{pattern}"):
        read(str(tmp_path), format_="feather")
    with pytest.raises(BridgeError, match="set filePath to a pattern, such as "):
        read(str(tmp_path))
    assert read(f"{tmp_path}/*.arrow")["a"].to_pylist() == [1]


def test_all_rows_come_when_only_columns_of_folders_are_selected(tmp_path: pathlib.Path) -> None:
    for name, write in {
        **WRITERS,
        "a.csv": lambda table, path, rows: pv.write_csv(table, path),
    }.items():
        for day in (1, 2):
            folder = tmp_path / name / f"day={day}"
            folder.mkdir(parents=True)
            write(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), str(folder / name), 10)
        assert read(str(tmp_path / name), selected=["day"])["day"].to_pylist() == [
            1,
            1,
            1,
            2,
            2,
            2,
        ], name
