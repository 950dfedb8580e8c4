"""Functions of the user's own; that they work in a job is seen in test_alink_calls.py."""

from __future__ import annotations

from operators import AlinkDataTypes, udf, udtf


def test_functions_and_types_are_those_of_pyflink() -> None:
    from pyflink.table import DataTypes
    from pyflink.table.udf import UserDefinedFunctionWrapper

    assert AlinkDataTypes.DOUBLE() == DataTypes.DOUBLE()
    assert isinstance(udf(lambda x: x, result_type="INT"), UserDefinedFunctionWrapper)
    assert isinstance(
        udf(result_type=AlinkDataTypes.INT())(lambda x: x), UserDefinedFunctionWrapper
    )
    assert isinstance(udtf(lambda x: [x], result_types=["INT"]), UserDefinedFunctionWrapper)
