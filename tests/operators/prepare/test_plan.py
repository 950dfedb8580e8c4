"""From parameters and columns to the settings of a group, without Flink."""

from __future__ import annotations

import os
import pathlib
import sys
from contextlib import nullcontext
from typing import Any

import pytest

from akdl.process import preflight
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import TensorFlow2BatchOp, TF2TableModelTrainBatchOp
from operators.prepare import main_script
from operators.prepare.plan import counts, plan

INPUT = Schema.parse("id BIGINT, score DOUBLE")


@pytest.mark.parametrize(
    ("workers", "servers", "parallelism", "expected"),
    [
        (None, None, 1, (1, 0)),
        (None, None, 2, (1, 1)),
        (None, None, 3, (2, 1)),
        (None, None, 4, (3, 1)),
        (None, None, 8, (6, 2)),
        (None, None, 103, (78, 25)),
        (1, None, 1, (1, 0)),
        (2, None, 3, (2, 1)),
        (3, None, 3, (3, 0)),
        (None, 0, 1, (1, 0)),
        (None, 1, 4, (3, 1)),
        (4, 0, 1, (4, 0)),
        (2, 3, 2, (2, 3)),
    ],
)
def test_counts_of_workers_and_servers_follow_from_the_parallelism(
    workers: int | None, servers: int | None, parallelism: int, expected: tuple[int, int]
) -> None:
    assert counts("Op", workers, servers, parallelism) == expected


@pytest.mark.parametrize(
    ("workers", "servers", "parallelism", "message"),
    [
        (2, None, 1, "Op: numWorkers=2 leaves no room in the parallelism of 1 for numPSs"),
        (None, 1, 1, "Op: numPSs=1 leaves no room in the parallelism of 1 for numWorkers"),
        (None, 4, 4, "Op: numPSs=4 leaves no room in the parallelism of 4"),
        (5, None, 4, "Op: numWorkers=5 leaves no room in the parallelism of 4"),
    ],
)
def test_counts_that_leave_no_room_in_the_parallelism_are_refused(
    workers: int | None, servers: int | None, parallelism: int, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        counts("Op", workers, servers, parallelism)


def _plan(op: TensorFlow2BatchOp, **changes: object) -> object:
    arguments = {
        "parallelism": 3,
        "env_variable": "AKDL_TEST_ENV",
        "print_process_info": False,
        **changes,
    }
    return plan("Op", "batch", op._values_of_all(), INPUT, [], **arguments)  # type: ignore[arg-type]


def test_plan_of_a_script_has_the_settings_of_its_operator(folder: pathlib.Path) -> None:
    op = TensorFlow2BatchOp(
        userFiles=["words.txt"], mainScriptFile="main.py", userParams='{"a": 1}', outputSchemaStr="x INT",
        exactDoubles=True, intraOpParallelism=2, numWorkers=2, numPSs=0, envVars=["A", "B=secret"],
    )  # fmt: skip
    settings = _plan(op, print_process_info=True)
    assert (settings.operator, settings.kind) == ("Op", "batch")
    assert (settings.num_workers, settings.num_ps) == (2, 0)
    assert settings.input_schema == INPUT
    assert settings.output_schema == Schema.parse("x INT")
    assert settings.main_script == "main.py"
    assert [file.path for file in settings.user_files] == ["words.txt", "main.py"]
    assert settings.user_params == '{"a": 1}'
    assert settings.python is None
    assert settings.intra_op_parallelism == 2
    assert settings.exact_doubles and settings.print_process_info
    assert settings.env_vars == ("A", "B=secret") and "secret" not in repr(settings)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_is_a_script(workers: int) -> None:
    def doubles(task_config: Any) -> None:
        """Double the prices."""

    settings = _plan(
        TensorFlow2BatchOp(
            mainScriptFile=doubles, outputSchemaStr="id BIGINT", numWorkers=workers, numPSs=0
        )
    )
    assert settings.main_script == "doubles_function.py"


def test_parameter_servers_follow_from_the_parallelism(folder: pathlib.Path) -> None:
    op = TensorFlow2BatchOp(userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT")
    settings = _plan(op, parallelism=8)
    assert (settings.num_workers, settings.num_ps, list(settings.fed)) == (6, 2, [0, 1, 2, 3, 4, 5])


def test_plan_of_a_group_has_its_settings_and_hides_secrets(folder: pathlib.Path) -> None:
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", numWorkers=3, numPSs=1, chiefCoordinates=True,
        equalSteps="pad", weightCol="w", hostNetwork="10.1.2.3/16", gpusPerWorker=2, groupTls=True, checkpointDir="checkpoints", startTimeout=10, stallTimeout=0,
    )  # fmt: skip
    settings = _plan(op)
    assert (list(settings.fed), list(settings.deciding), settings.size) == ([1, 2], [0], 4)
    assert (settings.equal_steps, settings.weight_column, settings.script_schema.names[-1]) == (
        "pad",
        "w",
        "w",
    )
    assert (settings.host_network, settings.gpus_per_worker) == ("10.1.0.0/16", 2)
    assert settings.checkpoint_dir == os.path.abspath("checkpoints"), (
        "hosts have other working directories"
    )
    assert (settings.start_timeout_s, settings.stall_timeout_s) == (10.0, 0.0)
    assert settings.certificate is not None
    assert settings.token not in repr(settings) and "PRIVATE" not in repr(settings)


def test_failed_rows_need_a_place(folder: pathlib.Path) -> None:
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", keepFailedRows=True
    )
    with pytest.raises(
        ConfigurationError, match="Op: keepFailedRows keeps rows in logDir, which is not set"
    ):
        _plan(op)
    assert _plan(op.setLogDir("runs")).keep_failed_rows


@pytest.mark.parametrize(("workers", "servers"), [(1, 1), (2, 0)])
def test_coordinating_chief_needs_another_worker(
    folder: pathlib.Path, workers: int, servers: int
) -> None:
    op = TensorFlow2BatchOp(
        userFiles=[],
        mainScriptFile="main.py",
        outputSchemaStr="x INT",
        numWorkers=workers,
        numPSs=servers,
        chiefCoordinates=True,
    )
    with pytest.raises(
        ConfigurationError,
        match=f"chiefCoordinates needs .*; there would be {workers} and {servers}",
    ):
        _plan(op)


@pytest.mark.parametrize(
    ("keras", "change", "is_refused"),
    [
        ("3.15.1", {}, True),
        ("3.15.1", {"numWorkers": 1}, False),
        ("3.15.1", {"envVars": ["TF_USE_LEGACY_KERAS=1"]}, False),
        ("3.15.1", {"envVars": ["TF_USE_LEGACY_KERAS"]}, True),
        ("2.15.0", {}, False),
        (None, {}, False),
    ],
)
def test_a_group_that_keras_cannot_train_is_refused_before_flink_starts(
    keras: str | None,
    change: dict[str, Any],
    is_refused: bool,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_script, "installed", lambda package: keras)
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    (folder / "main.py").write_text(
        "from akdl.engine.strategy import choose_strategy\nfrom akdl.engine.train import train_keras_model\ndef main(config): ..."
    )
    given = {
        "mainScriptFile": "main.py",
        "outputSchemaStr": "x INT",
        "numWorkers": 2,
        "numPSs": 0,
        **change,
    }
    with (
        pytest.raises(ConfigurationError, match="Op: Keras 3 does not train with")
        if is_refused
        else nullcontext()
    ):
        _plan(TensorFlow2BatchOp(**given))


def test_functions_of_an_estimator_are_refused_before_flink_starts_where_tensorflow_has_none(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = preflight.versions()
    monkeypatch.setattr(preflight, "versions", lambda: {**found, "tensorflow": "2.16.2"})
    (folder / "main.py").write_text("def model_fn(): ...\ndef train_input_fn(): ...")
    op = TensorFlow2BatchOp(
        mainScriptFile="main.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0
    )
    with pytest.raises(
        ConfigurationError, match=r"^Op: main.py needs tf.estimator, which TensorFlow 2.16.2 of"
    ):
        _plan(op)
    assert _plan(op, elsewhere=True), "hosts may have another TensorFlow"


def test_read_once_is_refused_with_settings_that_need_all_rows(folder: pathlib.Path) -> None:
    given = {
        "userFiles": [],
        "mainScriptFile": "main.py",
        "outputSchemaStr": "x INT",
        "readOnce": True,
        "numPSs": 1,
    }
    assert _plan(TensorFlow2BatchOp(**given)).read_once
    with pytest.raises(ConfigurationError, match="readOnce cannot be used with chiefCoordinates"):
        _plan(TensorFlow2BatchOp(**given, numWorkers=2, chiefCoordinates=True))
    values = TensorFlow2BatchOp(**given)._values_of_all()
    with pytest.raises(ConfigurationError, match="readOnce cannot be used with extra inputs"):
        plan("Op", "batch", values, INPUT, [INPUT], 3, "AKDL_TEST_ENV", False)


def test_a_weight_column_of_the_table_has_to_be_a_float(folder: pathlib.Path) -> None:
    name = INPUT.names[0]
    op = TensorFlow2BatchOp(
        userFiles=[],
        mainScriptFile="main.py",
        outputSchemaStr="x INT",
        numPSs=0,
        equalSteps="pad",
        weightCol=name,
    )
    with pytest.raises(
        ConfigurationError,
        match=f"weightCol '{name}' is a column of the table and would have to be a FLOAT",
    ):
        _plan(op)
    assert _plan(op.setEqualSteps("repeat")).weight_column is None, "it matters for pad only"


@pytest.mark.parametrize("python_env", ["", "/nowhere"])
def test_the_metadata_of_a_script_stands_for_python_env(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, python_env: str
) -> None:
    monkeypatch.setenv("AKDL_TEST_ENV", "/default")
    script = folder / "stated.py"
    script.write_text("# /// script\n# dependencies = ['a=1']\n# ///\ndef main(config): ...\n")
    expected = (
        "pythonEnv '/nowhere'"
        if python_env
        else "stated.py: # /// script: expected a requirement .*, got 'a=1'"
    )
    with pytest.raises(ConfigurationError, match=expected):
        _plan(
            TensorFlow2BatchOp(
                userFiles=[],
                mainScriptFile=str(script),
                outputSchemaStr="x INT",
                numWorkers=1,
                numPSs=0,
                pythonEnv=python_env,
            )
        )


def test_the_environment_variable_is_the_default_of_python_env(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0
    )
    monkeypatch.setenv("AKDL_TEST_ENV", sys.executable)
    assert _plan(op).python == sys.executable
    with pytest.raises(ConfigurationError, match="'/nowhere'"):
        _plan(op.setPythonEnv("/nowhere"))
    assert _plan(op, elsewhere=True).python == "/nowhere", "it may be on the hosts"


def _elastic(**changes: Any) -> Any:
    given = {
        "mainScriptFile": "main.py",
        "numWorkers": (2, 4),
        "numPSs": 0,
        "checkpointDir": "checkpoints",
        **changes,
    }
    op = TF2TableModelTrainBatchOp(**given)
    return plan("Op", "train", op._values_of_all(), INPUT, [], 1, "AKDL_TEST_ENV", False)


def test_plan_of_an_elastic_group_has_least_and_most_workers(folder: pathlib.Path) -> None:
    settings = _elastic()
    assert (settings.least_workers, settings.num_workers, settings.num_ps) == (2, 4, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checkpointDir": None}, r"Op: numWorkers=\(2, 4\) needs checkpointDir"),
        (
            {"numWorkers": (1, 128), "numPSs": 1},
            r"\(1, 128\): such a group has at most 128 processes, not 129",
        ),
        ({"numWorkers": (1, 3), "numPSs": 1, "chiefCoordinates": True}, "there would be 1 and 1"),
    ],
)
def test_elastic_groups_without_checkpoints_or_of_wrong_size_are_refused(
    folder: pathlib.Path, changes: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _elastic(**changes)


@pytest.mark.parametrize(
    "source",
    ["from akdl.engine.train import train_estimator", "import tensorflow as generate_run_config"],
)
def test_an_estimator_in_step_is_not_elastic(folder: pathlib.Path, source: str) -> None:
    (folder / "main.py").write_text(f"{source}\ndef main(config): pass\n")
    with pytest.raises(
        ConfigurationError,
        match="an Estimator whose workers train in step cannot change their number",
    ):
        _elastic()
    assert _elastic(numPSs=1).num_ps == 1
