"""Rows of this program as sources; their cells are those of test_memory_table.py."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, MemSourceBatchOp, MemSourceStreamOp, StreamOperator


@pytest.mark.parametrize("kind", [MemSourceBatchOp, MemSourceStreamOp])
def test_wrong_arguments_of_a_source_name_the_operator(kind: type[Any]) -> None:
    name = kind.__name__
    with pytest.raises(
        ConfigurationError,
        match=f"{name}: expected a list of rows, a pandas DataFrame or an object .*; got a str",
    ):
        kind("rows", "a INT")
    with pytest.raises(
        ConfigurationError,
        match=rf"{name}: parameter 'schemaStr': .*got \['a', 'b'\]: types are not guessed",
    ):
        kind([(1, 2)], ["a", "b"])
    with pytest.raises(
        ConfigurationError, match=f"{name}: parameter 'schemaStr': .*unknown type 'FOO'"
    ):
        kind([(1,)], "a FOO")


def test_types_of_polars_that_arrow_lacks_are_refused_by_name() -> None:
    pl = pytest.importorskip("polars")
    for type_, cells in (
        (pl.Object, [object()]),
        (pl.Int128, [2**100]),
        (pl.List(pl.Int128), [[1]]),
    ):
        frame = pl.DataFrame({"id": [1], "odd": pl.Series(cells, dtype=type_)})
        with pytest.raises(
            ConfigurationError, match=r"^fromArrow: column 'odd' has the type .*polars.* convert it"
        ):
            BatchOperator.fromArrow(frame)
    labels = pl.DataFrame(
        {"Object": pl.Series(["Int128"], dtype=pl.Enum(["Int128"])), "s": [{"Object": 1}]}
    )
    BatchOperator.fromArrow(labels.select("Object"))


@pytest.mark.flink
@pytest.mark.parametrize("family", [BatchOperator, StreamOperator])
def test_wrong_arguments_of_a_method_name_the_method(family: type[Any]) -> None:
    with pytest.raises(ConfigurationError, match="^fromArrow: expected a list of rows"):
        family.fromArrow("rows")
    with pytest.raises(
        ConfigurationError, match="^fromArrow: parameter 'schemaStr': .*unknown type 'FOO'"
    ):
        family.fromArrow(pa.table({"a": [1]}), "a FOO")
    with pytest.raises(
        ConfigurationError, match="^fromArrow: column 'a' does not fit TINYINT: row 1"
    ):
        family.fromArrow(pa.table({"a": [1, 300]}), "a TINYINT").getOutputTable()
    with pytest.raises(
        ConfigurationError, match="^fromDataframe: column 'a' does not fit TINYINT: row 0"
    ):
        family.fromDataframe(pd.DataFrame({"a": [300]}), "a TINYINT").getOutputTable()
