"""Rows in .ak files: the bytes are those of files that Alink wrote, in tests/data/alink;
expected.json has what Alink reads there.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pathlib
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from akdl.storage.ak_records import is_ak_file
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.alink import ak_file
from operators.alink.ak_file import AkWriter, read_rows, read_schema
from operators.alink.java_times import zone_of
from operators.prepare.model_file import packed_model

SCHEMA = Schema.parse(
    "a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e TINYINT, f SMALLINT, g INT, h FLOAT, i BYTES, j DECIMAL(38, 18), k DATE, "
    "l TIME(3), m TIMESTAMP(3)"
)
FILES = pathlib.Path(__file__).parents[2] / "data" / "alink"
EXPECTED: dict[str, Any] = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
ROWS = [
    (-5, "żółć 😀", 0.1, True, -1, 300, 70000, 0.5, b"\x00\xff", decimal.Decimal("-12.340"), datetime.date(1960, 2, 29),
     datetime.time(1, 2, 3, 4000), datetime.datetime(1960, 2, 29, 1, 2, 3, 4000)),
    (None,) * 13,
    (2**62, "", None, False, 1, None, None, -1.5, b"", decimal.Decimal(10), None, datetime.time(), datetime.datetime(2024, 2, 29)),
]  # fmt: skip


def written(
    path: pathlib.Path, schema: Schema, rows: list[Any], zone: datetime.tzinfo | None = None
) -> str:
    with open(path, "wb") as file:
        writer = AkWriter(file, schema, zone)
        for row in rows:
            writer.write(row)
        writer.close()
    return str(path)


def test_rows_and_types_written_to_an_ak_file_come_back(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t.ak", SCHEMA, ROWS)
    assert is_ak_file(path) and not is_ak_file(__file__)
    assert list(read_rows(path)) == ROWS
    types = [column.type.sql for column in read_schema(path)]
    assert types[9:] == ["DECIMAL(38, 18)", "DATE", "TIME(3)", "TIMESTAMP(6)"] and types[:2] == [
        "BIGINT",
        "STRING",
    ]


def test_the_description_is_as_alink_reads_it(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(
        written(tmp_path / "t.ak", Schema.parse("model_id BIGINT, model_info STRING"), [])
    ) as file:
        assert file.namelist() == ["alink_meta.json", "data"]
        meta = json.loads(file.read("alink_meta.json"))
        assert file.read("data") == b"ALK"
    assert (meta["schemaStr"], meta["numFiles"]) == ("model_id BIGINT,model_info STRING", 1)


@pytest.mark.parametrize(
    ("meta", "data", "words"),
    [
        ("{}", b"ALK", "is not an .ak file: 'schemaStr'"),
        ('{"schemaStr": "v"}', b"ALK", "is not an .ak file"),
        ('{"schemaStr": "v INT"}', b"XYZ", "the entry data does not begin with ALK"),
        ('{"schemaStr": "v INT"}', b"ALK\0\0\x05\0\0", "the file ends inside a row"),
        (
            '{"schemaStr": "v INT"}',
            b"ALK\0\0\x02\0\0",
            "row 0 of data, column 'v': the cell cannot be read",
        ),
        (
            '{"schemaStr": "v INT"}',
            b"ALK\0\0\x06" + bytes(6),
            "row 0 of data is damaged: expected 5 bytes, got 6",
        ),
        ('{"schemaStr": "v INT"}', b"ALK\xff\xff\xff\0\0\0", "the file ends inside a row"),
        ('{"schemaStr": "v INT"}', b"ALK\xff\xff\xff\xff\0\0\0", "the file ends inside a row"),
    ],
)
def test_damaged_ak_files_are_refused(
    tmp_path: pathlib.Path, meta: str, data: bytes, words: str
) -> None:
    path = str(tmp_path / "bad.ak")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("alink_meta.json", meta)
        file.writestr("data", data)
    with pytest.raises(ConfigurationError, match=words):
        list(read_rows(path))


def test_file_that_is_no_zip_file_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not an .ak file"):
        read_schema(__file__)


@pytest.mark.parametrize("size", [(1 << 24) - 2, (1 << 24) - 1, 1 << 24])
def test_rows_at_the_limit_of_a_short_length_come_back(tmp_path: pathlib.Path, size: int) -> None:
    rows = [(bytes(size - 5),), (b"x",)]  # with a mask and the length of the bytes
    path = written(tmp_path / "t.ak", Schema.parse("a BYTES"), rows)
    assert list(read_rows(path)) == rows
    with zipfile.ZipFile(path) as file, file.open("data") as data:
        head = b"ALK" + (
            size.to_bytes(3, "big")
            if size < 0xFFFFFF
            else b"\xff\xff\xff" + size.to_bytes(4, "big")
        )
        assert data.read(len(head) + 1) == head + b"\0"


def zone_of_file(name: str) -> datetime.tzinfo:
    """Files of one time zone have its name; the others are of UTC."""
    return zone_of(name[3:].replace("_", "/", 1)) if name.startswith("tz_") else zone_of("UTC")


def as_told(cell: Any, told: Any) -> Any:
    """Return a cell in the form of expected.json: times, decimals and most vectors as text, times
    to the digits that it has.
    """
    if isinstance(cell, decimal.Decimal):
        return told if cell == decimal.Decimal(told) else cell
    if isinstance(cell, (datetime.date, datetime.time)):
        return (
            told if str(cell)[: len(told)] == told or str(cell) == told[: len(str(cell))] else cell
        )
    return pytest.approx(cell, rel=1e-14) if isinstance(cell, float) else cell


@pytest.mark.parametrize("name", EXPECTED)
def test_files_written_by_alink_are_read(name: str) -> None:
    path = FILES / name
    files = sorted(path.iterdir()) if path.is_dir() else [FILES / f"{name}.ak"]
    refused = re.search(r"(\w+) ANY<", EXPECTED[name]["schema"])
    if refused:
        with pytest.raises(
            ConfigurationError, match=f"column '{refused[1]}' has the type .*VectorSerializeBatchOp"
        ):
            list(read_rows(str(files[0])))
        return
    rows = [row for file in files for row in read_rows(str(file), zone_of_file(name))]
    expected = EXPECTED[name]["rows"]
    assert len(rows) == len(expected)
    for row, told in zip(rows, expected):
        assert [
            None if cell is None else as_told(cell, text) for cell, text in zip(row, told)
        ] == told


@pytest.mark.parametrize("path", sorted(FILES.glob("*.ak")), ids=lambda path: path.stem)
def test_our_ak_files_equal_those_of_alink(tmp_path: pathlib.Path, path: pathlib.Path) -> None:
    with zipfile.ZipFile(path) as file:
        meta, data = file.read("alink_meta.json"), file.read("data")
    zone = zone_of_file(path.stem)
    try:
        rows = list(read_rows(str(path), zone))
    except ConfigurationError as error:
        assert re.search(
            "has the type .* which only Java can read: write the file in Alink", str(error)
        )
        return
    with zipfile.ZipFile(written(tmp_path / "t.ak", read_schema(str(path)), rows, zone)) as file:
        if b"DENSE_VECTOR" not in meta:  # which is text here
            assert (file.read("alink_meta.json"), file.read("data")) == (meta, data)


CELLS: dict[str, Callable[[random.Random], Any]] = {
    "BOOLEAN": lambda rng: rng.random() < 0.5,
    "TINYINT": lambda rng: rng.randrange(-128, 128),
    "BIGINT": lambda rng: rng.choice([-(2**63), 2**63 - 1, rng.randrange(-9, 9)]),
    "FLOAT": lambda rng: struct.unpack(">f", struct.pack(">f", rng.gauss(0, 1e9)))[0],
    "DOUBLE": lambda rng: rng.choice([float("inf"), -0.0, 5e-324, rng.random()]),
    "STRING": lambda rng: "".join(
        rng.choice(["", "x", "\x7f", "\x80", "ł", "日本", "𝄞", "\0"])
        for _ in range(rng.randrange(200))
    ),
    "BYTES": lambda rng: rng.randbytes(rng.choice([0, 1, 300])),
    "DECIMAL(38, 18)": lambda rng: decimal.Decimal(
        (
            rng.randrange(2),
            tuple(rng.randrange(10) for _ in range(rng.randrange(1, 39))),
            -rng.randrange(19),
        )
    ),
    "DATE": lambda rng: datetime.date.fromordinal(
        rng.choice([rng.randrange(1, 3652059), rng.randrange(719163, 740000)])
    ),
    "TIME(3)": lambda rng: (
        datetime.datetime.min + datetime.timedelta(milliseconds=rng.randrange(86_400_000))
    ).time(),
    "TIMESTAMP(6)": lambda rng: (
        datetime.datetime.min
        + datetime.timedelta(
            rng.choice([rng.randrange(1, 3652058), rng.randrange(719163, 740000)]),
            0,
            rng.randrange(86_400 * 10**6),
        )
    ),
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/Sao_Paulo", "Pacific/Apia"])
def test_random_rows_come_back_or_are_refused_by_column(tmp_path: pathlib.Path, zone: str) -> None:
    """Nothing but what a clock or Java's calendar leaves out is refused."""
    rng = random.Random(zone)
    for _ in range(20):
        kinds = rng.choices(list(CELLS), k=rng.randrange(1, 20))
        schema = Schema.parse(", ".join(f"c{place} {kind}" for place, kind in enumerate(kinds)))
        rows, kept = [], []
        for _ in range(20):
            rows.append(tuple(None if rng.random() < 0.3 else CELLS[kind](rng) for kind in kinds))
        for row in rows:
            try:
                AkWriter(io.BytesIO(), schema, zone_of(zone)).write(row)
            except ConfigurationError as error:
                assert re.search(rf"column 'c\d+': .* does not exist in {zone}: CAST", str(error))
                continue
            kept.append(row)
        assert len(kept) >= len(rows) - 2
        assert (
            list(read_rows(written(tmp_path / "t.ak", schema, kept, zone_of(zone)), zone_of(zone)))
            == kept
        )


@pytest.mark.parametrize(
    ("types", "cell", "words"),
    [
        (
            "t TIMESTAMP(3)",
            datetime.datetime(2024, 3, 10, 2, 30),
            "row 0, column 't': 2024-03-10 02:30:00 does not exist in America",
        ),
        (
            "t DATE",
            datetime.date(1582, 10, 10),
            "row 0, column 't': 1582-10-10 does not exist in America/New_York",
        ),
        ("t TIME(3)", datetime.time(1, 2, 3, 4), "column 't': 01:02:03.000004 has microseconds"),
    ],
)
def test_times_that_ak_files_cannot_hold_are_refused(types: str, cell: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        AkWriter(io.BytesIO(), Schema.parse(types), zone_of("America/New_York")).write((cell,))


@pytest.mark.parametrize("name", ["`start time`", "`a,b`", "`f(x)`", "`a``b`"])
def test_column_names_that_alink_would_split_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match="column .*: names in .ak files cannot contain spaces.*rename the column with alias",
    ):
        AkWriter(io.BytesIO(), Schema.parse(f"{name} INT"))


@pytest.mark.fault("data")
def test_a_small_file_with_very_many_rows_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ak_file, "_FREE_BYTES", 1 << 20)
    path = str(tmp_path / "t.ak")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("alink_meta.json", '{"schemaStr":"a BOOLEAN"}')
        file.writestr("data", b"ALK" + b"\0\0\x02\0\1" * 100_000)
    with pytest.raises(
        ConfigurationError,
        match=r"t.ak: \d+ bytes unpack to more than 1048576 bytes.*AKDL_ARCHIVE_RATIO",
    ):
        list(read_rows(path))
    monkeypatch.setenv("AKDL_ARCHIVE_RATIO", "100000")
    assert sum(1 for _ in read_rows(path)) == 100_000


def test_a_small_file_with_a_very_large_row_is_refused_before_it_is_in_memory(
    tmp_path: pathlib.Path,
) -> None:
    path = str(tmp_path / "t.ak")
    size = 300 << 20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("alink_meta.json", '{"schemaStr":"a VARBINARY"}')
        with file.open("data", "w") as data:
            data.write(
                b"ALK\xff\xff\xff" + (size + 5).to_bytes(4, "big") + b"\0" + size.to_bytes(4, "big")
            )
            for _ in range(size >> 20):
                data.write(bytes(1 << 20))
    with pytest.raises(ConfigurationError, match="unpack to more than .* AKDL_ARCHIVE_RATIO"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "keras_model",
            "a model of Alink's KerasSequential .*: train it here with the operator of the same name",
        ),
        ("lrmodel", "a model of Alink without TensorFlow: .*Logistic Regression"),
        (
            "cols9",
            "cols9.ak: expected a model table with the columns model_id, model_info, got a, b, ",
        ),
        (
            "mtable",
            "expected a model table with the columns model_id, model_info, got x, m; a pipeline of Alink",
        ),
    ],
)
@pytest.mark.fault("data", "A model of Alink other than a SavedModel is refused by its name")
def test_models_of_alink_without_a_saved_model_are_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        packed_model("TFTableModelPredictBatchOp: modelFilePath", str(FILES / f"{name}.ak"))


@pytest.mark.parametrize(
    "name", ["tf_model_table", "seed_model", "written_by_product/tf_model_table"]
)
def test_models_of_alink_with_a_saved_model_are_packed(name: str) -> None:
    with zipfile.ZipFile(
        packed_model("TFTableModelPredictBatchOp: modelFilePath", str(FILES / f"{name}.ak"))
    ) as file:
        assert {"saved_model.pb", "variables/variables.index"} <= set(file.namelist())
