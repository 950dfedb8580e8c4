"""Sources of .ak and Parquet files; that .ak files are written and read as Alink does is in test_ak_file.py."""

from __future__ import annotations

import datetime
import io
import pathlib
import zipfile
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import AkSourceBatchOp, AkSourceStreamOp, MLEnv
from operators.alink.ak_file import AkWriter
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
def test_files_of_alink_as_tables(env: MLEnv) -> None:
    folder = pathlib.Path(__file__).parents[1] / "data" / "alink"
    shanghai = AkSourceBatchOp(filePath=str(folder / "tz_Asia_Shanghai.ak"), timeZone="Asia/Shanghai").collectToDataframe()
    assert shanghai.astype(str).values.tolist() == [
        ["1", "2020-02-03", "10:11:12", "2020-02-03 10:11:12.345", "2020-07-03 10:11:12.000"]
    ]
    config, before = env.btenv.get_config(), env.btenv.get_config().get_local_timezone()
    config.set_local_timezone("America/New_York")
    try:
        source = AkSourceBatchOp(filePath=str(folder / "tz_America_New_York.ak"))
        assert source.collectToDataframe().d.tolist() == [datetime.date(2020, 2, 3)]
    finally:
        config.set_local_timezone(before)
    large = AkSourceBatchOp(filePath=str(folder / "dec38.ak"))
    assert large.getSchemaStr() == "k INT, x DECIMAL(38, 8), y DECIMAL(38, 18), z DECIMAL(38, 18)"
    assert large.collectToDataframe().x.tolist() == [123456789012345678901234567890]
    assert str(AkSourceBatchOp(filePath=str(folder / "tms.ak"), timeZone="UTC").collectToDataframe().x[0]) == "10:11:12.345000"


@pytest.mark.flink
@pytest.mark.fault("data", "An .ak file with decimals of more than 38 digits is refused")
def test_decimals_and_folders_that_are_refused(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").write_bytes(ak_bytes(ROWS))
    with zipfile.ZipFile(tmp_path / "2", "w") as file:
        file.writestr("alink_meta.json", '{"schemaStr":"x DECIMAL"}')
        file.writestr("data", b"ALK\0\0\x0a\0\0\0\0\5\7\x7f\xff\xff\xff")
    with pytest.raises(ConfigurationError, match="the column 'x' has numbers of .* 2147483647 behind it; at most 38 in all"):
        AkSourceBatchOp(filePath=str(tmp_path / "2")).getColNames()
    with pytest.raises(
        ConfigurationError, match="AkSourceBatchOp: .* .*/2 has other columns than .*/1: a folder holds one table"
    ):
        AkSourceBatchOp(filePath=str(tmp_path)).getColNames()


@pytest.mark.flink
def test_what_is_no_ak_file(env: MLEnv, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="AkSourceBatchOp: parameter 'filePath': there is no file /nowhere"):
        AkSourceBatchOp(filePath="/nowhere").getColNames()
    with pytest.raises(ConfigurationError, match="AkSourceBatchOp: parameter 'filePath': the folder .* is empty"):
        AkSourceBatchOp(filePath=str(tmp_path)).getColNames()
