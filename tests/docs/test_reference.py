"""The API reference, as `make docs` writes it: complete, and without private names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import operators
from scripts import build_api


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return build_api.pages()


def parts(page: str) -> Iterator[tuple[str, str]]:
    """Headings and signatures, each with the text below it."""
    found = re.split(r"^(### .*|\*\*`.*`\*\*)$", page, flags=re.MULTILINE)
    return zip(found[1::2], found[2::2])


@pytest.mark.parametrize("name", ["operators", "scripts"])
def test_everything_is_described_and_nothing_private_is_named(
    pages: dict[str, str], name: str
) -> None:
    assert [
        head
        for head, text in parts(pages[name])
        if not re.search(r"\w{2}", re.sub(r"```.*?```", "", text, flags=re.S))
    ] == []
    code = re.findall(r"\*\*`(.*)`\*\*|```python\n(\w+\(.*\) ->.*)\n", pages[name])
    signatures = [one or other for one, other in code]
    assert len(signatures) > 30
    assert [
        line for line in signatures if re.search(r"\b_\w|\b(self|cls)\b|\(:|'[A-Z]\w*[.\[]", line)
    ] == []


def test_entries_of_lists_begin_with_a_name_in_code(pages: dict[str, str]) -> None:
    lists = re.findall(
        r"\*\*(?:Args|Attributes|Raises)\*\*\n\n((?:- .*\n)+)",
        pages["operators"] + pages["scripts"],
    )
    assert len(lists) > 10
    assert [
        line for each in lists for line in each.splitlines() if not line.startswith("- `")
    ] == []


def test_each_operator_has_one_table_of_its_parameters(pages: dict[str, str]) -> None:
    tables = {
        head[4:]: re.findall(r"^\| `.*", text, re.MULTILINE)
        for head, text in parts(pages["operators"])
    }
    for name in operators.__all__:
        params = getattr(getattr(operators, name), "params", ())
        rows = [re.split(r" (?<!\\)\| ", row.strip("| ")) for row in tables.get(name, [])]
        assert [row[0].split("`")[1] for row in rows] == [param.name for param in params], name
        text = inspect.getdoc(getattr(operators, name)) or ""
        assert not params or re.search(
            r"^Example:$|[Ss]ee\s`\w+`|[Ee]lse\sthis\sis\s`\w+`|same\sas\sin\s`\w+`",
            text,
            re.MULTILINE,
        ), name
        assert [row for row in rows if len(row) != 6 or not all(row[:3]) or not all(row[4:])] == []


def test_faults_are_named_in_words(pages: dict[str, str]) -> None:
    lines = re.findall(r"^- (.*) \(`tests/\S+`\)$", pages["faults"], re.MULTILINE)
    assert len(lines) >= 200 and len(set(lines)) == len(lines)
    assert "A script without main is an error that says what to define." in lines
    assert any(
        line.startswith("A script that does one of these still succeeds: closes its streams, ")
        for line in lines
    )
