"""Real environments, made by uv: a venv serves where it lies, and a Python that can be moved also
in an archive.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from bridge.exceptions import BridgeError
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    MLEnv,
    TensorFlow2BatchOp,
    resetEnv,
    useLocalEnv,
    useRemoteEnv,
)
from tests.support.environments import pack
from tests.support.flink_cluster import flink_cluster
from tests.support.leftovers import wait_until
from tests.support.uv import (
    find_uv,
    make_movable_python,
    make_venv,
    needs_movable_python,
    needs_package_index,
)

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.slow, pytest.mark.own_processes]

SCRIPT = """
import sys
import numpy
import tensorflow as tf

def main(config):
    total = int(sum(tf.reduce_sum(rows["x"]) for rows in config.tf_context.batches(100)))
    config.output_writer.write_batch({"total": [total], "prefix": [sys.prefix], "numpy": [numpy.__file__]})
"""

# Adds a column with its TensorFlow and the environment's folder.
STATES = """# /// script
# requires-python = "{python}"
# dependencies = ["{tensorflow}"]
# ///
import sys
import tensorflow as tf

def main(config):
    for rows in config.tf_context.batches(100):
        own = [f"{{tf.__version__}} {{sys.prefix}}"] * len(rows["x"])
        config.output_writer.write_batch({{**rows, "{name}": own}})
"""


@pytest.fixture(autouse=True)
def _local_env() -> Iterator[MLEnv]:
    yield useLocalEnv(1)
    resetEnv()


def run(tmp_path: pathlib.Path, python_env: str, script_text: str = SCRIPT) -> tuple[int, str, str]:
    """Run a script in an environment; return a sum, the place of the environment, and that of its
    numpy.
    """
    script = tmp_path / "total.py"
    script.write_text(script_text)
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile=str(script), pythonEnv=python_env, numWorkers=1, numPSs=0,
        outputSchemaStr="total BIGINT, prefix STRING, numpy STRING",
    )  # fmt: skip
    (row,) = (
        MemSourceBatchOp([(1,), (2,), (3,)], "x LONG")
        .link(op)
        .collectToDataframe()
        .itertuples(index=False)
    )
    return tuple(row)


@pytest.mark.long
def test_venv_works_in_its_place_and_is_refused_when_packed(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path / "venv")
    total, prefix, numpy = run(tmp_path, str(venv))
    assert (total, prefix) == (6, str(venv)) and numpy.startswith(f"{venv}/")
    with pytest.raises(
        BridgeError, match="env.tar.gz: .* a venv cannot be packed, since it only links"
    ):
        run(tmp_path, pack(venv, str(tmp_path / "env.tar.gz")))


# An environment whose interpreter starts another one travels in a quicker test.
@pytest.mark.long
def test_a_python_with_its_packages_travels_in_an_archive(tmp_path: pathlib.Path) -> None:
    made = make_movable_python(tmp_path / "made")
    total, prefix, numpy = run(tmp_path, pack(made, str(tmp_path / "env.tar.gz")))
    place = os.path.join(tempfile.gettempdir(), f"akdl_envs_{os.geteuid()}")
    assert total == 6 and prefix.startswith(f"{place}/") and numpy.startswith(f"{prefix}/")
    wait_until(lambda: not os.listdir(place), "the environment is gone with its last process")


@pytest.fixture
def new_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Let environments be made anew, in this folder; uv keeps the packages that it has."""
    needs_package_index()
    kept = subprocess.run(
        [find_uv(), "cache", "dir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    monkeypatch.setenv("UV_CACHE_DIR", kept)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stating(
    folder: pathlib.Path, table: BatchOperator, schema: str, name: str, tensorflow: str, python: str
) -> TensorFlow2BatchOp:
    """Link a script whose metadata names a TensorFlow, and which adds a column of this name."""
    script = folder / f"{name}.py"
    script.write_text(
        STATES.format(name=name, tensorflow=f"tensorflow-cpu=={tensorflow}.*", python=python)
    )
    op = TensorFlow2BatchOp(
        mainScriptFile=str(script),
        outputSchemaStr=f"{schema}, {name} STRING",
        numWorkers=1,
        numPSs=0,
    )
    return table.link(op)


def test_scripts_of_one_job_get_the_tensorflow_that_they_state(
    new_cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    table = stating(
        tmp_path,
        MemSourceBatchOp([(1,), (2,), (3,)], "x LONG"),
        "x BIGINT",
        "newest",
        "2.21",
        ">=3.9",
    )
    table = stating(tmp_path, table, "x BIGINT, newest STRING", "old", "2.15", ">=3.9,<3.12")
    found = table.collectToDataframe()
    assert sorted(found.x) == [1, 2, 3]
    places = f"{new_cache}/akdl/envs/"
    assert (
        found.newest.str.match(rf"2\.21\.\d+ {places}").all()
        and found.old.str.match(rf"2\.15\.\d+ {places}").all()
    )


@pytest.mark.long
@pytest.mark.cluster
def test_the_tensorflow_that_a_script_states_travels_to_a_cluster(
    new_cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    needs_movable_python()
    (tmp_path / "cluster").mkdir()
    with flink_cluster(tmp_path / "cluster", task_managers=1, slots=1) as cluster:
        useRemoteEnv(cluster.host, cluster.rest_port, 1)
        rows = MemSourceBatchOp([(1,), (2,), (3,)], "x LONG")
        found = stating(tmp_path, rows, "x BIGINT", "newest", "2.21", ">=3.9").collectToDataframe()
    assert sorted(found.x) == [1, 2, 3]
    place = os.path.join(tempfile.gettempdir(), f"akdl_envs_{os.geteuid()}")
    assert found.newest.str.match(rf"2\.21\.\d+ {place}/").all()
    wait_until(lambda: not os.listdir(place), "the environment is gone with its last process")
