"""Names of jobs, and the environments below operators."""

from __future__ import annotations

import pytest

from bridge.exceptions import SchemaError
from operators import MLEnv
from operators.base.job import job_named, schema_of, session_zone

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
