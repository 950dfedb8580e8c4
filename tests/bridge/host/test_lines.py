"""Lines of what a process prints."""

from __future__ import annotations

import pytest

from bridge.host.process import EVERY_S, LINE_CHARACTERS, Lines


def _lines(*printed: bytes, seconds: float = 0.0) -> list[str]:
    lines = Lines(0.0)
    return [
        line for number, each in enumerate(printed) for line in lines.feed(each, number * seconds)
    ] + lines.end()


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (b"", []),
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"1/3\r2/3\r3/3 done\n", ["3/3 done"]),
        (b"long line\rshort\n", ["shortline"]),
        (b"long line\rshort    \n", ["short"]),
        (b"12\x08\x083\n", ["32"]),
        (b"a\x08\x08\x08b\n", ["b"]),
        (
            b" 1/9 [>...]\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08 9/9 [===] loss: 1\nnext\n",
            [" 9/9 [===] loss: 1", "next"],
        ),
        (b"\xc5\xbc\xff\n", ["ż\ufffd"]),
        (b"kept  \n", ["kept  "]),
    ],
)
def test_output_is_split_into_the_lines_that_a_terminal_shows(
    printed: bytes, lines: list[str]
) -> None:
    assert _lines(printed) == lines
    assert _lines(*(printed[place : place + 1] for place in range(len(printed)))) == lines


def test_progress_bars_are_passed_on_at_intervals() -> None:
    printed = [b"step %d\r" % number for number in range(21)]
    assert _lines(*printed, b"done   \n", seconds=EVERY_S / 10) == ["step 10", "step 20", "done"]


def test_a_line_without_end_is_cut() -> None:
    assert LINE_CHARACTERS == 8 << 10
    lines = Lines(0.0)
    cut = [
        line for _ in range(8) for line in lines.feed(b"x" * (LINE_CHARACTERS // 2 + 1), 0.0)
    ] + lines.end()
    assert [len(line) for line in cut] == [LINE_CHARACTERS] * 4 + [8]
    assert [len(line) for line in _lines(b"y" * (2 * LINE_CHARACTERS) + b"\nz")] == [
        LINE_CHARACTERS,
        LINE_CHARACTERS,
        1,
    ]
