"""Whatever goes wrong is one readable exception at the caller, and nothing stays behind."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError, JobError, TaskError
from operators import (
    AlinkGlobalConfiguration,
    BatchOperator,
    TensorFlow2BatchOp,
    getMLEnv,
    useLocalEnv,
)
from operators.errors import summary
from operators.errors.summary import LINES
from tests.e2e.jobs import SCRIPTS, script_op, sequence
from tests.support.leftovers import DEADLINE_S, task_processes, wait_until

pytestmark = pytest.mark.flink


@pytest.fixture(autouse=True, scope="module")
def _environment() -> None:
    useLocalEnv(1)


def run(op: TensorFlow2BatchOp) -> Any:
    return sequence(getMLEnv().btenv, 10).link(op).collectToDataframe()


def failing(way: str, schema: str = "x BIGINT", **params: Any) -> TensorFlow2BatchOp:
    return script_op("fail.py", schema, userParams={"way": way}, **params)


def test_error_of_main_shows_message_line_and_last_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_sources", {})  # other tests have other scripts of this name
    with pytest.raises(TaskError) as caught:
        run(failing("raise"))
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "TensorFlow2BatchOp, chief 0 (fail.py): the script failed: ValueError: this script does not feel well"
    )
    assert lines[1].startswith(f'  File "{SCRIPTS / "fail.py"}", line ') and lines[1].endswith(
        ", in main"
    ), "the frames begin in the script"
    assert lines[-1] == '    raise ValueError("this script does not feel well")'
    details = caught.value.details.splitlines()
    assert details[1] == "Traceback (most recent call last):" and "fail.py" in details[2]
    assert "about to fail: raise" in details, "the last lines of the process are there"
    assert len(details) < 20 and not any("org.apache" in line for line in details)


@pytest.mark.parametrize(
    "take",
    [lambda table: table.execute().print(), lambda table: table.to_pandas()],
    ids=["print", "pandas"],
)
@pytest.mark.fault(
    "scripts",
    "A script that fails in a query of plain PyFlink is an error of a few lines, also where it is caught",
)
def test_a_query_of_plain_pyflink_raises_a_short_error(take: Callable[[Any], object]) -> None:
    with pytest.raises(
        TaskError, match="the script failed: ValueError: this script does not feel well"
    ) as caught:
        take(sequence(getMLEnv().btenv, 10).link(failing("raise")).getOutputTable())
    assert len(str(caught.value).splitlines()) <= LINES and "org.apache" not in str(caught.value)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (
            "exit",
            r"chief 0 \(fail.py\): the script failed: SystemExit: the script called sys.exit\(3\)",
        ),
        pytest.param(
            "kill",
            r"chief 0 \(fail.py\): the process killed by signal 9 \(SIGKILL: .*memory.*\) before the script had ended",
            marks=pytest.mark.long,
        ),
        pytest.param("raise", r"worker 0 \(fail.py\)|chief 0 \(fail.py\)", marks=pytest.mark.long),
    ],
)
@pytest.mark.fault("scripts", "A script that exits or is killed is an error that says how")
def test_script_that_exits_or_is_killed_is_an_error_that_says_how(way: str, expected: str) -> None:
    with pytest.raises(TaskError, match=expected):
        run(failing(way, workers=2) if way == "raise" else failing(way))


@pytest.mark.fault("scripts")
def test_a_row_that_does_not_fit_the_schema_fails_in_the_script() -> None:
    """All that may be wrong with it is in tests/akdl/rows."""
    expected = (
        "ValueError: output_writer.write: row 0: unknown column 'nonsense'; outputSchemaStr has 'x'"
    )
    with pytest.raises(TaskError, match=expected):
        run(failing("column"))


@pytest.mark.fault("scripts", "A script without main is an error that says what to define")
def test_script_without_main_is_an_error_that_says_what_to_define() -> None:
    with pytest.raises(
        ConfigurationError,
        match="no_main.py defines no function `main`: the main script needs `def main",
    ):
        run(script_op("no_main.py", "x INT"))


@pytest.mark.fault(
    "hosts",
    "A Python environment that lacks packages is an error with the command that installs them",
)
def test_python_environment_that_cannot_start_a_script_is_an_error(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho this is no Python; exit 1\n")
    python.chmod(0o755)
    with pytest.raises(
        TaskError,
        match=r"(?s)exited with status 1 before it could start the script.*this is no Python",
    ):
        run(script_op("echo_ids.py", "worker INT, id BIGINT", pythonEnv=str(python)))


@pytest.mark.long
def test_plain_pyflink_gets_the_message_of_the_script() -> None:
    table = sequence(getMLEnv().btenv, 10).link(failing("raise")).getOutputTable()
    with pytest.raises(
        Exception, match="the script failed: ValueError: this script does not feel well"
    ):
        with table.execute().collect() as rows:
            list(rows)


@pytest.mark.fault("jobs")
def test_a_cancelled_job_leaves_nothing_behind() -> None:
    """Plain PyFlink: nobody stops the group but the group itself, which asks Flink whether it is
    still wanted.
    """
    result = sequence(getMLEnv().btenv, 10).link(failing("hang")).getOutputTable().execute()
    wait_until(lambda: len(task_processes()) == 1, "the script runs", 4 * DEADLINE_S)
    result.get_job_client().cancel().result()
    wait_until(lambda: not task_processes(), "the process is gone")


@pytest.mark.fault("jobs")
def test_a_failing_worker_stops_the_other_one(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "half.py"
    script.write_text(
        "import time\n"
        "def main(config):\n"
        "    if config.task_type == 'worker':\n"
        "        raise ValueError('half of it')\n"
        "    time.sleep(600)\n"
    )
    op = script_op("fail.py", "x INT", workers=2)
    op.setUserFiles([str(script)]).setMainScriptFile(str(script))
    with pytest.raises(TaskError, match="worker 0 .*half of it"):
        run(op)
    assert not task_processes(), "print, collect and execute return when nothing is left"


def test_output_of_scripts_is_shown_with_role_and_index(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "talk.py"
    script.write_text("def main(config):\n    print('hello from the script')\n")
    op = (
        script_op("fail.py", "x INT", workers=2)
        .setUserFiles([str(script)])
        .setMainScriptFile(str(script))
    )
    try:
        AlinkGlobalConfiguration.setPrintProcessInfo(True)
        run(op)
    finally:
        AlinkGlobalConfiguration.setPrintProcessInfo(False)
    shown = capsys.readouterr().out.splitlines()
    assert "[TensorFlow2BatchOp, chief 0] hello from the script" in shown
    assert "[TensorFlow2BatchOp, worker 0] hello from the script" in shown


def test_script_finds_typed_user_params_and_its_files(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "words.txt").write_text("some words")
    script = tmp_path / "look.py"
    script.write_text(
        "import os, sys, tempfile\n"
        "def main(config):\n"
        "    assert tempfile.gettempdir().startswith(config.work_dir)\n"
        "    assert config.user_params == {'n': 16, 'deep': {'list': [1, 'a', None]}, 'text': '16'}, config.user_params\n"
        "    assert int(config.user_params['text']) == 16\n"
        "    assert open(os.path.join(config.work_dir, 'words.txt')).read() == 'some words'\n"
        "    assert sys.modules['look'].main is main\n"
        "    assert not [name for name in os.environ if name.startswith('AKDL')]\n"
        "    assert 'SECRET_OF_THE_DRIVER' not in os.environ\n"
        "    assert config.num_workers == 1 and config.cluster.keys() == {'chief'}\n"
    )
    files = [str(script), str(tmp_path / "words.txt")]
    op = script_op("fail.py", "x INT").setUserFiles(files).setMainScriptFile(str(script))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_OF_THE_DRIVER", "1")
        assert (
            len(run(op.setUserParams({"n": 16, "deep": {"list": [1, "a", None]}, "text": "16"})))
            == 0
        )


@pytest.mark.fault("jobs", "Two jobs of one program at once succeed")
def test_two_jobs_of_one_program_run_at_once() -> None:
    table_env = getMLEnv().btenv
    tables = [
        sequence(table_env, rows)
        .link(script_op("echo_ids.py", "worker INT, id BIGINT", workers=2))
        .getOutputTable()
        for rows in (101, 102)
    ]
    results = [table.execute() for table in tables]  # both run from here on
    for result, expected in zip(results, (101, 102)):
        with result.collect() as rows:
            assert sorted(row[1] for row in rows) == list(range(expected))


def test_too_little_network_memory_is_flinks_error_with_its_settings() -> None:
    useLocalEnv(
        8, config={"taskmanager.memory.network.min": "64k", "taskmanager.memory.network.max": "64k"}
    )
    grouped = getMLEnv().btenv.sql_query(
        "SELECT a, COUNT(*) FROM (VALUES (1), (2)) AS t(a) GROUP BY a"
    )
    with pytest.raises(
        JobError,
        match=r"(?s)Insufficient number of network buffers.*taskmanager\.memory\.network\.max",
    ):
        BatchOperator.fromTable(grouped).print()
