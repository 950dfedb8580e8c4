"""What a release holds: the sources with all that builds and explains them, and one wheel,
whichever way it is built.
"""

from __future__ import annotations

import email
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import google.protobuf
import pytest

import akdl
from tests.support.deadline import DEADLINE_S
from tests.support.installs import ROOT

STUB = "operators/params/accessors.pyi"

pytestmark = pytest.mark.process


def run(*command: str, folder: pathlib.Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Copy what git knows, and what earlier work leaves beside it."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git knows which files are ours")
    folder = tmp_path_factory.mktemp("release") / "checkout"
    for name in run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", folder=ROOT
    ).splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for left in (
        "docs/api/index.md",
        "tests/__pycache__/test_x.cpython-311.pyc",
        "build/docs/index.html",
        ".venv/pyvenv.cfg",
    ):
        (folder / left).parent.mkdir(parents=True, exist_ok=True)
        (folder / left).touch()
    return folder


@pytest.fixture(scope="module")
def sources(checkout: pathlib.Path) -> pathlib.Path:
    """Make the archive of sources as `make dist` does, without a network."""
    run(
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--no-isolation",
        "--outdir",
        "../dist",
        folder=checkout,
    )
    (archive,) = (checkout.parent / "dist").glob("*.tar.gz")
    return archive


def wheel_of(folder: pathlib.Path, place: pathlib.Path) -> pathlib.Path:
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(place),
        folder=folder,
    )
    (built,) = place.glob("*.whl")
    return built


def test_source_distribution_holds_the_files_of_git(
    checkout: pathlib.Path, sources: pathlib.Path
) -> None:
    known = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", folder=ROOT
    ).splitlines()
    # settings of git, CI and editors
    known = [name for name in known if not name.startswith(".") and (ROOT / name).is_file()]
    with tarfile.open(sources) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert set(known) - held == set()
    made = {name for name in held - set(known) if "akdl.egg-info/" not in name}
    assert made == {"PKG-INFO", "setup.cfg", STUB}, "and nothing that earlier work has left"
    assert STUB not in known, "git would have a file that follows from others"


def test_stubs_need_only_what_builds_have(tmp_path: pathlib.Path) -> None:
    """Pip builds a wheel with the packages of `requires` in pyproject.toml alone."""
    (tmp_path / "google").symlink_to(pathlib.Path(google.protobuf.__path__[0]).parent)
    # -S leaves out the installed packages.
    program = f"import runpy, sys; sys.path.append({str(tmp_path)!r})"
    program += '; runpy.run_path("scripts/build_stubs.py", run_name="__main__")'
    run(sys.executable, "-S", "-c", program, str(tmp_path / "made.pyi"), folder=ROOT)
    assert (tmp_path / "made.pyi").read_text() == (ROOT / STUB).read_text()


@pytest.mark.slow
def test_both_ways_to_a_wheel_give_the_same_files(
    checkout: pathlib.Path, sources: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    wheels = [wheel_of(unpacked, tmp_path / "one"), wheel_of(checkout, tmp_path / "other")]
    one, other = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels)
    assert one == other
    packages = {name.split("/")[0] for name in one if ".dist-info/" not in name}
    assert packages == {"akdl", "bridge", "operators"}
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = [name for name in one if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(wheel.read(name))
        (commands,) = [
            wheel.read(name).decode() for name in one if name.endswith("/entry_points.txt")
        ]
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == (
        "akdl",
        akdl.__version__,
        ">=3.7",
    )
    assert "Apache-2.0" in (metadata["License-Expression"], metadata["License"]) and any(
        "/LICENSE" in name for name in one
    )
    # as newer setuptools write them
    extras = {name.replace(".", "-") for name in metadata.get_all("Provides-Extra")}
    assert extras == {
        "dev",
        "files",
        "flink",
        "flink-1-20",
        "keras",
        "mlflow",
        "onnxruntime",
        "serve",
        "tf",
        "tf-gpu",
        "tls",
        "torch",
    }
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
    assert str(metadata.get_payload()).startswith("# akdl: TensorFlow scripts as Flink operators")
    assert commands.count(" = ") == 1 and "akdl = akdl.__main__:main" in commands
    texts = list((ROOT / "bridge").rglob("*.java"))
    assert texts and {path.relative_to(ROOT).as_posix() for path in texts} <= one
    assert STUB in one, "the checkout had none, as a clone has none"
    run(
        sys.executable,
        "-m",
        "twine",
        "check",
        "--strict",
        str(sources),
        *map(str, wheels),
        folder=tmp_path,
    )
