"""What `setup.py` declares: one version, one command, and every package that our modules import."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import setuptools
import yaml
from packaging.requirements import Requirement

import akdl
from akdl.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("akdl", "bridge", "operators")
# The names of packages, where that of their module is another one. Flink says which versions of its
# own packages it takes.
DISTRIBUTIONS = {
    "apache_beam": "apache-flink", "dockerfile_parse": "dockerfile-parse", "google": "protobuf", "grpc": "grpcio",
    "grpc_tools": "grpcio-tools", "keras": "tensorflow", "maven_artifact": "maven-artifact", "py4j": "apache-flink", "pyarrow_hotfix": "pyarrow-hotfix", "pyflink": "apache-flink", "yaml": "pyyaml",
}  # fmt: skip
PYTHONS = [f"3.{minor}" for minor in range(7, 15)]
MACHINES = [
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "arm64"),
    ("darwin", "x86_64"),
    ("win32", "AMD64"),
]


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of `setup`."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", found.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return found


def names(requirements: Iterable[str]) -> set[str]:
    return {Requirement(text).name.replace("tensorflow-cpu", "tensorflow") for text in requirements}


def imports(*folders: str) -> Iterator[tuple[str, pathlib.Path]]:
    """The packages of others that the modules of some folders import, with the module."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    own = {*PACKAGES, "tests", "scripts", *(path.stem for path in paths)}
    for path in paths:
        for name in imported_by(path):
            if name not in own and name not in sys.stdlib_module_names:
                yield DISTRIBUTIONS.get(name, name), path.relative_to(ROOT)


@functools.cache
def imported_by(path: pathlib.Path) -> set[str]:
    """The packages that a module imports, wherever it does."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.append(node.module or "")
    return {module.partition(".")[0] for module in modules}


def test_declared_version_is_that_of_the_package(declared: dict[str, Any]) -> None:
    assert declared["version"] == akdl.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", akdl.__version__)


def test_classifiers_name_the_pythons_that_are_allowed(declared: dict[str, Any]) -> None:
    said = declared["classifiers"]
    minors = [
        int(found[1])
        for text in said
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", text))
    ]
    assert (
        minors == list(range(minors[0], minors[-1] + 1))
        and declared["python_requires"] == f">=3.{minors[0]}"
    )
    lint = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'target-version = "py3{minors[0]}"' in lint, (
        "the syntax that is checked is that of the oldest Python"
    )
    assert {f"3.{minor}" for minor in minors} <= set(PYTHONS)
    assert not [text for text in said if text.startswith(("Private ::", "License ::"))], (
        "the license is declared as such"
    )
    assert "Typing :: Typed" in said and all(
        (ROOT / package / "py.typed").exists() for package in PACKAGES
    )
    assert "Operating System :: POSIX :: Linux" in said and not [
        text for text in said if "Windows" in text
    ]


def test_akdl_declares_what_it_imports(declared: dict[str, Any]) -> None:
    extras = declared["extras_require"]
    kinds = ("files", "keras", "mlflow", "onnxruntime", "torch")
    wanted = [each for kind in kinds for each in extras[kind]]
    allowed = names([*declared["install_requires"], *extras["tf"], *wanted])
    allowed.add("pkg_resources")  # of setuptools, asked on Python 3.7, where environments have it
    allowed.add("jax")  # asked where it is the backend of Keras
    assert {(name, path) for name, path in imports("akdl") if name not in allowed} == set()


def test_the_flink_side_declares_what_it_imports(declared: dict[str, Any]) -> None:
    extras = declared["extras_require"]
    allowed = names(
        [
            *declared["install_requires"],
            *extras["flink"],
            *extras["flink-1.20"],
            *extras["tls"],
            *extras["serve"],
        ]
    )
    allowed.add("IPython")  # asked only where it runs the program
    assert {
        (name, path) for name, path in imports("bridge", "operators") if name not in allowed
    } == set()


def test_development_declares_what_it_imports(declared: dict[str, Any]) -> None:
    extras = declared["extras_require"]
    allowed = names(
        [
            *declared["install_requires"],
            *extras["flink"],
            *extras["tf"],
            *extras["dev"],
            "setuptools",
        ]
    )
    allowed.update(("torch", "jax", "mlflow"))  # in Pythons of their own
    assert {
        (name, path)
        for name, path in imports("tests", "benchmarks", "scripts", "examples")
        if name not in allowed
    } == set()


def test_requirements_of_the_flink_side_are_used(declared: dict[str, Any]) -> None:
    used = {name for name, _ in imports(*PACKAGES)}
    wanted = names(
        [
            *declared["install_requires"],
            *declared["extras_require"]["flink"],
            *declared["extras_require"]["files"],
        ]
    )
    # apache-flink brings it; ours is a floor for pip on Python 3.12
    assert wanted - used == {"apache-beam"}


@pytest.mark.parametrize("extra", ["tf", "tf-gpu"])
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", MACHINES, ids="-".join)
def test_each_python_gets_one_requirement_of_tensorflow(
    declared: dict[str, Any], extra: str, python: str, machine: tuple[str, str]
) -> None:
    where = {"python_version": python, "sys_platform": machine[0], "platform_machine": machine[1]}
    chosen = [Requirement(text) for text in declared["extras_require"][extra]]
    found = [
        str(one)
        for one in chosen
        if "tensorflow" in one.name and (one.marker is None or one.marker.evaluate(where))
    ]
    assert len(found) == 1, f"expected one requirement, got {found}"


def test_pages_and_messages_name_akdl_commands_and_not_modules(declared: dict[str, Any]) -> None:
    """There is one way to start a command: `akdl NAME`."""
    assert declared["entry_points"] == {"console_scripts": ["akdl = akdl.__main__:main"]}
    modules = [function.partition(":")[0] for function, _, _ in COMMANDS.values()]
    other_names = re.compile(
        rf"python3? -m (?:{'|'.join(map(re.escape, modules))})\b|\bakdl-(?:{'|'.join(COMMANDS)})\b(?! \")"
    )
    folders = ("akdl", "bridge", "operators", "docs", "examples", "benchmarks", "scripts")
    paths = [
        *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
        *(
            path
            for folder in folders
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".md", ".py")
        ),
    ]
    # made when pages are built, perhaps long ago
    paths = [path for path in paths if ROOT / "docs" / "api" not in path.parents]
    assert [
        str(path.relative_to(ROOT))
        for path in paths
        if other_names.search(path.read_text(encoding="utf-8"))
    ] == []


def test_commits_are_checked_by_the_commands_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][
        0
    ]["hooks"]
    (commands,) = re.findall(
        r"^check: setup\n((?:\t.*\n)+)",
        (ROOT / "Makefile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [each["entry"] for each in hooks if each["language"] == "system"] == (
        commands.replace("$(BIN)", ".venv/bin").replace("\t", "").splitlines()
    )


def test_the_license_is_the_declared_one(declared: dict[str, Any]) -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (
        declared["license"] == "Apache-2.0"
        and "Apache License\n" in text
        and "Version 2.0, January 2004" in text
    )
