"""Statistics of a table's columns: a SQL query with one row, and its conversion to a row per
column. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bridge.schema import quoted

if TYPE_CHECKING:
    import pandas as pd

# An INTERVAL begins with the letters of INT, but it is not a number.
_NUMBER = re.compile("TINYINT|SMALLINT|INT(?!ERVAL)|BIGINT|FLOAT|DOUBLE|DECIMAL")
# The statistics of numbers are computed from doubles, because in Flink the sum of a TINYINT column
# is a TINYINT, which soon overflows. `{0}` stands for the column.
_OF_ALL = {"count": "COUNT(*)", "missing": "COUNT(*) - COUNT({0})"}
_OF_NUMBERS = {
    "sum": "SUM({0})",
    "mean": "AVG({0})",
    "variance": "VAR_SAMP({0})",
    "standardDeviation": "STDDEV_SAMP({0})",
    "min": "MIN({0})",
    "max": "MAX({0})",
}


def aggregates(names: Sequence[str], types: Sequence[str], view: str) -> str:
    cells = []
    for place, (name, type_) in enumerate(zip(names, types)):
        # The names of results have the column's place, because a column may have any characters in
        # its name.
        cells += [f"{sql.format(quoted(name))} AS {key}_{place}" for key, sql in _OF_ALL.items()]
        number = f"CAST({quoted(name)} AS DOUBLE)"
        if _NUMBER.match(type_):
            cells += [f"{sql.format(number)} AS {key}_{place}" for key, sql in _OF_NUMBERS.items()]
    return f"SELECT {', '.join(cells)} FROM {view}"


def statistics_of(names: Sequence[str], aggregated: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    (row,) = aggregated.to_dict("records")
    keys = [*_OF_ALL, *_OF_NUMBERS]
    cells = [
        [name, *(row.get(f"{key}_{place}") for key in keys)] for place, name in enumerate(names)
    ]
    return pd.DataFrame(cells, columns=["colName", *keys])
