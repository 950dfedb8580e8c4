"""Sources of rows of this program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.schema import Schema
from operators.base_operator import Source
from operators.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


class MemorySource(Source):
    """Rows from memory.

    Args:
        data: A list of rows (tuples or lists), or a pandas DataFrame. In a DataFrame NaN and None are null.
        schemaStr: "name type, name type", in the order of the cells. The columns of a DataFrame with the same names are
            taken by their names, those of one with other names in their order.
    """

    def __init__(self, data: Sequence[Sequence[Any]] | pd.DataFrame, schemaStr: str) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(data, (pd.DataFrame, list, tuple)):
            raise ConfigurationError(f"{name}: expected a list of rows or a pandas DataFrame, got a {type(data).__name__}")
        if not isinstance(schemaStr, str):
            raise ConfigurationError(
                f"{name}: parameter 'schemaStr': expected \"name type, name type\", got {schemaStr!r}: types are not guessed "
                'from the rows, so write them, such as "a DOUBLE, b STRING"'
            )
        try:
            self._schema = Schema.parse(schemaStr)
        except SchemaError as error:
            raise ConfigurationError(f"{name}: parameter 'schemaStr': {error}") from None
        self._data = data

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        return memory_table(table_env, self._schema, self._data)
