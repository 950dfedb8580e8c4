"""Summaries of error texts: the message, and the frames of the user's code.

The error of a script reaches the program with the traceback of the process, stacks and last lines
of output, hundreds of lines in some cases. The summary has at most twelve. It is made from text,
since text is all that Flink passes on.

A traceback names the copy of a user file in a work folder, which is removed when a person reads the
error. Summaries name the original instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A summary has at most so many lines. A program adds the place of the call.
LINES = 12
_MESSAGE_LINES = 4
_FRAMES = 3
# The last line mentions left-out lines only from this number on.
_LEAST_LEFT_OUT = 3
# A section, such as the output of a process, is shown by its last lines.
_TAIL_LINES = 4
# A single line of a message may be very long, so its characters are limited too.
_CHARACTERS = 1_200
_CODE_CHARACTERS = 160
_READ_CHARACTERS = 200_000

_FRAME = re.compile(
    r'(?P<indent>\s*)File "(?P<path>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+?))?(?: '
    r" \*)?\s*"
)
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(
    r"(?:The above exception was the direct cause of|During handling of the above exception)\b.*"
)
_SECTION = re.compile(r"--- (.+) ---")
_MARKS = re.compile(r"[\s^~]*")
# Lines of TensorFlow, Keras and JAX around the one that names the error.
_NOISE = re.compile(
    r"\s*(?:in user code:|Graph execution error:|Detected at node\b.*|Stack trace for op"
    r" definition:.*|Original stack trace.*|"
    r"\[\[\{\{node .*|\[Previous line repeated .*|(?:Call a|A)rguments received by .*|•.*|"
    r"-{20}|For simplicity, JAX has removed its internal frames .*|"
    r"\d+ root error\(s\) found\.|\([1-9]\d*\) [A-Z_]+: .*|\d+ (?:successful|derived).*)"
)
_NOISE_AT_THE_END = re.compile(r"\s*(?:in user code:|Graph execution error:)\s*$|\s*\[Op:[^\]]*\]")
_WORK_FOLDER = re.compile(r".*/akdl-[0-9a-f]{12}/(?!\.akdl/)")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<|^(?:apache_beam|pyflink)/|\.pyx$")
# TensorFlow's names of exceptions have a long path of modules in front, as in
# tensorflow.python.framework.errors_impl.
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")
_OURS = re.compile(r"/(?:akdl|bridge|operators)/(?:\w+/)*\w+\.py$")


@dataclass(frozen=True)
class Frame:
    """A frame of a traceback; `code` is "" where the line is unknown."""

    path: str
    line: int | None
    function: str
    code: str = ""

    @property
    def is_the_users(self) -> bool:
        """True for code of the user: in a work folder, or in neither a library nor our packages."""
        # AutoGraph's copy of a function has lines that are in no file of the user's.
        if "__autograph_generated_file" in self.path:
            return False
        return bool(_WORK_FOLDER.match(self.path)) or not (
            self.is_in_a_library or _OURS.search(self.path)
        )

    @property
    def is_in_a_library(self) -> bool:
        return bool(_LIBRARY.search(self.path))

    def lines(self) -> list[str]:
        """Lines as in Python's traceback, with the path of the user's own file."""
        inside = _WORK_FOLDER.sub("", self.path)
        path = self.path if inside == self.path else source_path(inside)
        return [
            f'  File "{path}", line {self.line}'
            + (f", in {self.function}" if self.function else ""),
            *([f"    {_limited(self.code, _CODE_CHARACTERS)}"] if self.code else []),
        ]


_DETAILS = "in the error's `details`, or here with AKDL_TRACEBACK=full in the environment"


class _Part:
    """A part of a text: the message, one traceback of a chain of exceptions, or a section with a
    title.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.words: list[str] = []  # lines of neither frames nor noise
        self.frames: list[Frame] = []


def summary_of(text: str, rest_is: str = _DETAILS) -> str:
    """Summarize the text of an error in at most `LINES` lines.

    The summary has, in this order: the message; up to three frames of the user's code, or else the
    ends of stacks and output; the cause of a chain; the number of lines that are left out, and
    where they are.
    """
    lines = _limited(text, _READ_CHARACTERS).splitlines()
    (head, *chain), sections = _parsed(lines)
    # The last traceback of a chain is the exception that was raised in the end.
    raised = chain.pop() if chain else _Part()
    # The frames of a graph's call precede the frames inside of the graph, which are in the message.
    frames = _users([*raised.frames, *head.frames])
    for link in reversed(chain):
        frames = frames or _users(link.frames)
    rest = [line for frame in shortened(frames) for line in frame]
    if chain:
        rest.append(f"Caused by: {_message(chain[-1], _Part())[0]}")
    if not frames:
        rest += _ends_of(sections)
    rest = rest[: LINES - 2]
    few = "\n".join(_few(_message(head, raised), min(_MESSAGE_LINES, LINES - 1 - len(rest))))
    shown = _limited(few, _CHARACTERS)
    result = [*shown.splitlines(), *rest]
    left = _left_out(lines, "\n".join(result))
    if left >= _LEAST_LEFT_OUT or shown != few:
        result.append(f"({left} more lines: {rest_is})")
    return "\n".join(result)


def shortened(frames: Sequence[Frame]) -> list[list[str]]:
    """Lines of the outermost frame and the innermost ones, which say where it began and ended."""
    if len(frames) <= _FRAMES:
        return [frame.lines() for frame in frames]
    left_out = len(frames) - _FRAMES
    return [
        frames[0].lines(),
        [f"  ... {left_out} more ..."],
        *(frame.lines() for frame in frames[left_out + 1 :]),
    ]


def _parsed(lines: Sequence[str]) -> tuple[list[_Part], dict[str, _Part]]:
    """Return the message with the tracebacks of a chain of exceptions, and the sections behind them
    by title.
    """
    into = _Part()
    chain = [into]
    sections = dict[str, _Part]()
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        section = _SECTION.fullmatch(line)
        frame = _FRAME.fullmatch(line)
        if section:
            into = sections.setdefault(section.group(1), _Part())
            continue
        # Python writes "Traceback" again for each further exception of a chain, so only the first
        # one begins a part. The others begin with the line that joins them.
        if not sections and (
            line.strip() == _TRACEBACK if len(chain) == 1 else _CHAINED.fullmatch(line)
        ):
            into = _Part()
            chain.append(into)
            continue
        into.lines.append(line)
        if frame is None:
            if line.strip() not in ("", _TRACEBACK) and not _NOISE.fullmatch(line):
                into.words.append(line)
            continue
        deeper = frame.group("indent") + " "
        code = ""
        while (
            place < len(lines)
            and lines[place].startswith(deeper)
            and not _FRAME.fullmatch(lines[place])
        ):
            code = code or ("" if _MARKS.fullmatch(lines[place]) else lines[place].strip())
            into.lines.append(lines[place])
            place += 1
        into.frames.append(
            Frame(
                frame.group("path"), int(frame.group("line")), frame.group("function") or "", code
            )
        )
    return chain, sections


def _message(head: _Part, raised: _Part) -> list[str]:
    """Return the lines of the message once, without the noise of frameworks around it."""
    message: list[str] = []
    for line in head.words:
        _append(message, line)
    for line in raised.words:
        line = _MODULE.sub("", _NOISE_AT_THE_END.sub("", line).strip())
        # The end of the traceback repeats the message, and `_append` may have joined two of its
        # lines.
        if not any(line in known for known in message):
            _append(message, line)
    return message or ["(no message)"]


def _append(message: list[str], line: str) -> None:
    """Append a line to a message. A first line that ends with a colon gets it behind the colon.

    Keras and TensorFlow put noise between the name of an exception and its message.
    """
    line = _NOISE_AT_THE_END.sub("", line).rstrip()
    if len(message) == 1 and message[-1].endswith(":"):
        kind = re.search(r"(\w+): ?$", message[-1])
        line = line.strip()
        if kind and line.startswith(f"{kind.group(1)}: "):
            line = line[len(kind.group(1)) + 2 :]
        message[-1] += f" {line}"
    elif line:
        message.append(line)


def _users(frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames of the user's code without duplicates: TensorFlow repeats them for each
    node of a graph.
    """
    result: dict[tuple[str, int | None, str], Frame] = {}
    for frame in frames:
        if frame.is_the_users:
            result.setdefault((frame.path, frame.line, frame.function), frame)
    return list(result.values())


def _ends_of(sections: dict[str, _Part]) -> list[str]:
    """Return the end of each section; for stacks, the calls of the user's code, last one first."""
    result = []
    for title, part in sections.items():
        shown = [frame.lines()[0] for frame in _users(part.frames)][:_TAIL_LINES]
        shown = shown or [line for line in part.lines if line.strip()][-_TAIL_LINES:]
        if shown:
            result += [
                f"{title}:",
                *(line if line.startswith(" ") else f"  {line}" for line in shown),
            ]
    return result


def _left_out(lines: Sequence[str], shown: str) -> int:
    """Count the lines with words of their own that a summary does not show."""
    content = (line for line in lines if line.strip() != _TRACEBACK and not _MARKS.fullmatch(line))
    return sum(
        1
        for line in content
        if not (_FRAME.fullmatch(line) or _SECTION.fullmatch(line)) and line.strip() not in shown
    )


def _few(message: Sequence[str], most: int) -> list[str]:
    """Shorten a message to its first lines and its last one."""
    if len(message) <= most:
        return list(message)
    return [*message[: most - 1], message[-1]] if most > 1 else [message[0]]


def _limited(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    begin = most * 2 // 3
    return f"{text[:begin]} ... ({len(text) - most} characters left out) ... {text[begin - most :]}"


_sources: dict[str, str] = {}


def note_source_path(path: str, source: str) -> None:
    """Note the original of a user file, whose `path` is relative to each work folder."""
    # Two jobs of this program may have different files at this path. The path then stands for
    # itself, because either original could be the wrong one.
    if _sources.setdefault(path, source) != source:
        _sources[path] = path


def source_path(path: str) -> str:
    """Return the original of a user file, or `path` itself if it is unknown or ambiguous."""
    return _sources.get(path, path)
