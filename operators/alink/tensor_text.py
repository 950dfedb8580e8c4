"""Vectors and tensors as text, and the function on columns that reads them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from bridge.exceptions import ConfigurationError

_TENSOR = re.compile(r"\w+#[\d,]*#")  # type and shape in front of the elements of a tensor
_SIZE = re.compile(r"\$(\d*)\$")  # in front of a sparse vector
_BETWEEN = re.compile(r"[\s,]+")

_MOST_ELEMENTS = 10_000_000  # of a sparse vector whose length nobody but its own text gives

_TYPES = {"FLOAT": "float32", "DOUBLE": "float64", "INT": "int32", "LONG": "int64"}


def tensor_type(name: str) -> str:
    """Return a type of elements in upper case."""
    if str(name).upper() not in _TYPES:
        raise ConfigurationError(f"toTensor: expected one of {', '.join(_TYPES)} as tensorDataType, got {name!r}")
    return name.upper()


def read_numbers(text: str, size: int | None = None, dtype: str = "float64") -> np.ndarray[Any, Any]:
    """Return the elements of a vector or a tensor as text, without its shape.

    Args:
        text: "0.5 1.0" or "0.5,1.0", a dense vector; "$4$0:0.5 2:1.0" or "0:0.5 2:1.0", a sparse one, of size 4; or
            "FLOAT#2,1#0.5 1.0", a tensor.

    Raises:
        ValueError: The text is none of these, or has another size or elements that the type does not hold.
    """
    number = float if dtype.startswith("float") else _whole_number
    body, own_size = _TENSOR.sub("", text.strip(), count=1), size
    found = _SIZE.match(body)
    if found is not None:
        body, own_size = body[found.end() :], int(found.group(1) or size or -1)
    words = [word for word in _BETWEEN.split(body) if word]
    if found is not None or ":" in body:
        if own_size is None or own_size < 0:
            raise ValueError(f"the sparse vector {_shown(text)} does not tell its size: give `size`")
        if own_size > max(_MOST_ELEMENTS, size or 0):
            raise ValueError(
                f"the sparse vector {_shown(text)} has a size of {own_size}; more than {_MOST_ELEMENTS} need `size` to say so"
            )
        result = np.zeros(own_size, dtype)
        places = [int(word.partition(":")[0]) for word in words]
        if places and not 0 <= min(places) <= max(places) < own_size:
            raise ValueError(f"the sparse vector {_shown(text)} has an index outside its size of {own_size}")
        result[places] = _array([number(word.partition(":")[2]) for word in words], dtype)
    else:
        result = _array(list(map(number, words)), dtype)
    if size is not None and len(result) != size:
        raise ValueError(f"{_shown(text)} has {len(result)} elements, expected {size}")
    return result


def numbers_of_text(element: str, size: int | None) -> Any:
    """Return a function of Flink from a column of text to one of ARRAY."""
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    dtype = _TYPES[element]

    def convert(texts: pd.Series[Any]) -> pd.Series[Any]:
        return pd.Series([None if text is None else read_numbers(text, size, dtype) for text in texts], dtype=object)

    kind = "BIGINT" if element == "LONG" else element
    return udf(convert, result_type=DataTypes.ARRAY(getattr(DataTypes, kind)()), func_type="pandas")


def _whole_number(word: str) -> int:
    """Read "7" or "7.0" without the detour through a double, which holds 53 bits."""
    try:
        return int(word)
    except ValueError:
        number = float(word)
    if not number.is_integer():
        raise ValueError(f"{word} is no whole number: use FLOAT or DOUBLE as tensorDataType")
    return int(number)


def _array(numbers: list[Any], dtype: str) -> np.ndarray[Any, Any]:
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        wrong = next((number for number in numbers if not limits.min <= number <= limits.max), None)
        if wrong is not None:
            raise ValueError(f"{wrong} does not fit {dtype}")
    return np.array(numbers, dtype)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
