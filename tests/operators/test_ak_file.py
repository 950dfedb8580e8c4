"""Rows in .ak files: the bytes are those of Flink's own serializer."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pathlib
import zipfile
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import MLEnv
from operators.ak_file import AkWriter, is_ak_file, read_rows, read_schema

SCHEMA = Schema.parse(
    "a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e TINYINT, f SMALLINT, g INT, h FLOAT, i BYTES, j DECIMAL(38, 18), k DATE, "
    "l TIME(3), m TIMESTAMP(3)"
)
ROWS = [
    (-5, "żółć 😀", 0.1, True, -1, 300, 70000, 0.5, b"\x00\xff", decimal.Decimal("-12.340"), datetime.date(1960, 2, 29),
     datetime.time(1, 2, 3, 4000), datetime.datetime(1960, 2, 29, 1, 2, 3, 4000)),
    (None,) * 13,
    (2**62, "", None, False, 1, None, None, -1.5, b"", decimal.Decimal(10), None, datetime.time(), datetime.datetime(2024, 2, 29)),
]  # fmt: skip


def written(path: pathlib.Path, schema: Schema, rows: list[Any]) -> str:
    with open(path, "wb") as file:
        writer = AkWriter(file, schema)
        for row in rows:
            writer.write(row)
        writer.close()
    return str(path)


def test_rows_come_back(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "t.ak", SCHEMA, ROWS)
    assert is_ak_file(path) and not is_ak_file(__file__)
    assert list(read_rows(path)) == ROWS
    types = [column.type.sql for column in read_schema(path)]
    assert types[9:] == ["DECIMAL(38, 18)", "DATE", "TIME", "TIMESTAMP(6)"] and types[:2] == ["BIGINT", "STRING"]


def test_the_description_is_as_alink_reads_it(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(written(tmp_path / "t.ak", Schema.parse("model_id BIGINT, model_info STRING"), [])) as file:
        assert file.namelist() == ["alink_meta.json", "data"]
        meta = json.loads(file.read("alink_meta.json"))
        assert file.read("data") == b"ALK"
    assert (meta["schemaStr"], meta["numFiles"]) == ("model_id BIGINT,model_info VARCHAR", 1)


def test_rows_of_older_versions_have_no_kind(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "old.ak")
    records = [bytes([0b01000000]) + b"\0\0\0\7", bytes([0b10000000]) + b"\2a", bytes([0]) + b"\0\0\0\1\2b"]
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("alink_meta.json", json.dumps({"schemaStr": "id INT,name VARCHAR"}))
        file.writestr("data", b"ALK" + b"".join(len(each).to_bytes(3, "big") + each for each in records))
    assert list(read_rows(path)) == [(7, None), (None, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("meta", "data", "words"),
    [
        ("{}", b"ALK", "is no .ak file: 'schemaStr'"),
        ('{"schemaStr": "v MTABLE"}', b"ALK", "unknown type 'MTABLE'.*cannot be read here"),
        ('{"schemaStr": "v FLOAT_TENSOR"}', b"ALK", "the column 'v' has the type ARRAY<FLOAT>, which is not supported"),
        ('{"schemaStr": "v INT"}', b"XYZ", "the entry data does not begin with ALK"),
        ('{"schemaStr": "v INT"}', b"ALK\0\0\x05\0\0", "the file ends inside a row"),
        ('{"schemaStr": "v INT"}', b"ALK\0\0\x02\0\0", "row 0 of data is damaged"),
    ],
)
def test_files_that_are_damaged(tmp_path: pathlib.Path, meta: str, data: bytes, words: str) -> None:
    path = str(tmp_path / "bad.ak")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("alink_meta.json", meta)
        file.writestr("data", data)
    with pytest.raises(ConfigurationError, match=words):
        list(read_rows(path))


def test_what_is_no_zip_file() -> None:
    with pytest.raises(ConfigurationError, match="is no .ak file"):
        read_schema(__file__)


def test_a_row_that_is_too_large() -> None:
    with pytest.raises(ConfigurationError, match="rows of at most 16777215 bytes"):
        AkWriter(io.BytesIO(), Schema.parse("a BYTES")).write((bytes(1 << 24),))


@pytest.mark.flink
def test_bytes_are_those_of_flink(env: MLEnv, tmp_path: pathlib.Path) -> None:
    assert env.btenv
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    infos = jvm.org.apache.flink.api.common.typeinfo.Types
    kinds = [
        infos.LONG,
        infos.STRING,
        infos.DOUBLE,
        infos.BOOLEAN,
        infos.INT,
        infos.BIG_DEC,
        infos.SQL_TIMESTAMP,
        infos.SQL_DATE,
    ]
    array = get_gateway().new_array(jvm.org.apache.flink.api.common.typeinfo.TypeInformation, len(kinds))
    for place, kind in enumerate(kinds):
        array[place] = kind
    config = jvm.org.apache.flink.api.common.serialization.SerializerConfigImpl()
    serializer = infos.ROW(array).createSerializer(config)
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)
    stamp = jvm.java.sql.Timestamp((moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1))
    day = jvm.java.sql.Date(86_400_000)
    number = jvm.java.math.BigDecimal("-12345.678")
    ours = [
        (2**40, "żółć 😀" * 50, -0.5, True, 7, decimal.Decimal("-12345.678"), moment, datetime.date(1970, 1, 2)),
        (None, "", *[None] * 6),
    ]
    theirs = [(2**40, ours[0][1], -0.5, True, 7, number, stamp, day), (None, "", *[None] * 6)]
    types = "a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e INT, f DECIMAL(38, 18), g TIMESTAMP(3), h DATE"
    expected = b"ALK"
    for cells in theirs:
        row = jvm.org.apache.flink.types.Row(len(cells))
        for place, cell in enumerate(cells):
            row.setField(place, cell)
        out = jvm.org.apache.flink.core.memory.DataOutputSerializer(64)
        serializer.serialize(row, out)
        record = bytes(out.getCopyOfBuffer())
        expected += len(record).to_bytes(3, "big") + record
    with zipfile.ZipFile(written(tmp_path / "t.ak", Schema.parse(types), ours)) as file:
        assert file.read("data") == expected
