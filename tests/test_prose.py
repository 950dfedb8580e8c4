"""Rules of `scripts/check_prose.py` by example."""

from __future__ import annotations

import pathlib

import pytest

from scripts import check_prose


def advice(text: str) -> list[str]:
    return [found for _, found in check_prose.findings(text)]


@pytest.mark.parametrize(
    "text",
    [
        "The file is read anew.",
        "Its kin are left out.",
        "Whoever can write there chooses the model.",
        "akdl takes more beside the other reader.",
        "Each host brings it by\n  itself.",
        "The table is put off until the next job.",
        "All else stays as it was.",
        "The bytes are no UTF-8 text.",
        "The caller has none.",
        "A port that nobody reads.",
        "Rows travel as those of a stream.",
        "A worker knows its place.",
        "The process gladly tells it.",
        "The chief is told of it.",
    ],
)
def test_bad_constructions_are_found(text: str) -> None:
    assert len(advice(text)) == 1, advice(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no such column.",
        "There is\nno such column.",
        "The job is no longer running.",
        "None of the rows fits.",
        "None of them is None, and none of the cells is null.",
        "| none | 4 s |",
        "Set it to 'none'.",
        "Expected a dataset, got none. Return the file; 0 for none, None if there is\n  none.",
        "The user knows which columns those are.",
        "Besides, the two are told apart by their folders.",
        "Akin to a join.",
    ],
)
def test_plain_english_needs_no_advice(text: str) -> None:
    assert advice(text) == []


@pytest.mark.parametrize(
    "summary",
    [
        "What a worker has.",
        "Return what is left.",
        "How rows travel.",
        "Whether it runs.",
        "Of files.",
    ],
)
def test_summaries_are_nouns_or_imperatives(summary: str) -> None:
    source = f'"""A module."""\n\n\ndef rows():\n    """{summary}"""\n'
    assert [source.count("\n", 0, offset) + 1 for offset, _ in check_prose.summaries(source)] == [5]
    assert (
        list(
            check_prose.summaries(
                '"""Column spec."""\n\n\ndef left():\n    """Return whether rows are left."""\n'
            )
        )
        == []
    )


def test_only_prose_of_code_is_read(tmp_path: pathlib.Path) -> None:
    code = tmp_path / "rows.py"
    code.write_text(
        'kin = 1  # a name\nif kin:\n    # The answer\n    # is `kin`, no\n    # more.\n    raise ValueError("by itself")\n'
    )
    prose = check_prose.prose_of(code)
    assert "kin" not in prose and len(prose) == len(code.read_text())
    assert [prose.count("\n", 0, offset) + 1 for offset, _ in check_prose.problems(code)] == [6]
