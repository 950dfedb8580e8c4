"""Representation of operators, stages and environments at a prompt and in a notebook. Pure: it
starts nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from akdl.masking import masked_value
from akdl.near_names import short
from operators.alink.missing_names import WithHints

# Values are cut to this many characters.
_LONGEST = 60
# A text shows this many columns, because tables may have thousands.
_COLUMNS = 12


class Description(NamedTuple):
    """Content of a representation: parameters that were set, and the columns, None where they are
    not known yet.
    """

    title: str
    settings: Mapping[str, str] = {}
    columns: Sequence[tuple[str, str]] | None = None
    note: str = ""


class Rendered(WithHints):
    """Base of classes whose representation starts no job, no Java and no process."""

    @property
    def _name(self) -> str:
        """Name of the class, with which errors begin."""
        return type(self).__name__

    def _description(self) -> Description:
        return Description(self._name)

    def __repr__(self) -> str:
        return as_text(self._description())

    def _repr_html_(self) -> str:
        return as_html(self._description())


def as_text(described: Description) -> str:
    line = described.title
    if described.settings:
        line += f"({', '.join(f'{name}={value}' for name, value in described.settings.items())})"
    told = []
    if described.columns is not None:
        more = len(described.columns) - _COLUMNS
        columns = [f"{name} {type_}" for name, type_ in described.columns[:_COLUMNS]]
        told.append(", ".join(columns + [f"and {more} more columns"] * (more > 0)))
    if described.note:
        told.append(described.note)
    return ": ".join([line, "; ".join(told)]) if told else line


def as_html(described: Description) -> str:
    parts = [f"<strong>{escape(described.title)}</strong>"]
    if described.note:
        parts.append(f" <em>{escape(described.note)}</em>")
    if described.settings:
        parts.append(_table(("parameter", "value"), described.settings.items()))
    if described.columns is not None:
        parts.append(_table(("column", "type"), described.columns))
    return f"<div>{''.join(parts)}</div>"


def value_text(name: str, value: object) -> str:
    """Value of a parameter as text: short, and without secrets, see `akdl.masking`."""
    if name == "envVars" and isinstance(value, (list, tuple)):
        # Values of variables may be secrets, so only names are shown.
        value = [each.partition("=")[0] if isinstance(each, str) else each for each in value]
    # A JSON object is parsed, so that secrets inside of it are found by their keys.
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    try:
        return short(masked_value(name, value), _LONGEST)
    except RecursionError:
        return "(nested too deep)"


def _table(heads: Sequence[str], rows: Iterable[tuple[str, str]]) -> str:
    cells = [
        "".join(f'<td style="text-align: left">{escape(cell)}</td>' for cell in row) for row in rows
    ]
    head = "".join(f'<th style="text-align: left">{escape(text)}</th>' for text in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"  # noqa: E501
