"""Functions of the user's own on columns: PyFlink's, loaded when they are first used."""

from __future__ import annotations

from typing import Any


def udf(f: Any = None, input_types: Any = None, result_type: Any = None, **options: Any) -> Any:
    """Make a function of a row's cells usable in SQL and by `op.udf`; `pyflink.table.udf.udf`, also as a decorator.

    Args:
        f: The function, or an object with `eval`.
        input_types: Taken and not used: the function gets the types of the columns.
        result_type: Type of its result: "DOUBLE" or `AlinkDataTypes.DOUBLE()`.
        options: See PyFlink.
    """
    from pyflink.table.udf import udf as flink_udf

    return flink_udf(_callable(f), None, result_type, **options)


def udtf(f: Any = None, input_types: Any = None, result_types: Any = None, **options: Any) -> Any:
    """Make a generator of rows usable in SQL and by `op.udtf`; `pyflink.table.udf.udtf`, also as a decorator.

    Args:
        f: The function, or an object with `eval`.
        input_types: Taken and not used: the function gets the types of the columns.
        result_types: Types of the columns that it yields.
        options: See PyFlink.
    """
    from pyflink.table.udf import udtf as flink_udtf

    return flink_udtf(_callable(f), None, result_types, **options)


def _callable(f: Any) -> Any:
    """Return a function as PyFlink takes it, where Alink takes any object with `eval`."""
    return f if f is None or callable(f) or hasattr(f, "open") else f.eval


class _Delegating(type):
    def __getattr__(cls, name: str) -> Any:
        from pyflink.table import DataTypes

        return getattr(DataTypes, name)


class AlinkDataTypes(metaclass=_Delegating):
    """The types of PyFlink, `pyflink.table.DataTypes`, under the name that they have in Alink."""
