"""Environments that uv makes, from packages in a folder: small ones, with the names of those that
scripts need.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

from bridge.exceptions import ConfigurationError
from bridge.settings import PythonArchive
from operators.prepare import made_env
from operators.prepare.made_env import main
from operators.prepare.python_env import find_python
from operators.prepare.requirements import Wanted
from operators.tools import doctor
from tests.support.uv import needs_movable_python

pytestmark = pytest.mark.process

PACKAGES = {
    "tensorflow": ["2.15.1", "2.21.0"], "numpy": ["2.0.0"], "grpcio": ["1.80.0"], "protobuf": ["6.31.0"], "tiny": ["1.0"],
    "older": ["1.0"],
}  # fmt: skip
MODULES = {"grpcio": "grpc", "protobuf": "google/protobuf"}


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Let uv find packages in a folder alone; return the cache."""
    index = tmp_path / "index"
    index.mkdir()
    for name, version in (
        (name, version) for name, versions in PACKAGES.items() for version in versions
    ):
        info = f"{name}-{version}.dist-info"
        tag = "cp35-cp35m-any" if name == "older" else "py3-none-any"
        with zipfile.ZipFile(index / f"{name}-{version}-{tag}.whl", "w") as wheel:
            wheel.writestr(f"{MODULES.get(name, name)}/__init__.py", "")
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{info}/WHEEL",
                f"Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: {tag}\n",
            )
            wheel.writestr(f"{info}/RECORD", "")
    (tmp_path / "index.toml").write_text(
        f'no-index = true\nfind-links = ["{index}"]\npython-downloads = "never"\n'
    )
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "index.toml"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    return tmp_path / "cache" / "akdl" / "envs"


def forget() -> None:
    """Be like another program, which has not used an environment yet."""
    made_env._made.cache_clear()


def version_in(python: str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_environment_is_made_once_for_equal_requirements(
    cache: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = find_python("Op", ["tensorflow==2.21.*", "tiny"])
    assert (
        isinstance(first, str)
        and version_in(first, "tensorflow") == "2.21.0"
        and version_in(first, "grpcio") == "1.80.0"
    )
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.messages[0].startswith(
        "making a Python environment with tensorflow==2.21.*, tiny in "
    )
    assert (
        caplog.messages[1].startswith("made it in ") and "tensorflow 2.21.0" in caplog.messages[1]
    )
    caplog.clear()
    forget()
    assert find_python("Op", ["tiny", "tensorflow==2.21.*"]) == first and not caplog.messages
    other = find_python("Op", "tensorflow==2.15.*")
    assert isinstance(other, str) and other != first and version_in(other, "tensorflow") == "2.15.1"
    assert os.stat(cache).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            ["tensorflow", "tiny==9"],
            "^Op: pythonEnv: no Python environment with tensorflow, tiny==9 .* no version of tiny==9",
        ),
        (["tensorflow", "absent"], "uv: No solution found .* absent was not found"),
        (
            ["tensorflow", "older"],
            "no Python environment with Python ==3.5.*, tensorflow, older .*uv: No interpreter",
        ),
        (
            ["python==3.1.*", "tensorflow"],
            "no Python environment with Python ==3.1.*, tensorflow could be made. uv: No interpreter",
        ),
    ],
)
@pytest.mark.fault(
    "files", "Requirements that cannot be met are an error of a few lines before the job starts"
)
def test_requirements_that_cannot_be_met_are_refused_and_leave_nothing(
    cache: pathlib.Path, wanted: list[str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        find_python("Op", wanted)
    assert len(str(raised.value).splitlines()) <= 2 and not list(cache.glob("?" * 32)), (
        "nothing stays behind"
    )


@pytest.mark.fault(
    "network", "Without a package index, the error names the requirements and uv's reason"
)
def test_missing_package_index_is_an_error_without_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UV_CONFIG_FILE")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://me:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(
        ConfigurationError,
        match="(?s)with tensorflow, absent could be made. uv: .*refused.*UV_DEFAULT_INDEX",
    ) as raised:
        find_python("Op", ["tensorflow", "absent"])
    assert "hunter2" not in str(raised.value)


def test_interrupted_environment_is_made_again(cache: pathlib.Path) -> None:
    python = made_env.made_python(Wanted(("tensorflow",)))
    folder = pathlib.Path(python).parents[2]
    (folder / "complete").unlink()
    (folder / "env" / "bin" / "python").unlink()
    forget()
    assert (
        made_env.made_python(Wanted(("tensorflow",))) == python
        and version_in(python, "tensorflow") == "2.21.0"
    )


def test_cache_removes_an_environment_only_when_it_is_unused(
    cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs use two environments, and one does not do so any more."""
    monkeypatch.setattr(made_env, "_KEPT", 1)
    code = "import sys; from operators.prepare.made_env import main; main(['make', *sys.argv[1:]]); print(flush=True); input()"
    command = [sys.executable, "-c", code, "tensorflow==2.15.*"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        held = user.stdout.readline().strip()
        made_env.made_python(Wanted(("tensorflow",)))
        assert os.path.exists(held), "it is in use"
        user.communicate("\n")
    made_env.made_python(Wanted(("tensorflow", "tiny")))
    assert not os.path.exists(held)


def test_akdl_env_makes_lists_and_removes_environments(
    cache: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow\n")
    command = pathlib.Path(sys.executable).with_name("akdl")
    made = subprocess.run(
        [command, "env", "make", tmp_path / "requirements.txt"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert version_in(made.stdout.strip(), "tensorflow") == "2.21.0" and "made it in" in made.stderr
    assert main(["list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2 and shown[1].endswith("  tensorflow")
    name = shown[1].split()[0]
    with pytest.raises(SystemExit):
        main(["remove", "nothing"])
    assert "there is no environment 'nothing'" in capsys.readouterr().err
    assert main(["remove", name]) == 0 and capsys.readouterr().out == f"{name}  removed\n"
    assert not list(cache.glob("?" * 32))


def test_environment_may_lack_tensorflow(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["make", "tiny==1.*"]) == 0
    assert version_in(capsys.readouterr().out.strip(), "tiny") == "1.0"
    script = tmp_path / "train.py"
    script.write_text('# /// script\n# dependencies = ["tiny==1.*"]\n# ///\n')
    found = doctor.python_of(str(script))
    assert (
        found.state == doctor.NOTE and "predictFn" in found.remedy and "/akdl/envs/" in found.found
    )


def test_environment_for_other_hosts_is_packed_and_can_be_moved(tmp_path: pathlib.Path) -> None:
    needs_movable_python()
    archive = find_python("Op", ["tensorflow", "tiny"], elsewhere=True)
    assert isinstance(archive, PythonArchive)
    with tarfile.open(archive.path) as packed:
        packed.extractall(tmp_path / "there")
    there = tmp_path / "there" / "bin" / "python"
    assert version_in(str(there), "tiny") == "1.0"
    prefix = subprocess.run(
        [there, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True
    ).stdout.strip()
    assert prefix == str(tmp_path / "there")
    assert find_python("Op", ["tiny", "tensorflow"], elsewhere=True) == archive
