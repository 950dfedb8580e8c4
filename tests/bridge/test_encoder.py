"""Columns to framed Examples; what comes out is read back with the protobuf library."""

import datetime
import struct

import numpy as np
import pandas as pd
import pytest
from crc32c import crc32c

from akdl.packed import unpack
from akdl.wire import Example
from bridge.cells import check_size
from bridge.encoder import RowEncoder
from bridge.exceptions import RowError
from bridge.schema import Schema


def encode(schema, *columns, nulls=0, exact_doubles=False):
    """Encode columns; `nulls` are the mask bits, one number for all rows or one per row."""
    encoder = RowEncoder(Schema.parse(schema), exact_doubles)
    size = max(len(column) for column in columns)
    masks = np.broadcast_to(np.array(nulls, np.int64), size)
    extra = len(encoder.sql_arguments) - len(columns)
    return encoder.encode([*columns, *[pd.Series(masks if i == 0 else np.zeros(size, np.int64)) for i in range(extra)]])


def frames_to_examples(data):
    data, found = bytes(unpack(data)), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        record = data[12 : 12 + length]
        (crc,) = struct.unpack("<I", data[12 + length : 16 + length])
        plain = crc32c(record)
        assert crc == (((plain >> 15) | (plain << 17)) + 0xA282EAD8) & 0xFFFFFFFF
        found.append(to_dict(Example.FromString(record)))
        data = data[16 + length :]
    return found


def to_dict(example):
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value) for name, feature in example.features.feature.items()
    }


def rows(records):
    return [row for _, _, data in records.deal(1, 0) for row in frames_to_examples(data)]


def objects(*cells):
    return pd.Series(cells, dtype=object)


@pytest.mark.parametrize(
    ("sql", "column", "expected"),
    [
        ("BOOLEAN", pd.Series([True, False]), [[1], [0]]),
        ("TINYINT", pd.Series([-128, 127], dtype="i1"), [[-128], [127]]),
        ("INT", pd.Series([0, 2**31 - 1], dtype="i4"), [[0], [2**31 - 1]]),
        ("BIGINT", pd.Series([2**53 + 1, -(2**63)]), [[2**53 + 1], [-(2**63)]]),
        ("FLOAT", pd.Series([0.5, -np.inf], dtype="f4"), [[0.5], [-np.inf]]),
        ("DOUBLE", pd.Series([0.1, 1e300]), [[np.float32(0.1)], [np.inf]]),
        ("STRING", objects("żółć", ""), [["żółć".encode()], [b""]]),
        ("STRING", objects("x" * 127, "y" * 20_000), [[b"x" * 127], [b"y" * 20_000]]),
        ("BYTES", objects(b"\x00\xff", b""), [[b"\x00\xff"], [b""]]),
        ("DECIMAL(20, 3)", objects("12345678901234567.891", "-0.001"), [[b"12345678901234567.891"], [b"-0.001"]]),
        ("DATE", objects(datetime.date(1970, 1, 2), datetime.date(1, 1, 1)), [[1], [-719162]]),
        ("TIME(3)", objects(datetime.time(0, 0, 1, 5000), datetime.time(23, 59, 59)), [[1005], [86399000]]),
        ("TIMESTAMP(6)", pd.Series(np.array([1, -1], "M8[us]")), [[1], [-1]]),
        ("TIMESTAMP(3)", objects(pd.Timestamp("1970-01-01 00:00:00.001"), pd.Timestamp(0)), [[1000], [0]]),
        ("TIMESTAMP_LTZ(6)", objects('"1970-01-01T00:00:00.000001Z"', '"1969-12-31T23:59Z"'), [[1], [-60_000_000]]),
        ("TIMESTAMP_LTZ(3)", objects('"0001-01-01T00:00:00Z"', None), [[-62_135_596_800_000_000], None]),
        ("ARRAY<FLOAT>", objects(np.array([0.5, 1.5], "f4"), np.array([], "f4")), [[0.5, 1.5], []]),
        ("ARRAY<BIGINT>", objects(np.array([2**53 + 1, -1]), np.array([3])), [[2**53 + 1, -1], [3]]),
        ("ARRAY<BOOLEAN>", objects(np.array([True, False]), np.array([], bool)), [[1, 0], []]),
        ("ARRAY<STRING>", objects(np.array(["a", ""], object), np.array([], object)), [[b"a", b""], []]),
        ("ARRAY<DOUBLE>", objects(np.array([0.5]), np.array([1.5, 2.5])), [[0.5], [1.5, 2.5]]),
        ("ARRAY<BYTES>", objects(np.array([b"", b"\xff"], object), None), [[b"", b"\xff"], None]),
        ("ARRAY<STRING>", objects(np.array(["x" * 127, "y" * 20_000], object)), [[b"x" * 127, b"y" * 20_000]]),
        ("ARRAY<DECIMAL(5, 2)>", objects(np.array(["1.50", "-0.01"], object)), [[b"1.50", b"-0.01"]]),
        ("ARRAY<DATE>", objects(np.array([datetime.date(1970, 1, 2)], object), None), [[1], None]),
        ("ARRAY<TIME(3)>", objects(np.array([datetime.time(0, 0, 1, 5000)], object)), [[1005]]),
        ("ARRAY<TIMESTAMP(6)>", objects(np.array([1, -1], "M8[us]"), np.array([], "M8[us]")), [[1, -1], []]),
        ("DATE", objects(None, datetime.date(9999, 12, 31)), [None, [2_932_896]]),
        ("TIME(3)", objects(None, None), [None, None]),
        ("TIMESTAMP(6)", pd.Series(np.array(["NaT", "0001-01-01"], "M8[us]")), [None, [-62_135_596_800_000_000]]),
    ],
)
def test_every_type(sql, column, expected):
    assert rows(encode(f"x {sql}", column)) == [{} if cells is None else {"x": cells} for cells in expected]


def test_one_record_is_the_same_bytes_as_protobuf_makes():
    """In one schema where no varint needs padding, to the byte."""
    example = Example()
    example.features.feature["f"].float_list.value.append(1.5)
    (share,) = encode("f FLOAT NOT NULL", pd.Series([1.5], dtype="f4")).deal(1, 0)
    assert bytes(unpack(share[2]))[12:-4] == example.SerializeToString()


@pytest.mark.parametrize("sql", ["BIGINT", "FLOAT", "BOOLEAN", "DOUBLE"])
def test_masked_cells_are_absent(sql):
    values = pd.Series([1, 0, 1]).astype({"FLOAT": "f4", "DOUBLE": "f8", "BOOLEAN": bool}.get(sql, "i8"))
    assert rows(encode(f"x {sql}, s STRING", values, objects("a", None, "c"), nulls=[0, 1, 1])) == [
        {"x": [1], "s": [b"a"]}, {}, {"s": [b"c"]},
    ]  # fmt: skip


def test_nan_is_a_number():
    (row,) = rows(encode("x FLOAT", pd.Series([np.nan], dtype="f4")))
    assert np.isnan(row["x"][0])


def test_null_arrays_are_absent_and_empty_ones_are_not():
    assert rows(encode("x ARRAY<INT>", objects(None, np.array([], "i4"), np.array([7], "i4")))) == [{}, {"x": []}, {"x": [7]}]


def test_exact_doubles():
    (row,) = rows(encode("x DOUBLE, y ARRAY<DOUBLE>", pd.Series([0.1]), objects(np.array([0.1, 1e300])), exact_doubles=True))
    assert row == {"x": [struct.pack("<d", 0.1)], "y": [struct.pack("<dd", 0.1, 1e300)]}


def test_more_columns_than_bits_of_a_mask():
    schema = ", ".join(f"c{i} INT" for i in range(130))
    encoder = RowEncoder(Schema.parse(schema))
    assert len(encoder.sql_arguments) == 130 + 3
    columns = [pd.Series([i], dtype="i4") for i in range(130)]
    masks = [pd.Series([0]), pd.Series([1 << 5]), pd.Series([1])]
    (row,) = rows(encoder.encode([*columns, *masks]))
    assert {f"c{i}" for i in range(130)} - set(row) == {"c67", "c124"}


def test_constants_stand_for_every_row():
    encoder = RowEncoder(Schema.parse("x INT, s STRING"))
    assert rows(encoder.encode([5, "word", pd.Series([0, 0])])) == [{"x": [5], "s": [b"word"]}] * 2


def test_no_rows():
    records = encode("x BIGINT, s STRING", pd.Series([], dtype="i8"), objects())
    assert len(records) == 0 and records.deal(3, 1) == []


def test_a_null_element_is_refused_with_column_and_row():
    with pytest.raises(RowError, match=r"column 'x' \(ARRAY<INT>\): the array in row 1 of a batch holds a null"):
        encode("x ARRAY<INT>", objects(np.array([1]), np.array([np.nan])), nulls=[0, 1])


@pytest.mark.parametrize(
    ("sql", "bad"),
    [
        ("STRING", 7),
        ("BYTES", 7),
        ("DATE", "2020"),
        ("TIMESTAMP_LTZ(3)", '"noon"'),
        ("ARRAY<INT>", ["one"]),
        ("ARRAY<INT>", 1),
    ],
)
def test_a_cell_that_cannot_be_used_names_its_column_and_row(sql, bad):
    cells = objects(None, None, bad)
    with pytest.raises(RowError, match=r"column 'x' \(.*\): row 2 of a batch: "):
        encode(f"x {sql}", cells)


def test_numbers_of_the_present_rows_alone_decide_the_width():
    columns = pd.Series(np.array([5, "NaT"], "M8[us]")), pd.Series(np.array([5, 6], "M8[us]"))
    one, other = (encode("x TIMESTAMP(6)", column).deal(2, 0)[0][2] for column in columns)
    assert len(unpack(one)) == len(unpack(other))


def test_more_bytes_than_an_arrow_array_holds():
    with pytest.raises(RowError, match=r"more than the 2 GiB.*python\.fn-execution\.arrow\.batch\.size"):
        check_size(2**31)


def test_columns_of_any_name_and_number_of_rows():
    schema = ", ".join(f"`column {i}` INT NOT NULL" for i in range(300))
    (row,) = rows(encode(schema, *[pd.Series([i], dtype="i4") for i in range(300)]))
    assert row == {f"column {i}": [i] for i in range(300)}
    assert [row["größe`"] for row in rows(encode("`größe``` INT", pd.Series(range(20_000))))] == [[i] for i in range(20_000)]


@pytest.mark.parametrize("schema", ["x BIGINT NOT NULL", "x BIGINT NOT NULL, s STRING"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 9, 10])
def test_rows_are_dealt_round_robin(schema, workers, first, size):
    columns = [pd.Series(range(size)), objects(*["s" * i for i in range(size)])][: 2 if "STRING" in schema else 1]
    shares = encode(schema, *columns).deal(workers, first % workers)
    dealt = {worker: [row["x"][0] for row in frames_to_examples(data)] for worker, _, data in shares}
    assert dealt == {
        worker: ids for worker in range(workers) if (ids := [row for row in range(size) if (first + row) % workers == worker])
    }
    assert all(count == len(dealt[worker]) for worker, count, _ in shares)
