"""Check the words of documents, docstrings, comments and messages: `make check` runs it.

Files and folders as arguments narrow it down: `scripts/check_prose.py benchmarks`.
"""

from __future__ import annotations

import ast
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

from proselint.checks import __register__ as builtin
from proselint.config import Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [
    "*.md",
    ".github/**/*.md",
    "changes/*.md",
    "docs/**/*.md",
    "benchmarks/*.md",
    "examples/**/*.md",
]
CODE = [
    "akdl/**/*.py",
    "bridge/**/*.py",
    "operators/**/*.py",
    "examples/**/*.py",
    "benchmarks/*.py",
    "scripts/build_*.py",
]
# Checks of proselint that find mistakes; those that judge style stay off.
MISTAKES = (
    "lexical_illusions",
    "malapropisms",
    "mondegreens",
    "needless_variants",
    "nonwords",
    "spelling",
    "uncomparables",
)

_MACHINE = (
    r"(?:process(?:es)?|threads?|workers?|members?|groups?|chiefs?|drivers?|bridges?|jobs?|programs?|scripts?|operators?|hosts?"
    r"|servers?|clients?|child(?:ren)?|parents?|managers?|clusters?|machines?|tasks?|models?|predictors?|tables?|columns?|rows?"
    r"|files?|logs?|flink|tensorflow|keras|java|jvm|python|akdl|it|they|which|that)"
)
# Pattern, and what to write. A space matches any white space.
RULES = {
    r"for ever": "indefinitely",
    r"without a word": "silently",
    r"(?:un)?mend(?:s|ed|ing)?": "fix",
    r"to be had": "available",
    r"what there is": "the thing's name",
    r"those (?:that|which|who)": "the thing's name",
    r"answered with": "gets, returns or raises",
    r"anew": "again",
    r"reckon(?:s|ed|ing)?": "estimate or compute",
    r"kin": "related, or the thing's name",
    r"whoever": "the thing's name",
    r"beside": "next to, or compared with",
    r"by (?:itself|themselves)": "alone, automatically, or nothing",
    r"put(?:s|ting)? off": "defer or delay",
    r"as (?:it was|they were)": "unchanged",
    r"(?<!there )(?:is|are|was|were) no(?! (?:longer|more|less|fewer|better|worse)\b)": (
        "is not, or has no"
    ),
    r"(?<![\"'`|=(]\s)(?<![\"'`|=(])(?<!there is )(?<!there are )(?<!got )(?<!for )(?-i:none)(?! of\b)": (  # noqa: E501
        "the thing's name"
    ),
    r"nobody": "the thing's name",
    r"those (?:of|from|in|on|with)": "the thing's name",
    rf"{_MACHINE} (?:\w+ly )?(?:tells?|hears?|heard|knows?|knew|announces?|wants?)": (
        "reports, receives, stores or has"
    ),
    r"(?:is|are|was|were|be|been|being) told(?! apart)": "receives, or is set",
}
_SUMMARY = re.compile(r"(?:Returns? )?(?:What|Who|Which|How|Where|Of)\b|Whether\b", re.IGNORECASE)
_BLOCK_OF_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_NAME_IN_CODE = re.compile(r"`[^`\n]*`")

Finding = tuple[int, str]


def findings(text: str) -> Iterator[Finding]:
    """Yield the offset and the advice for each match of a rule."""
    pieces = list(re.finditer(r"\s+|\S", text))
    flat = "".join(
        "\n" if piece[0].count("\n") > 1 else " " if piece[0].isspace() else piece[0]
        for piece in pieces
    )
    for pattern, advice in RULES.items():
        for found in re.finditer(rf"\b(?:{pattern})\b", flat, re.IGNORECASE):
            yield pieces[found.start()].start(), f"write {advice}, not {found[0]!r}"


def summaries(source: str) -> Iterator[Finding]:
    """Yield docstrings whose summary is neither a noun phrase nor an imperative."""
    starts = [0, *(end.end() for end in re.finditer("\n", source))]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            summary = ast.get_docstring(node) or ""
            found = _SUMMARY.match(summary)
            if found:
                yield (
                    starts[node.body[0].lineno - 1],
                    f"begin the summary with a noun or an imperative, not {found[0]!r}",
                )


def prose_of(path: pathlib.Path) -> str:
    """Return the text of a file with spaces or back-quotes in place of code, so that
    offsets stay.
    """
    text = path.read_text(encoding="utf-8")
    text = (
        _comments_and_strings(text)
        if path.suffix == ".py"
        else _BLOCK_OF_CODE.sub(lambda found: _blank(found[0]), text)
    )
    return _NAME_IN_CODE.sub(lambda found: "`" * len(found[0]), text)


def _comments_and_strings(text: str) -> str:
    source = text.splitlines(keepends=True)
    lines = [_blank(line) for line in source]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            # left out, since a comment's sentence may go over several lines
            sign = token.line.lstrip().startswith("#")
            _show(lines, source, (token.start[0], token.start[1] + sign), token.end)
    return "".join(lines)


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _show(
    lines: list[str], source: list[str], start: tuple[int, int], end: tuple[int, int]
) -> None:
    for number in range(start[0], end[0] + 1):
        first = start[1] if number == start[0] else 0
        last = end[1] if number == end[0] else len(source[number - 1])
        line = lines[number - 1]
        lines[number - 1] = line[:first] + source[number - 1][first:last] + line[last:]


def checked_files() -> list[pathlib.Path]:
    """Return the files with prose, without those made by scripts."""
    files = sorted({path for pattern in [*DOCUMENTS, *CODE] for path in ROOT.glob(pattern)})
    return [
        path for path in files if not path.name.endswith("_pb2.py") and path.parent.name != "api"
    ]


def is_below(path: pathlib.Path, names: list[str]) -> bool:
    """Return whether a file is one of these files or in one of these folders."""
    return any(ROOT / name in (path, *path.parents) for name in names)


def problems(path: pathlib.Path) -> Iterator[Finding]:
    """Yield the offset and the advice for each place of a file."""
    yield from findings(prose_of(path))
    if path.suffix == ".py":
        yield from summaries(path.read_text(encoding="utf-8"))


def mistakes(path: pathlib.Path) -> Iterator[Finding]:
    """Yield the mistakes that proselint finds."""
    prose = prose_of(path)
    config: Config = {"max_errors": 1000, "checks": dict.fromkeys(MISTAKES, True)}
    starts = [0, *(end.end() for end in re.finditer("\n", prose))]
    for result in LintFile(str(path), prose).lint(config):
        line, column = result.pos
        yield starts[line - 1] + column - 1, result.check_result.message


def main(names: list[str]) -> int:
    """Print the places to rewrite in the given files and folders, or in all files; return 1 if
    there are any.
    """
    CheckRegistry().register_many(builtin)
    found = 0
    for path in checked_files():
        if names and not is_below(path, names):
            continue
        text = path.read_text(encoding="utf-8")
        for offset, advice in sorted([*problems(path), *mistakes(path)]):
            found += 1
            print(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, offset) + 1}: {advice}")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
