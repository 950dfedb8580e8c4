"""The variables that a TensorFlow process gets."""

from __future__ import annotations

import os

import pytest

from bridge.host.interpreter import variables
from bridge.host.work_folder import WorkFolder


@pytest.fixture
def folder() -> WorkFolder:
    made = WorkFolder(())
    made.remove()  # only its paths count here
    return made


@pytest.mark.fault("security", "Secrets among the variables of a host do not reach the processes")
def test_only_allowed_variables_are_passed_on(folder: WorkFolder) -> None:
    own = {
        "HOME": "/home/me", "PATH": "/usr/bin", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "0", "https_proxy": "http://proxy",
        "TF_CONFIG": "of another cluster", "TF_CPP_MIN_LOG_LEVEL": "0", "TMPDIR": "/tmp",
        "AWS_SECRET_ACCESS_KEY": "secret", "PYTHONPATH": "/mine", "LD_PRELOAD": "x",
    }  # fmt: skip
    given = variables(3, own, "/env/bin/python", folder)
    assert {name: given[name] for name in own if name in given} == {
        "HOME": "/home/me", "PATH": "/env/bin:/usr/bin", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "0",
        "https_proxy": "http://proxy", "TF_CPP_MIN_LOG_LEVEL": "0", "TMPDIR": folder.temporary, "PYTHONPATH": folder.library,
    }  # fmt: skip
    assert given["TF_NUM_INTRAOP_THREADS"] == "3" and given["GRPC_ENABLE_FORK_SUPPORT"] == "0"


def test_variables_named_by_the_user_are_passed_on(folder: WorkFolder) -> None:
    own = {"AWS_PROFILE": "mine", "OTHER": "secret", "HOME": "/home/me"}
    given = variables(
        None,
        own,
        "/env/bin/python",
        folder,
        ["AWS_PROFILE", "NOT_SET", "A=1=2", "HOME=/elsewhere", "PYTHONFAULTHANDLER="],
    )
    assert (given["AWS_PROFILE"], given["A"], given["HOME"]) == ("mine", "1=2", "/elsewhere")
    assert (given["PYTHONFAULTHANDLER"], given["PYTHONUNBUFFERED"]) == ("", "1")
    assert not {"OTHER", "NOT_SET"} & set(given)


def test_number_of_threads_is_left_to_tensorflow_by_default(folder: WorkFolder) -> None:
    given = variables(None, {"HOME": "/home/me"}, "/env/bin/python", folder)
    assert "TF_NUM_INTRAOP_THREADS" not in given
    assert given["PATH"] == f"/env/bin{os.pathsep}{os.defpath}", "also of a worker that has no PATH"


def test_memory_is_kept_for_the_next_rows_unless_the_user_says_otherwise(
    folder: WorkFolder,
) -> None:
    given = variables(None, {"MALLOC_TRIM_THRESHOLD_": "1"}, "/env/bin/python", folder)
    assert (
        given["MALLOC_TRIM_THRESHOLD_"] == "134217728"
        and given["MALLOC_MMAP_THRESHOLD_"] == "33554432"
    )
    given = variables(None, {}, "/env/bin/python", folder, ["MALLOC_TRIM_THRESHOLD_=1"])
    assert given["MALLOC_TRIM_THRESHOLD_"] == "1"
