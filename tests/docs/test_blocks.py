"""Blocks of code in README and docs run as they stand."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml

from akdl.__main__ import COMMANDS
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT
from tests.support.frameworks import python_with
from tests.support.page_blocks import KAFKA, POSTGRESQL, REST_PORT, ROOT, S3, Block, blocks, pages
from tests.support.ports import free_ports
from tests.support.warm_python import warm_variables

BLOCKS = [block for page in pages() for block in blocks(page)]
LANGUAGES = {
    "bash",
    "java",
    "json",
    "python",
    "sql",
    "text",
    "yaml",
    "{image}",
    "{include}",
    "{toctree}",
}
EXEMPT = 12
WIDTH = 88
# Programs of the system, of Flink, of packages that the page tells to install, and of containers.
PROGRAMS = {
    "cd", "cp", "export", "tar", "mkdir", "wget", "make", "pip", "python", "python3", "python3.11", "conda", "conda-pack", "uv", "docker",
    "kubectl", "git", "ls", "echo", "psql", "yarn",
}  # fmt: skip
PAGES = sorted(
    {
        block.page
        for block in BLOCKS
        if block.language in ("python", "sql") and not block.page.startswith("docs/zh")
    }
)
# Pages with servers and groups that tests in CI start as well.
OF_TESTS = {
    "docs/alink_scripts.md",
    "docs/connectors.md",
    "docs/keras.md",
    "docs/object_storage.md",
    "docs/postgresql.md",
    "docs/training.md",
}


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def test_languages_are_known() -> None:
    assert [
        f"{block}: {block.language!r}" for block in BLOCKS if block.language not in LANGUAGES
    ] == []


def test_few_blocks_do_not_run() -> None:
    exempt = [block for block in BLOCKS if block.exempt is not None]
    assert len(exempt) <= EXEMPT, list(map(str, exempt))


def test_blocks_fit_a_page() -> None:
    lines = [
        f"{block.page}:{number}: {len(line)} columns"
        for block in BLOCKS
        for number, line in enumerate(block.text.splitlines(), block.line)
        if len(line) > WIDTH and not block.language.startswith("{")
    ]
    assert lines == []


def test_python_and_data_can_be_read() -> None:
    for block in of("python"):
        ast.parse(block.text, str(block))
    for block in of("json"):
        json.loads(block.text)
    for block in of("yaml"):
        list(yaml.safe_load_all(block.text))


def test_block_of_output_follows_the_python_block_that_prints_it() -> None:
    for before, block in zip(BLOCKS, BLOCKS[1:]):
        if block.printed:
            assert (before.page, before.language, block.language) == (
                block.page,
                "python",
                "text",
            ), str(block)


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for block in of("bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(re.sub(r"\$\(.*\)", "VALUE", line), comments=True)
            if words:
                found.append((f"{block}: {line}", words))
    return found


def test_commands_exist() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for line, words in commands():
        program = words[0].rsplit("/", 1)[-1]
        known = program in PROGRAMS or words[0].startswith(("$FLINK_HOME/bin/", "VALUE"))
        if program == "akdl":
            known = words[1] in COMMANDS
        elif program == "make":
            known = {word for word in words[1:] if "=" not in word} <= targets
        if program.startswith("python") and "-m" in words:
            known = importlib.util.find_spec(words[words.index("-m") + 1]) is not None
        elif program.startswith("python") and len(words) > 1 and "/" in words[1]:
            known = (ROOT / words[1]).is_file()
        if not known:
            wrong.append(line)
    assert wrong == []


def test_extras_exist() -> None:
    extras = set(
        re.findall(r'"([\w-]+)": ', (ROOT / "setup.py").read_text().split("extras_require", 1)[1])
    )
    named = {
        extra
        for page in pages()
        for group in re.findall(
            r"pip install [^\n`]*(?:\.|akdl)\[([\w,-]+)\]", page.read_text(encoding="utf-8")
        )
        for extra in group.split(",")
    }
    assert named <= extras


def test_translated_pages_show_the_same_code() -> None:
    """Comments may be translated; the rest of each block is on the English page, whose blocks are
    run.
    """

    def plain(block: Block) -> str:
        return re.sub(r"\s*(?:#|--).*", "", block.text).strip()

    for page in (ROOT / "docs" / "zh").glob("*.md"):
        english = {plain(block) for block in BLOCKS if block.page == f"docs/{page.name}"}
        assert {plain(block) for block in blocks(page)} <= english


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, dict[str, str]], list[str]]]:
    """Run a page in a process that runs them all, and so starts Java once; return what is wrong."""
    folder = tmp_path_factory.mktemp("pages")
    errors, login = (
        folder / "stderr",
        {"AWS_ACCESS_KEY_ID": "shop", "AWS_SECRET_ACCESS_KEY": "open-sesame"},
    )
    with errors.open("wb") as stderr, subprocess.Popen(
        [sys.executable, "-m", "tests.support.page_blocks", str(folder)],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
        env={**ENVIRONMENT, **warm_variables(), **login, "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]), "PYTHONPATH": os.pathsep.join([str(ROOT), ENVIRONMENT.get("PYTHONPATH", "")])},
    ) as process:  # fmt: skip

        def run(page: str, servers: dict[str, str]) -> list[str]:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps([page, servers]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, errors.read_text(errors="replace")[-5000:]
            return list(json.loads(answer))

        try:
            yield run
            process.communicate(timeout=2 * DEADLINE_S)
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.flink
@pytest.mark.tf
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page in OF_TESTS else ()) for page in PAGES],
)
def test_blocks_run(
    page: str, runs: Callable[[str, dict[str, str]], list[str]], request: pytest.FixtureRequest
) -> None:
    text, servers = (ROOT / page).read_text(encoding="utf-8"), {}
    if KAFKA in text:
        servers[KAFKA] = request.getfixturevalue("kafka").address
    if S3 in text:
        servers[S3] = request.getfixturevalue("s3").address
    if POSTGRESQL in text:
        database = request.getfixturevalue("postgresql")
        servers[POSTGRESQL] = database.address
        database.run(
            "".join(
                block.text for block in BLOCKS if block.page == page and block.file == "shop.sql"
            )
        )
    for packages in (["torch"], ["jax"], ["keras", "torch"]):
        if json.dumps(packages) in text:
            servers[json.dumps(packages)] = repr(python_with(packages[-1]))
    if REST_PORT in text:
        (port,) = free_ports(1)
        servers[REST_PORT] = str(port)
    problems = runs(page, servers)
    assert not problems, "\n".join(problems)
