"""Lines of JSON: exact numbers, instants, bytes, hostile text, and the place of what does
not fit.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import pyarrow as pa
import pytest

from bridge.exceptions import BridgeError, RowError
from bridge.files.description import describe
from bridge.formats import json_text
from bridge.formats.file_columns import declared_column
from bridge.schema import Schema
from tests.bridge.files.test_reading import read
from tests.bridge.formats.test_texts import json_lines
from tests.support.deadline import DEADLINE_S

UTC = datetime.timezone.utc
MB = 1 << 20


def above_a_block(line: str) -> str:
    """The line 1,500 times, filled up with blanks to more than a block of lines."""
    return f"{line:1000}\n" * 1_500


def read_text(
    folder: pathlib.Path, text: str | bytes, sql: str | None = None, **wanted: Any
) -> pa.Table:
    path = folder / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(path), schema=None if sql is None else Schema.parse(sql), **wanted)


def refusal(folder: pathlib.Path, text: str | bytes, sql: str | None = None, **wanted: Any) -> str:
    """Return the error for a file, which names the operator and the file."""
    with pytest.raises(BridgeError) as caught:
        read_text(folder, text, sql, **wanted)
    told = str(caught.value)
    assert told.startswith(f"Source: {folder}/a.json: "), told
    return told


@pytest.mark.parametrize(
    ("text", "place", "digits"),
    [
        ('{"a": 18446744073709551615}', "line 1, column 'a'", "18446744073709551615"),
        ('{"a": 1}\n{"a": 9223372036854775808}', "line 2, column 'a'", "9223372036854775808"),
        ('{"a": -9223372036854775809}', "line 1, column 'a'", "-9223372036854775809"),
        (
            '{"b": 1, "a": {"x": [[1], [12345678901234567890]]}}',
            "line 1, column 'a'",
            "12345678901234567890",
        ),
        ('{"a": 1.5}\n\n{"a": 9007199254740993}', "line 3, column 'a'", "9007199254740993"),
        ('\n{"a": 9007199254740993}\n{"a": 1.5}', "line 2, column 'a'", "9007199254740993"),
        ('{"a": [9007199254740993]}\n{"a": [0.5]}', "line 1, column 'a'", "9007199254740993"),
        ('{"a": ' + "9" * 5000 + "}", "line 1, column 'a'", "9" * 40),
        (
            '{"a": 1.5}\n' + " " * MB + '\n{"a": 18446744073709551615}',
            "line 3, column 'a'",
            "18446744073709551615",
        ),
    ],
)
@pytest.mark.fault(
    "data",
    "An integer of JSON or CSV that BIGINT and DOUBLE cannot hold is an error, unless its type is declared",
)
def test_integers_beyond_bigint_are_refused(
    tmp_path: pathlib.Path, text: str, place: str, digits: str
) -> None:
    told = refusal(tmp_path, text)
    assert (
        f"{place}: {digits} needs more digits than DOUBLE has" in told
        and "declare DECIMAL(20, 0) for it in schemaStr" in told
    )


def test_integers_beyond_bigint_in_a_later_block_are_refused(tmp_path: pathlib.Path) -> None:
    text = above_a_block('{"a": 1}') + '{"a": 9223372036854775808}\n'
    assert "line 1501, column 'a': expected BIGINT, got 9223372036854775808" in refusal(
        tmp_path, text
    )


def test_declared_types_hold_integers_beyond_bigint(tmp_path: pathlib.Path) -> None:
    text = '{"a": 18446744073709551615, "b": [0, "P"]}\n{"a": 9007199254740993}'
    assert read_text(tmp_path, text, "a DECIMAL(20, 0)")["a"].to_pylist() == [2**64 - 1, 2**53 + 1]
    assert read_text(tmp_path, text, "a DOUBLE")["a"].to_pylist() == [2.0**64, 2.0**53]
    assert "declare the columns to read in schemaStr" in refusal(
        tmp_path, text.partition("\n")[0].replace("184467440737095", "")
    )
    found = read_text(
        tmp_path, '{"a": 18446744073709551615, "x": 1}', "a DECIMAL(20, 0)", selected=["x", "a"]
    )
    assert found.to_pylist() == [{"x": 1, "a": decimal.Decimal(2**64 - 1)}]


def test_large_floats_of_json_stay_floats(tmp_path: pathlib.Path) -> None:
    text = '{"a": 1e19, "s": "12345678901234567890"}\n{"a": 12345678901234567890.0}\n{"a": -1e308}\n{"a": 4503599627370496}\n'
    assert read_text(tmp_path, text)["a"].to_pylist() == [
        1e19,
        12345678901234567890.0,
        -1e308,
        2.0**52,
    ]
    assert "line 1: expected an object in one line: Number too big" in refusal(
        tmp_path, '{"a": 1e400}'
    )
    assert (
        "column 'a', row 2: a cell of the type double does not fit FLOAT: it is beyond FLOAT"
        in refusal(tmp_path, '{"a": 1}\n{"a": 1e39}', "a FLOAT")
    )


@pytest.mark.parametrize(
    ("texts", "sql"),
    [
        (["2024-04-29T14:38:00+02:00", "2024-04-29T12:38:00Z"], "TIMESTAMP_LTZ(0)"),
        (["2024-04-29 12:38:00.123456Z", "2024-04-29T12:38:00Z"], "TIMESTAMP_LTZ(6)"),
        (["2024-04-29T12:38:00.5+0000"], "TIMESTAMP_LTZ(3)"),
        (["2024-04-29T12:38:00", "2024-04-29"], "TIMESTAMP(0)"),
        (["2024-04-29T12:38:00.25"], "TIMESTAMP(3)"),
        (["2024-04-29T12:38:00", "2024-04-29T12:38:00Z"], "STRING"),
        (["2024-04-29T12:38:00Z", "soon"], "STRING"),
        (["2024-04-29T12:38:00.123456789Z"], "STRING"),
    ],
)
@pytest.mark.fault("data", "Instants in JSON and CSV stay the same instants")
def test_times_in_json_are_instants_timestamps_or_texts(
    tmp_path: pathlib.Path, texts: list[str], sql: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text("\n".join(json.dumps({"t": each}) for each in [*texts, None]))
    (column,) = describe("Source", [str(path)]).columns
    cells = read(str(path))["t"].to_pylist()
    assert column.sql == sql and cells[-1] is None
    if "LTZ" in sql:
        assert cells[0].replace(tzinfo=UTC) == datetime.datetime.fromisoformat(
            texts[0].replace("Z", "+00:00")[:32]
        )
    elif sql == "STRING":
        assert cells[:-1] == texts


def test_times_in_arrays_and_objects_are_texts(tmp_path: pathlib.Path) -> None:
    text = '{"a": ["2024-04-29T12:38:00+04:00"], "b": {"c": "2024-04-29"}}'
    assert read_text(tmp_path, text).to_pylist() == [
        {"a": ["2024-04-29T12:38:00+04:00"], "b": {"c": "2024-04-29"}}
    ]
    found = read_text(tmp_path, '{"a": ["2024-04-29T12:38:00", null]}', "a ARRAY<TIMESTAMP(3)>")
    assert found["a"].to_pylist() == [[datetime.datetime(2024, 4, 29, 12, 38), None]]


def test_declared_times_are_not_shifted(tmp_path: pathlib.Path) -> None:
    text = '{"t": "2024-04-29T12:38:00"}\n\n{"t": "2024-04-29T14:38:00+02:00"}'
    told = refusal(tmp_path, text, "t TIMESTAMP(3)")
    assert "column 't', row 2: " in told and told.endswith(
        "declare TIMESTAMP_LTZ for it in schemaStr"
    )
    told = refusal(tmp_path, text, "t TIMESTAMP_LTZ(3)")
    assert "column 't', row 1: " in told and "declare TIMESTAMP for it in schemaStr" in told
    later = '{"t": "2024-04-29T14:38:00Z"}\n' * 40_000 + '{"t": "2024-04-29T14:38:00"}'
    assert "column 't', row 40001: " in refusal(tmp_path, later)


def test_lines_written_by_a_json_sink_are_read_unchanged(tmp_path: pathlib.Path) -> None:
    instant = datetime.datetime(2024, 11, 3, 6, 30, 0, 250_000, UTC)
    columns = {
        "instant TIMESTAMP_LTZ(6)": pa.array(
            [instant, None], pa.timestamp("us", "America/New_York")
        ),
        "at TIMESTAMP(6)": pa.array([instant.replace(tzinfo=None), None], pa.timestamp("us")),
        "ms TIMESTAMP(3)": pa.array([instant.replace(tzinfo=None), None], pa.timestamp("ms")),
        "day DATE": pa.array([instant.date(), None]),
        "hour TIME(3)": pa.array([datetime.time(6, 30, 0, 250_000), None], pa.time32("ms")),
        "short TIME(0)": pa.array([datetime.time(6, 30), None], pa.time32("s")),
        "b BYTES": pa.array([b"\x00\xffa", None]),
        "f BINARY(2)": pa.array([b"\xff\x00", None], pa.binary(2)),
        "bs ARRAY<BYTES>": pa.array([[b"a", None, b""], None]),
        "price DECIMAL(20, 2)": pa.array([decimal.Decimal("123456789012345678.90"), None]),
        "x DOUBLE": pa.array([0.1, None]),
        "n BIGINT": pa.array([2**63 - 1, None]),
    }
    names = [sql.split()[0] for sql in columns]
    text = json_lines(pa.record_batch(list(columns.values()), names))
    found = read_text(tmp_path, text, ", ".join(columns))
    given = pa.table(list(columns.values()), names)
    for name in names[1:]:
        assert found[name].to_pylist() == given[name].to_pylist(), name
    assert found["instant"].to_pylist() == [instant.replace(tzinfo=None), None]
    assert read_text(tmp_path, text)["instant"].to_pylist() == found["instant"].to_pylist()


@pytest.mark.parametrize("text", ["AQI", "AQI=x", "caf\u00e9", "A-_="])
def test_bytes_of_json_have_to_be_base64(tmp_path: pathlib.Path, text: str) -> None:
    coded = base64.encodebytes(bytes(range(100))).decode()
    assert read_text(tmp_path, json.dumps({"a": coded}), "a BYTES")["a"].to_pylist() == [
        bytes(range(100))
    ]
    told = refusal(tmp_path, json.dumps({"a": coded}) + "\n" + json.dumps({"a": text}), "a BYTES")
    assert f"line 2, column 'a': expected BYTES in base64, got \"{text}\"" in told


@pytest.mark.parametrize(
    ("text", "sql", "place"),
    [
        (b'{"b": 1, "a": "x"}\n{"b": 1, "a": "caf\xe9"}', None, "line 2, column 'a': the file is not UTF-8"),
        (b'{"a": {"b": ["caf\xe9"]}}', "a STRING", "line 1, column 'a': the file is not UTF-8"),
        (b'{"caf\xe9": 1}', None, "line 1, column 'caf\\udce9': the file is not UTF-8"),
        (above_a_block('{"a": 1}').encode() + b'{"a": 1, "c": "\xff"}', "a INT", "line 1501, column 'c': the file is not UTF-8"),
        (b'\xff\xfe{\x00', None, "line 1: the file is not UTF-8"),
    ],
)  # fmt: skip
@pytest.mark.fault(
    "data", "Text of JSON, CSV or Parquet that is not UTF-8 is an error with file, column and row"
)
def test_invalid_utf8_is_an_error_with_its_place(
    tmp_path: pathlib.Path, text: bytes, sql: str | None, place: str
) -> None:
    assert place in refusal(tmp_path, text, sql)


@pytest.mark.parametrize(
    ("text", "sql", "place"),
    [
        ('{"a": 1, "a": 2}', None, "line 1: expected the key 'a' once, got it twice"),
        (
            '{"a": 3}\n{"a": {"b": 1, "b": null}}',
            "x INT, a STRING",
            "line 1, column 'a': expected STRING, got 3",
        ),
        (
            '{"a": {"b": 1}}\n{"a": {"b": 1, "b": null}}',
            None,
            "line 2: expected the key 'a/b' once, got it twice",
        ),
        (
            '{"n": [0, 4, "P"]}',
            None,
            "line 1: Column(/n/[]) changed from number to string: declare the columns to read",
        ),
        (
            above_a_block('{"a": 1}') + '{"a": 2.5}',
            None,
            "line 1501, column 'a': expected BIGINT, got 2.5: declare another",
        ),
        (
            above_a_block('{"a": 1}') + '{"a": 1, "b": 2.5}',
            None,
            "line 1501 has the key 'b', which the beginning of the",
        ),
        (
            above_a_block('{"a": {"c": 1}}') + '{"a": {"c": 1, "d": 1}}',
            None,
            "line 1501 has the key 'a.d', which the beginning",
        ),
        (
            above_a_block('{"a": [{"c": 1}]}') + '{"a": [{"d": 1}]}',
            None,
            "line 1501 has the key 'a.d', which the beginning",
        ),
        ('[{"a": 1}]', None, 'line 1: expected an object in one line: got [{"a": 1}]'),
        ('{"a": 1}\n{"a":\n2}', None, 'line 2: expected an object in one line: got {"a":'),
        (
            '{"a": 1}\n{"a": 2} {"a": 3}',
            None,
            "line 2: expected an object in one line: got other values behind it",
        ),
        ('{"a": 1}\n{"a": 2}, {"a": 3}', None, "line 2: expected an object in one line"),
        ('{"a": 1}\nnull', None, "line 2: expected an object in one line: got null"),
        ("null\n", None, "line 1: expected an object in one line: got null"),
        (
            '{"a": "null"} null {}',
            "a STRING",
            "line 1: expected an object in one line: got other values behind it",
        ),
        ('{"a": true}', "a INT", "line 1, column 'a': expected INT, got true"),
    ],
)
@pytest.mark.fault(
    "data", "A line of JSON that does not fit is an error with file, line, and column or key"
)
def test_a_line_that_does_not_fit_is_named(
    tmp_path: pathlib.Path, text: str, sql: str | None, place: str
) -> None:
    assert place in refusal(tmp_path, text, sql)


def test_null_and_missing_cells_of_json_lines_are_null(tmp_path: pathlib.Path) -> None:
    text = '{"a": null, "s": "}\\n null"}\n{}\n{"s": "\\\\", "a": null}\n{"a": "null"}'
    assert read_text(tmp_path, text, "a STRING")["a"].to_pylist() == [None, None, None, "null"]


LEVELS = 30_000  # pyarrow alone ends the process at less than 20,000
BLANK_LINES = 2 * LEVELS
DEEP = {
    "arrays": '{"a":' + "[" * LEVELS + "]" * LEVELS + "}",
    "objects": '{"a":' * LEVELS + "1" + "}" * LEVELS,
    "closed in texts": '{"a":' + '["]", ' * LEVELS + "1" + "]" * LEVELS + "}",
    "after blank lines": "\n" * BLANK_LINES + '{"b": "[", "a":' + "[" * LEVELS + "]" * LEVELS + "}",
    "in many lines": '{"a":\n' * LEVELS,
    "in many arrays": '{"a":' + "[\n" * LEVELS,
    "behind escapes": '{"s": "\\\\", "t": "\\"", "a":' + "[" * 1000 + "]" * 1000 + "}",
}


@pytest.mark.process
@pytest.mark.fault(
    "security", "JSON that is nested thousands of levels deep is an error, and ends no process"
)
def test_deep_json_is_refused(tmp_path: pathlib.Path) -> None:
    program, expected = ["from tests.bridge.files.test_reading import *"], []
    for sql in ("", "b BIGINT", "a STRING"):
        first = above_a_block('{"b": 1}') if sql else '{"b": 1}\n'
        for what, line in DEEP.items():
            path = tmp_path / f"{what} {sql}.json"
            path.write_text(first + line + "\n")
            number = first.count("\n") + 1 + BLANK_LINES * (what == "after blank lines")
            reason = (
                "got "
                if what.startswith("in many")
                else "arrays and objects are nested more than 100 levels deep"
            )
            expected.append(
                f"Source: {path}: line {number}: expected an object in one line: {reason}"
            )
            program += [
                "try:",
                f"    read({str(path)!r}, schema={f'Schema.parse({sql!r})' if sql else None})",
                "except RowError as e: print(e)",
            ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        capture_output=True,
        text=True,
        timeout=10 * DEADLINE_S,
    )
    told = done.stdout.splitlines()
    for error, words in zip(told, expected):
        assert words in error, done.stderr
    assert len(told) == len(expected), (told[-1:], done.stderr)


def test_rows_with_many_arrays_are_not_deep(tmp_path: pathlib.Path) -> None:
    row = {"a": [[number, number] for number in range(500)], "s": "[" * 200 + '"{' + "\\" * 3}
    text = "\n".join([json.dumps(row)] * 50)
    assert read_text(tmp_path, text).to_pylist() == [row] * 50
    levels = '{"a": ' + "[" * 99 + "1" + "]" * 99 + "}"
    assert read_text(tmp_path, levels).num_rows == 1


@pytest.mark.fault(
    "security",
    "A line of JSON of hundreds of megabytes is an error that names the line, soon and in little memory",
)
def test_long_lines_are_joined_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "_BLOCK_BYTES", 2048)  # a line of 8,192 blocks
    started = time.process_time()
    text = '{"a": "' + "A" * (16 * MB) + '"}'
    (found,) = read_text(tmp_path, text, "a STRING")["a"].to_pylist()
    assert len(found) == 16 * MB and time.process_time() - started < 10
    monkeypatch.setenv("AKDL_TEXT_MB", "8")
    told = refusal(tmp_path, '{"a": 1}\n{"a": "' + "A" * (9 * MB) + '"}')
    assert (
        "line 2: it has more than 8388608 bytes; if you trust it, set AKDL_TEXT_MB to a higher number of MB"
        in told
    )


def test_lines_across_blocks_are_joined() -> None:
    lines = [b"%d" % number + b"x" * (number % 7 * 400_000) for number in range(20)]
    text = b"\xef\xbb\xbf" + b"\n\n\n".join(lines)
    found = list(json_text.blocks(io.BytesIO(text)))
    assert [line for _, block in found for line in block.split(b"\n") if line] == lines
    whole = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert all(whole[first - 1] == block.split(b"\n")[0] for first, block in found)


def test_wrong_cell_in_json_is_an_error_with_line_and_column() -> None:
    column = declared_column(Schema.parse("a INT").columns[0])
    with pytest.raises(
        RowError,
        match="^line 7, column 'a': expected INT, got \"x\": declare another type in schemaStr",
    ):
        json_text.rows_of(6, b'{"a": 1}\n{"a": "x"}', [column], "ignore")
