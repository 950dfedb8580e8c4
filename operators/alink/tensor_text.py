"""Vectors and tensors as text, and the Flink function that parses columns of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from akdl.near_names import short
from bridge.exceptions import ConfigurationError

if TYPE_CHECKING:
    import pandas as pd

# The type and the shape stand before the elements of a tensor.
_TENSOR = re.compile(r"\w+#[\d,]*#")
# The size stands before the elements of a sparse vector, and may be empty.
_SIZE = re.compile(r"\$(\d*)\$")
_BETWEEN = re.compile(r"[\s,]+")

# A short text can state any size of a sparse vector: $200000000$0:1 took 880 MB. So a larger size
# has to come from the program.
_MOST_ELEMENTS = 10_000_000

_TYPES = {"FLOAT": "float32", "DOUBLE": "float64", "INT": "int32", "LONG": "int64"}


def tensor_type(name: str) -> str:
    if str(name).upper() not in _TYPES:
        raise ConfigurationError(
            f"toTensor: expected one of {', '.join(_TYPES)} as tensorDataType, got {name!r}"
        )
    return name.upper()


def read_numbers(
    text: str, size: int | None = None, dtype: str = "float64"
) -> np.ndarray[Any, Any]:
    """Parse a dense vector ("0.5 1.0"), a sparse one ("$4$0:0.5 2:1.0"), or the elements of a
    tensor ("FLOAT#2,1#0.5 1.0").
    """
    # Whole numbers do not go through doubles, which would lose digits beyond 53 bits.
    number = float if dtype.startswith("float") else _whole_number
    body = _TENSOR.sub("", text.strip(), count=1)
    own_size = size
    sparse = _SIZE.match(body)
    if sparse is not None:
        body = body[sparse.end() :]
        own_size = int(sparse[1] or size or -1)
    words = [word for word in _BETWEEN.split(body) if word]
    if sparse is not None or ":" in body:
        if own_size is None or own_size < 0:
            raise ValueError(f"the sparse vector {short(text)} has no size: pass `size`")
        if own_size > max(_MOST_ELEMENTS, size or 0):
            raise ValueError(
                f"the sparse vector {short(text)} has a size of {own_size}: pass `size` if more"
                f" than {_MOST_ELEMENTS} is right"
            )
        result = np.zeros(own_size, dtype)
        places = [int(word.partition(":")[0]) for word in words]
        if places and not 0 <= min(places) <= max(places) < own_size:
            raise ValueError(
                f"the sparse vector {short(text)} has an index beyond its size of {own_size}"
            )
        result[places] = _array([number(word.partition(":")[2]) for word in words], dtype)
    else:
        result = _array(list(map(number, words)), dtype)
    if size is not None and len(result) != size:
        raise ValueError(f"{short(text)}: expected {size} elements, got {len(result)}")
    return result


def numbers_of_text(element: str, size: int | None) -> Any:
    """Flink function from a text column to an ARRAY column."""
    import pandas as pd
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    dtype = _TYPES[element]

    def convert(texts: pd.Series[Any]) -> pd.Series[Any]:
        return pd.Series(
            [None if text is None else read_numbers(text, size, dtype) for text in texts],
            dtype=object,
        )

    kind = "BIGINT" if element == "LONG" else element
    return udf(convert, result_type=DataTypes.ARRAY(getattr(DataTypes, kind)()), func_type="pandas")


def _whole_number(word: str) -> int:
    """Parse "7" or "7.0"; integers beyond 53 bits stay exact."""
    try:
        return int(word)
    except ValueError:
        number = float(word)
    if not number.is_integer():
        raise ValueError(f"{word} is not a whole number: set tensorDataType to FLOAT or DOUBLE")
    return int(number)


def _array(numbers: list[Any], dtype: str) -> np.ndarray[Any, Any]:
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        wrong = next((number for number in numbers if not limits.min <= number <= limits.max), None)
        if wrong is not None:
            raise ValueError(f"{wrong} does not fit {dtype}")
    return np.array(numbers, dtype)
