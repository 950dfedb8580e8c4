"""What the pages name is there: files, links and the headings they lead to."""

from __future__ import annotations

import pathlib
import re

import pytest

from scripts import draw_docs
from tests.support.installs import ROOT

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("benchmarks/*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
]
PAGES = [page for page in PAGES if "docs/api/" not in page.as_posix()]  # made by `make docs`
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: pathlib.Path) -> set[str]:
    """Return the headings of a page as GitHub and Sphinx write them in addresses."""
    headings = re.findall(
        r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_files_of_the_pages_exist(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = list(re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text))
    missing = []
    for target in (first or second for first, second in links):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        aim = page.parent / path if path else page
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            missing.append(target)
    files = re.findall(
        r"(?<![\w./-])((?:akdl|bridge|operators|proto|examples|docs|benchmarks|tests|scripts)/[\w./,-]+\.\w+)(?![\w,])",
        text,
    )
    assert missing + [file for file in files if not (ROOT / file).exists()] == []


def test_links_that_leave_the_pages_are_whole_addresses() -> None:
    """Whether they lead somewhere, `make docs-links` tries."""
    text = "".join(CODE.sub("", page.read_text(encoding="utf-8")) for page in PAGES)
    text = re.sub(r"`[^`]*`", "", text)
    links = re.findall(r"\]\((https?://[^)\s]+)\)", text)
    assert (
        links
        and [
            link
            for link in links
            if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w.~%/#?=&-]*)?", link)
        ]
        == []
    )
    assert len(re.findall(r"https?://", text)) == len(links), "each is a link with words"


@pytest.mark.parametrize(
    ("text", "is_from_an_index"),
    [
        ("pip install 'akdl[tls]'", True),
        ("It needs `pip install\n'akdl[tls]'`.", True),
        ('"needs it: install " "akdl[tf,serve]"', True),
        ("uv add --quiet akdl", True),
        ("uv pip install numpy \\\n  akdl==0.2", True),
        ("dependencies = ['akdl>=0.2']", True),
        ("pip install '.[tf]'", False),
        ("uv pip install --python bin/python '/path/to/akdl[tf,flink]' numpy", False),
        ("pip install dist/akdl-0.2.0-py3-none-any.whl", False),
        ("install the extra files of akdl, as you installed akdl", False),
    ],
)
def test_installs_of_akdl_from_an_index_are_found(text: str, is_from_an_index: bool) -> None:
    assert bool(from_an_index(text)) == is_from_an_index


def from_an_index(text: str) -> list[str]:
    """Return what installs akdl by its name: package indexes do not have it, so somebody else could
    put a package there.
    """
    # commands go on in the next line, and strings of Python in the next string
    plain = re.sub(r"[\"\\]*\s+[\"\\]*", " ", text)
    found = re.finditer(
        r"\b(?:pip3?|uv|pipx|poetry|pdm|conda|mamba) (?:pip |tool )?(?:install|add|run)\b[^`;|&()]{0,80}?(?<![\w./-])akdl(?![\w./-])"
        r"|(?<![\w./-])akdl ?(?:\[[\w,.-]+\]|[=~>]=)",
        plain,
    )
    return [match.group() for match in found]


def test_no_text_tells_to_install_akdl_from_a_package_index() -> None:
    kinds = ("*.py", "*.pyi", "*.md", "*.sh", "*.ipynb", "*.toml", "*.yaml", "Dockerfile", "*.txt")
    folders = (
        "akdl",
        "bridge",
        "operators",
        "docs",
        "changes",
        "examples",
        "scripts",
        "benchmarks",
    )
    files = {
        path
        for kind in kinds
        for path in [
            *ROOT.glob(kind),
            *(each for name in folders for each in (ROOT / name).rglob(kind)),
        ]
    }
    files |= {ROOT / "Makefile"}
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in files
        if path.is_file()
    }
    assert (
        len(texts) > 300
        and {name: found for name, text in texts.items() if (found := from_an_index(text))} == {}
    )


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:[^<\n`]*<)?([\w/]+)>?$", index, re.MULTILINE))
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for page in PAGES
        if ROOT / "docs" in page.parents
    }
    assert pages - named == {"index"}


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 800


def test_pictures_are_those_of_their_script_and_of_the_figures() -> None:
    assert [
        path.name for path, text in draw_docs.pictures() if path.read_text(encoding="utf-8") != text
    ] == []


def test_options_of_the_example_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text().replace("\\\n", "")
    job = (ROOT / "examples" / "on_a_cluster" / "job.py").read_text()
    used = {
        option
        for line in re.findall(r"on_a_cluster/job\.py (.*)", page)
        for option in re.findall(r"--[\w-]+", line)
    }
    assert used and used <= set(re.findall(r'add_argument\(\s*"(--[\w-]+)"', job))
