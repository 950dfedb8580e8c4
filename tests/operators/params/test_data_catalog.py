"""Parameters of sources and sinks."""

from __future__ import annotations

import pytest

from bridge.exceptions import ConfigurationError
from operators import AkSinkBatchOp, AkSourceBatchOp, CsvSourceBatchOp, RandomTableSourceBatchOp


@pytest.mark.parametrize("value", ["", ";;"])
def test_a_delimiter_is_one_character(value: str) -> None:
    with pytest.raises(ConfigurationError, match="'fieldDelimiter': expected one character"):
        CsvSourceBatchOp(fieldDelimiter=value)
    assert CsvSourceBatchOp().setFieldDelimiter("\t").getFieldDelimiter() == "\t"


def test_a_random_table_may_be_empty_but_has_columns() -> None:
    assert RandomTableSourceBatchOp(numRows=0).getNumRows() == 0
    with pytest.raises(
        ConfigurationError, match="'numCols': expected a whole number of at least 1"
    ):
        RandomTableSourceBatchOp(numCols=0)


def test_a_time_zone_has_a_name_that_is_known() -> None:
    assert AkSourceBatchOp(timeZone="Asia/Shanghai").getTimeZone() == "Asia/Shanghai"
    with pytest.raises(
        ConfigurationError, match="'timeZone': expected a time zone such as .*, 'Mars' is unknown"
    ):
        AkSinkBatchOp(timeZone="Mars")
