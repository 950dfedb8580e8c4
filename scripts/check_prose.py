"""Check the words of documents, docstrings, comments and messages: `make check` runs it.

The rules are those of CONTRIBUTING.md: the field's words, and one form for one thing. proselint finds them; of its own checks
those run that find mistakes, and none that judge style.
"""

from __future__ import annotations

import io
import pathlib
import re
import sys
import tokenize

from proselint.checks import __register__ as builtin
from proselint.config import Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, types
from proselint.tools import LintFile

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = ["*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md"]
CODE = ["akdl/**/*.py", "bridge/**/*.py", "operators/**/*.py", "examples/**/*.py", "benchmarks/*.py", "scripts/build_*.py"]
WORDS = {
    "for ever": "indefinitely",
    "without a word": "silently",
    "(?:un)?mend(?:s|ed|ing)?": "fix",
    "a text": "a string",
    "to be had": "available",
    "what there is": "the thing's name",
    "whatever": "the thing's name",
    "those (?:that|which|who)": "the thing's name",
    "of which": "a sentence of its own",
    "answered with": "gets, returns or raises",
}
MISTAKES = ("lexical_illusions", "malapropisms", "mondegreens", "needless_variants", "nonwords", "spelling", "uncomparables")

_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def prose_of(path: pathlib.Path) -> str:
    """Return the text of a file with what is no prose as spaces, so that places stay."""
    text = path.read_text(encoding="utf-8")
    return _document(text) if path.suffix == ".md" else _comments_and_strings(text)


def _document(text: str) -> str:
    """Blank code."""
    return _CODE.sub(lambda found: _blank(found.group()), text)


def _comments_and_strings(text: str) -> str:
    source = text.splitlines(keepends=True)
    lines = [_blank(line) for line in source]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            _show(lines, source, token.start, token.end)
    return "".join(lines)


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _show(lines: list[str], source: list[str], start: tuple[int, int], end: tuple[int, int]) -> None:
    for number in range(start[0], end[0] + 1):
        first = start[1] if number == start[0] else 0
        last = end[1] if number == end[0] else len(source[number - 1])
        line = lines[number - 1]
        lines[number - 1] = line[:first] + source[number - 1][first:last] + line[last:]


def main() -> int:
    """Print what to write otherwise; return how many places there are, at most 1."""
    CheckRegistry().register_many(builtin)
    CheckRegistry().register(
        Check(types.PreferredForms(WORDS), path="words", message="Write {0}, not {1!r}.", flags=CheckFlags(allow_quotes=True))
    )
    config: Config = {"max_errors": 1000, "checks": dict.fromkeys(["words", *MISTAKES], True)}
    found = 0
    for path in sorted(path for pattern in [*DOCUMENTS, *CODE] for path in ROOT.glob(pattern)):
        if path.name.endswith("_pb2.py") or path.parent.name == "api":  # made by scripts
            continue
        for result in LintFile(str(path), prose_of(path)).lint(config):
            found += 1
            line, column = result.pos
            print(f"{path.relative_to(ROOT)}:{line}:{column}: {result.check_result.message}")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
