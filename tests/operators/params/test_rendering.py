"""How objects show themselves."""

from __future__ import annotations

from typing import Any

import pytest

from operators.params.rendering import Description, as_html, as_text, value_text


def test_as_text_shows_parameters_and_some_columns_in_one_line() -> None:
    columns = [("id", "BIGINT"), ("name", "STRING")]
    assert as_text(Description("Op")) == "Op"
    assert (
        as_text(Description("Op", {"n": "2"}, columns, "note"))
        == "Op(n=2): id BIGINT, name STRING; note"
    )
    many = as_text(Description("Op", columns=[(f"c{i}", "INT") for i in range(100)]))
    assert many.startswith("Op: c0 INT, c1 INT") and many.endswith("c11 INT, and 88 more columns")


def test_html_has_all_columns_and_no_markup_of_values() -> None:
    html = as_html(
        Description("Op", {"n": "'<b>'"}, [(f"c{i}", "ARRAY<INT>") for i in range(20)], "a & b")
    )
    assert "<b>" not in html and "&lt;b&gt;" in html and "a &amp; b" in html
    assert html.count("ARRAY&lt;INT&gt;") == 20


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("numWorkers", 2, "2"),
        ("modelPath", "s3://me:pw@bucket/m.zip?key=1", "'s3://bucket/m.zip?...'"),
        ("userFiles", ["a.py", "http://me:pw@host/b.py"], "['a.py', 'http://host/b.py']"),
        ("envVars", ["HOME", "PASSWORD=abc"], "['HOME', 'PASSWORD']"),
        ("userParams", '{"api_key": "abc", "epochs": 2}', "{'api_key': '***', 'epochs': 2}"),
        ("schemaStr", "a" * 100, f"'{'a' * 56}..."),
    ],
)
def test_values_are_short_and_without_secrets(name: str, value: Any, text: str) -> None:
    assert value_text(name, value) == text
