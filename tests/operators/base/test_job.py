"""Names of jobs, and the environments below operators."""

from __future__ import annotations

import pathlib

import pytest

from bridge.exceptions import SchemaError
from bridge.host.process_folder import ProcessFolder
from operators import MLEnv
from operators.base.job import JobTable, job_named, running, schema_of, session_zone

pytestmark = pytest.mark.flink


def test_a_job_has_its_name_only_inside_the_block(env: MLEnv) -> None:
    config = env.btenv.get_config().get_configuration()
    with job_named(env.btenv, "train"):
        assert config.get_string("pipeline.name", "") == "train"
        with job_named(env.btenv, "other"):
            assert config.get_string("pipeline.name", "") == "train"
        with job_named(env.btenv, "first", first=True):
            assert config.get_string("pipeline.name", "") == "first"
        assert config.get_string("pipeline.name", "") == "train"
    assert config.get_string("pipeline.name", "") == ""


def test_session_zone_is_the_given_one_or_a_default(env: MLEnv) -> None:
    assert str(session_zone("Asia/Shanghai", env.btenv)) == "Asia/Shanghai"
    assert session_zone(None, env.btenv) is not None


def test_an_error_about_a_column_names_the_operator(env: MLEnv) -> None:
    with pytest.raises(SchemaError, match="Op: the column 'x' has the type"):
        schema_of("Op", env.btenv.sql_query("SELECT INTERVAL '1' DAY AS x"))


def test_a_model_process_runs_until_the_last_of_the_jobs_that_run_at_once_has_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    op = JobTable()
    op._models = frozenset({"group"})
    with running(op):
        pipe = ProcessFolder("group").join(lambda reading: None)
        with running(op):
            pass
        assert not pipe.closed
    assert pipe.closed
