"""User-defined functions and types of PyFlink, imported on first use."""

from __future__ import annotations

from typing import Any


def udf(f: Any = None, input_types: Any = None, result_type: Any = None, **options: Any) -> Any:
    """Wrap a function of cells for SQL and `op.udf`, like `pyflink.table.udf.udf`; also a
    decorator.

    Args:
        f: The function, or an object with `eval`.
        input_types: Ignored: the types of the columns are used.
        result_type: Type of the result: "DOUBLE" or `AlinkDataTypes.DOUBLE()`.
        options: See PyFlink.
    """
    from pyflink.table.udf import udf as flink_udf

    return flink_udf(_callable(f), None, result_type, **options)


def udtf(f: Any = None, input_types: Any = None, result_types: Any = None, **options: Any) -> Any:
    """Wrap a generator of rows for SQL and `op.udtf`; `result_types` are the types of the yielded
    columns, see `udf`.
    """
    from pyflink.table.udf import udtf as flink_udtf

    return flink_udtf(_callable(f), None, result_types, **options)


def _callable(f: Any) -> Any:
    """Convert an object with `eval`, which Alink accepts, to a function for PyFlink."""
    # None is how a decorator with arguments is called. PyFlink's own function classes have `open`
    # next to `eval`, and PyFlink takes them whole.
    return f if f is None or callable(f) or hasattr(f, "open") else f.eval


class _Delegating(type):
    def __getattr__(cls, name: str) -> Any:
        # PyFlink is imported when a type is first asked for, so that importing operators stays
        # fast.
        from pyflink.table import DataTypes

        return getattr(DataTypes, name)


class AlinkDataTypes(metaclass=_Delegating):
    """PyFlink's types, `pyflink.table.DataTypes`, under their Alink name."""
