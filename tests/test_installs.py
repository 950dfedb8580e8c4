"""Each extra in a fresh environment, on each Python here that it allows; `make test-installs`, some
minutes and a package index.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from akdl.__main__ import COMMANDS
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT
from tests.support.installs import ROOT, wheel
from tests.support.uv import find_uv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("AKDL_TEST_INSTALLS"),
        reason="takes minutes and a package index: make test-installs",
    ),
]

ALL = [f"3.{minor}" for minor in range(7, 14)]
FLINK = ["3.9", "3.10", "3.11", "3.12"]
DEV = FLINK  # the pinned grpcio-tools has no packages for newer ones
TRAINING = "import tensorflow, akdl.engine.train, akdl.keras.keras_training"
JOB = """
from operators import *
useLocalEnv(1)
rows = MemSourceBatchOp([(1,), (2,), (3,)], "x LONG").filter("x > 1").collectToDataframe()
assert sorted(rows.x) == [2, 3], rows
"""
SCRIPT = """
def main(task_config):
    for rows in task_config.tf_context.batches(10):
        task_config.output_writer.write_batch({"y": 2 * rows["x"]})
"""
SCRIPT_JOB = f"""
open("double.py", "w").write({SCRIPT!r})
op = TensorFlow2BatchOp(userFiles=["double.py"], mainScriptFile="double.py", outputSchemaStr="y LONG", numWorkers=1, numPSs=0)
rows = MemSourceBatchOp([(1,), (2,)], "x LONG").link(op).collectToDataframe()
assert sorted(rows.y) == [2, 4], rows
"""
# Without TensorFlow, Keras and pandas. A process of a job begins with akdl.entry.
TORCH = """
import sys
import torch
import akdl.entry
from akdl import testing
task_config = testing.batch_task_config(
    {"x": [0.0, 0.5, 1.0], "y": [1.0, 2.0, 3.0]}, {"x": "FLOAT", "y": "FLOAT"}, work_dir="."
)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.5)
for rows in task_config.context.arrays(3, num_epochs=200):
    x, y = torch.tensor(rows["x"])[:, None], torch.tensor(rows["y"])[:, None]
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert loss.item() < 1e-3, loss
assert not {"tensorflow", "keras", "pandas"} & set(sys.modules)
"""
# What each extra promises: these lines run where nothing else is installed.
PROMISES = {
    "": (ALL, "import akdl.runner.config, akdl.testing, akdl.features"),
    "files": (ALL, "import fsspec; fsspec.filesystem('memory')"),
    # Jobs have it, scripts do not need it.
    "tls": (FLINK, "from cryptography import x509"),
    "tf": (ALL, TRAINING),
    "torch": (["3.11"], TORCH),
    "tf,serve": (
        ["3.9", "3.11", "3.12"],
        "import operators.serve.rest_server, uvicorn, prometheus_client, tensorflow",
    ),
    "flink": (FLINK, JOB),
    "flink,tf": (FLINK, JOB + SCRIPT_JOB + TRAINING),
    "flink-1.20": (["3.9", "3.10", "3.11"], JOB),  # its Beam has no packages for Python 3.12
    "dev": (
        DEV,
        "import pytest, sphinx, furo, myst_parser, mypy, grpc_tools, nbclient, twine, build, IPython",
    ),
}
CASES = [(extra, python) for extra, (pythons, _) in PROMISES.items() for python in pythons]


def uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_uv(), *arguments], capture_output=True, text=True, timeout=30 * DEADLINE_S
    )


def interpreter(version: str) -> str:
    """Return an interpreter of a version, or skip."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    for path in sorted(
        pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    ):
        return str(path)
    found = uv("python", "find", "--no-python-downloads", version)
    if found.returncode != 0:
        pytest.skip(f"there is no Python {version}")
    return found.stdout.strip()


@pytest.mark.parametrize(("extra", "python"), CASES)
def test_fresh_environment_runs_the_features_of_its_extra(
    extra: str, python: str, tmp_path: pathlib.Path
) -> None:
    venv, base = tmp_path / "venv", interpreter(python)
    subprocess.run(
        [base, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=4 * DEADLINE_S
    )
    fresh = str(venv / "bin" / "python")
    installed = uv(
        "pip", "install", "--python", fresh, f"{wheel()}[{extra}]" if extra else str(wheel())
    )
    assert installed.returncode == 0, installed.stderr
    fits = uv("pip", "check", "--python", fresh)
    assert fits.returncode == 0, fits.stderr
    hidden = ("PYTHONPATH", "JAVA_HOME")
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in hidden}
    done = subprocess.run(
        [fresh, "-c", PROMISES[extra][1]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=14 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name, (_, extras, _) in COMMANDS.items():
        needed = set(extras.split(" and "))
        if needed <= set(extra.split(",")) or (extra == "tf" and name == "serve"):
            done = subprocess.run(
                [venv / "bin" / "akdl", name, "--help"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
            )
            if needed <= set(extra.split(",")):
                assert done.returncode == 0 and done.stdout.startswith(f"usage: akdl {name} "), (
                    done.stderr
                )
            else:
                assert done.returncode == 1 and "install the extras tf and serve" in done.stderr, (
                    done.stderr
                )


@pytest.mark.parametrize("python", ALL)
@pytest.mark.parametrize("extra", ["tf-gpu", "flink", "tf"])
def test_an_extra_resolves_or_says_why_not(extra: str, python: str, tmp_path: pathlib.Path) -> None:
    """Without installing: what a large extra would bring."""
    (tmp_path / "in.txt").write_text(f"akdl[{extra}] @ {wheel().as_uri()}\n")
    done = uv("pip", "compile", "--no-header", "--python-version", python, str(tmp_path / "in.txt"))
    brings = {line.partition("==")[0] for line in done.stdout.splitlines()}
    if extra == "flink" and python not in FLINK:
        assert done.returncode != 0 and "apache-flink" in done.stderr, (
            "an extra without what it promises would be worse"
        )
        return
    assert done.returncode == 0, done.stderr
    assert brings & (
        {"apache-flink"} if extra == "flink" else {"tensorflow", "tensorflow-cpu", "tensorflow-gpu"}
    )


@pytest.mark.parametrize("protobuf", ["3.20", "4", "5", "6", "7"])
def test_messages_work_with_each_protobuf(protobuf: str, tmp_path: pathlib.Path) -> None:
    installed = uv(
        "pip",
        "install",
        "--python",
        sys.executable,
        "--target",
        str(tmp_path),
        f"protobuf=={protobuf}.*",
    )
    assert installed.returncode == 0, installed.stderr
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    version = subprocess.run(
        [sys.executable, "-c", "import google.protobuf as p; print(p.__version__)"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert version.stdout.startswith(f"{protobuf}."), version.stderr
    run_tests(
        sys.executable,
        environment,
        *(f"tests/akdl/wire/test_{name}.py" for name in ("wire", "serialized", "columns")),
    )


def test_workarounds_work_with_the_newest_beam(tmp_path: pathlib.Path) -> None:
    """Whatever Beam this Flink asks for: the next one takes a newer Beam, which needs
    protobuf 6.
    """
    assert uv("venv", "--python", sys.executable, str(tmp_path / "venv")).returncode == 0
    python = str(tmp_path / "venv" / "bin" / "python")
    more = [
        "py4j",
        "cloudpickle",
        "ruamel.yaml",
        "avro",
        "fastavro",
        "pandas",
        "pytest",
        "pytest-timeout",
        "pytest-xdist",
    ]
    for wanted in (["apache-beam>=2.70", *more], ["--no-deps", "apache-flink>=2.3,<2.4"]):
        installed = uv("pip", "install", "--python", python, *wanted)
        assert installed.returncode == 0, installed.stderr
    run_tests(
        python,
        {**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        "tests/bridge/workarounds/test_beam_workers.py",
    )


def run_tests(python: str, environment: dict[str, str], *files: str) -> None:
    command = [python, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=17 * DEADLINE_S
    )
    assert done.returncode == 0, done.stdout[-5000:]
