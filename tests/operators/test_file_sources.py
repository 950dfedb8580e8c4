"""Sources of .ak and Parquet files; that .ak files are written and read as Alink does is in test_ak_file.py."""

from __future__ import annotations

import datetime
import io
import pathlib
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import AkSourceBatchOp, AkSourceStreamOp, MLEnv
from operators.ak_file import AkWriter
from tests.support.http import served

SCHEMA = Schema.parse("id BIGINT, name STRING, day DATE, at TIMESTAMP(3), x DOUBLE")
ROWS = [
    (2**60 + 1, "żółć", datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4000), 0.1),
    (None,) * 5,
]


def ak_bytes(rows: list[tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    writer = AkWriter(file, SCHEMA)
    for row in rows:
        writer.write(row)
    writer.close()
    return file.getvalue()


@pytest.mark.flink
def test_ak_from_a_folder_and_from_http(env: MLEnv, tmp_path: pathlib.Path) -> None:
    for name in "12":
        (tmp_path / name).write_bytes(ak_bytes(ROWS))
    with served(files={"/t.ak": ak_bytes(ROWS)}) as site:
        single = AkSourceBatchOp().setFilePath(f"{site.url}/t.ak")
        assert single.getSchemaStr() == "id BIGINT, name STRING, day DATE, at TIMESTAMP(6), x DOUBLE"
    both = AkSourceBatchOp(filePath=str(tmp_path)).unionAll(single)
    frame = both.collectToDataframe()
    assert len(frame) == 6 and set(frame.id.dropna()) == {2**60 + 1} and frame.name.isna().sum() == 3
    assert set(frame["at"].dropna()) == {datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)}
    stream = AkSourceStreamOp(filePath=str(tmp_path / "1"))
    assert stream.getColNames() == SCHEMA.names


@pytest.mark.flink
def test_what_is_no_ak_file(env: MLEnv, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="AkSourceBatchOp: parameter 'filePath': there is no file /nowhere"):
        AkSourceBatchOp(filePath="/nowhere").getColNames()
    with pytest.raises(ConfigurationError, match="AkSourceBatchOp: parameter 'filePath': the folder .* is empty"):
        AkSourceBatchOp(filePath=str(tmp_path)).getColNames()
