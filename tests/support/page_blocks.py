"""Blocks of code in the pages, and what runs them: `python -m tests.support.page_blocks FOLDER`,
with names of pages on stdin.

The blocks of a page share a folder and a namespace. Conventions, which readers see too:

- "`score.py`:" right before a block makes it that file.
- A paragraph that ends in "prints:" between a block and a block of `text` says what the first one
  prints.
- A first line "Not run in tests: reason", as a comment, exempts a block.

Scripts show what they print, as with `debug_mode`, and trainings of the program what they log; its
numbers have to be plausible.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import logging
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.plausible_numbers import implausible, of_scripts

ROOT = pathlib.Path(__file__).parents[2]
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE
)
_NAME = re.compile(r"`([\w/-]+\.(?:py|json|sql|csv))`:\n\n\Z")
# in pages, for servers of the tests
KAFKA, POSTGRESQL, S3 = "localhost:9092", "localhost:5432", "localhost:9000"
# Flink's plugin for S3 logs its start
_OF_HADOOP = re.compile(r"[\d-]+ [\d:,]+ +(INFO|WARN) +org\.apache\.hadoop\.")
REST_PORT = "8501"
_EXEMPT = re.compile(r"\A(?:#|--) Not run in tests: (.+)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a page: its language, text, first line, the file that it is, whether it is output,
    and why it does not run.
    """

    page: str
    line: int
    language: str
    text: str
    file: str | None
    printed: bool
    exempt: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[pathlib.Path]:
    """Return all pages with blocks that readers may copy; design notes have drawings."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        page
        for page in found
        if not {ROOT / "docs" / "api", ROOT / "docs" / "design"} & set(page.parents)
    ]


def blocks(page: pathlib.Path) -> Iterator[Block]:
    """Return the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        before = text[: found.start()]
        name = _NAME.search(before)
        exempt = _EXEMPT.match(found["text"])
        yield Block(
            str(page.relative_to(ROOT)), before.count("\n") + 2, found["language"].partition(" ")[0], found["text"],
            name[1] if name else None, before.endswith("prints:\n\n"), exempt[1] if exempt else None,
        )  # fmt: skip


def statements(sql: str) -> list[str]:
    """Return the statements of an SQL block without their semicolons."""
    return [part.strip() for part in sql.split(";") if part.strip()]


def _lines(text: str) -> list[str]:
    """Return the lines of the program itself, without the spaces that align them."""
    of_others = set(of_scripts(text))
    text = "\n".join(
        line for line in text.splitlines() if line not in of_others and not _OF_HADOOP.match(line)
    )
    return [
        " ".join(re.sub(r"(\+-+)+\+", "+-+", line).split()) for line in text.strip().splitlines()
    ]


def run_page(
    page: pathlib.Path, folder: pathlib.Path, servers: Mapping[str, str] | None = None
) -> list[str]:
    """Run the blocks of a page in a folder of its own, with other addresses of servers; return what
    is wrong.
    """
    folder.mkdir(parents=True)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed, starts = "", [os.fstat(stream).st_size for stream in (1, 2)]
    try:
        for block in blocks(page):
            try:
                if block.exempt is not None:
                    continue
                for address, own in (servers or {}).items():
                    block = dataclasses.replace(block, text=block.text.replace(address, own))
                if block.file is not None:
                    pathlib.Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                    pathlib.Path(block.file).write_text(block.text, encoding="utf-8")
                elif block.language == "python":
                    printed = _run(block, namespace)
                elif block.language == "sql":
                    _run_sql(block)
                elif block.printed and _lines(block.text) != _lines(printed):
                    return [f"{block}: the page says\n{block.text}\nbut printed was\n{printed}"]
            except BaseException:
                return [f"{block}: failed\n{traceback.format_exc()}"]
        return implausible(
            "\n".join(_written(stream, start) for stream, start in zip((1, 2), starts))
        )
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):  # files of pages may have one name
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def _run(block: Block, namespace: dict[str, Any]) -> str:
    """Run a block with errors at the page's lines; return what it and the JVM printed."""
    code = compile(
        ast.parse("\n" * (block.line - 1) + block.text, str(ROOT / block.page)),
        str(ROOT / block.page),
        "exec",
    )
    start = os.fstat(1).st_size
    exec(code, namespace)
    return _written(1, start)


def _written(stream: int, start: int) -> str:
    sys.stdout.flush()
    return os.pread(stream, 1 << 20, start).decode(errors="replace")


def _run_sql(block: Block) -> None:
    """Make the tables of a block, and plan its queries."""
    from operators import getMLEnv

    tables = getMLEnv().btenv
    for statement in statements(block.text):
        if statement.upper().startswith(("SELECT", "INSERT")):
            tables.explain_sql(statement)
        else:
            tables.execute_sql(statement)


def main(folder: str) -> None:
    """Run the pages whose names come, a line of JSON each with the addresses of servers, and answer
    each with a line of JSON: what is wrong.
    """
    answers = os.fdopen(os.dup(1), "w")
    for stream, name in ((1, "stdout"), (2, "stderr")):  # the numbers, since Java prints tables
        os.dup2(os.open(pathlib.Path(folder) / name, os.O_RDWR | os.O_CREAT | os.O_APPEND), stream)
    logging.basicConfig()
    for name in ("akdl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.INFO)
    from operators import AlinkGlobalConfiguration, resetEnv
    from operators.flink import env
    from tests.support.mini_clusters import close_mini_clusters, share_mini_clusters

    env.start_java = share_mini_clusters
    for number, line in enumerate(sys.stdin):
        name, servers = json.loads(line)
        AlinkGlobalConfiguration.setPrintProcessInfo(True)
        problems = run_page(ROOT / name, pathlib.Path(folder) / str(number), servers)
        resetEnv()
        answers.write(json.dumps(problems) + "\n")
        answers.flush()
    close_mini_clusters()


if __name__ == "__main__":
    main(*sys.argv[1:])
