"""The environments: what the user chose, what we add, and what is refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    AlinkGlobalConfiguration,
    MLEnv,
    getMLEnv,
    resetEnv,
    useCustomEnv,
    useLocalEnv,
    useRemoteEnv,
)
from operators.base.job import session_zone
from operators.flink.collect import arrow_of
from operators.flink.env import prepare_for_batch, shows_process_output
from operators.flink.java import start_java


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    AlinkGlobalConfiguration.setPrintProcessInfo(False)
    resetEnv()


def test_choosing_an_environment_makes_none_yet() -> None:
    made = []
    env = MLEnv(lambda: made.append("batch") or (1, 2), lambda: made.append("stream") or (3, 4))
    assert made == []
    assert (env.btenv, env.benv) == (2, 1) and made == ["batch"]
    benv, btenv, senv, stenv = env
    assert (benv, btenv, senv, stenv) == (1, 2, 3, 4) and made == ["batch", "stream"]


def test_the_chosen_environment_is_the_current_one() -> None:
    env = useLocalEnv(2)
    assert getMLEnv() is env
    assert useLocalEnv(2) is not env
    resetEnv()
    assert getMLEnv() is not env


@pytest.mark.parametrize("parallelism", [0, -1, True, "2", 1.0])
def test_wrong_parallelism_is_refused(parallelism: bool | str | float) -> None:
    for use in (useLocalEnv, lambda p: useRemoteEnv("localhost", 8081, p)):
        with pytest.raises(
            ConfigurationError, match="parallelism: expected a whole number of at least 1, got"
        ):
            use(parallelism)


@pytest.mark.parametrize(
    ("port", "host"), [("x", "h"), (0, "h"), (70000, "h"), (8081, ""), (8081, None)]
)
def test_wrong_address_of_a_cluster_is_refused(port: str | int, host: str | None) -> None:
    with pytest.raises(ConfigurationError, match="useRemoteEnv: "):
        useRemoteEnv(host, port, 1)


@pytest.mark.fault("jobs", "An address without a cluster is an error with host, port and reason")
def test_address_without_a_cluster_is_an_error() -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(
        ConfigurationError,
        match=f"nothing answers at localhost:{port}, where Flink's REST should be",
    ):
        useRemoteEnv("localhost", port, 1).btenv  # noqa: B018


def test_submitted_program_cannot_choose_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYFLINK_GATEWAY_PORT", "1")
    with pytest.raises(
        ConfigurationError,
        match="this program was submitted to Flink, so its jobs cannot go to h:8081: take getMLEnv",
    ):
        useRemoteEnv("h", 8081, 1)


def test_config_entries_are_plain_values() -> None:
    with pytest.raises(ConfigurationError) as raised:
        useLocalEnv(1, config={"some.option": ["a"]})
    assert (
        str(raised.value)
        == "config entry 'some.option': expected a bool, int, float or str, got ['a'] of type list"
    )
    with pytest.raises(
        ConfigurationError, match="config entry 'debug_mode': expected True or False, got 'yes'"
    ):
        useLocalEnv(1, config={"debug_mode": "yes"})


def test_process_output_is_shown_in_debug_mode_or_on_demand() -> None:
    assert not shows_process_output()
    useLocalEnv(1, config={"debug_mode": True})
    assert shows_process_output()
    useLocalEnv(1)
    assert not shows_process_output()
    AlinkGlobalConfiguration.setPrintProcessInfo(True)
    assert shows_process_output() and AlinkGlobalConfiguration.isPrintProcessInfo()
    with pytest.raises(ConfigurationError, match="expected True or False, got 1"):
        AlinkGlobalConfiguration.setPrintProcessInfo(1)


@pytest.mark.flink
def test_local_environment_has_settings_for_batch_and_stream() -> None:
    path = {"execution.state-recovery.path": "file:///savepoint"}
    benv, btenv, senv, stenv = useLocalEnv(
        3, config={"python.fn-execution.bundle.size": 7, "pipeline.object-reuse": False, **path}
    )
    batch, stream = btenv.get_config(), stenv.get_config()
    for env, config in ((benv, batch), (senv, stream)):
        assert env.get_parallelism() == 3
        assert env.get_max_parallelism() == 128
        assert config.get("python.fn-execution.bundle.size", "") == "7"  # the user's choice wins
        assert config.get("python.fn-execution.arrow.batch.size", "") == "8000"
        assert config.get("python.fn-execution.bundle.time", "") == "200"
        assert config.get("pipeline.object-reuse", "") == "false"
    assert batch.get("execution.runtime-mode", "") == "BATCH"
    assert (batch.get(*path, ""), stream.get(*path, "")) == ("", *path.values()), (
        "only streams continue from a savepoint"
    )
    assert batch.get("jobmanager.scheduler", "") == "Default"
    assert batch.get("execution.batch-shuffle-mode", "") == "ALL_EXCHANGES_PIPELINED"
    assert stream.get("execution.runtime-mode", "STREAMING") == "STREAMING"
    assert stream.get("execution.batch-shuffle-mode", "unset") == "unset"


def test_default_environment_has_a_subtask_per_core() -> None:
    resetEnv()
    assert getMLEnv().benv.get_parallelism() == os.cpu_count()


def _custom(**settings: str) -> tuple[object, object]:
    start_java()
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import EnvironmentSettings, StreamTableEnvironment

    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key.replace("__", "-").replace("_", "."), value)
    stream_env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return stream_env, StreamTableEnvironment.create(
        stream_env, EnvironmentSettings.in_batch_mode()
    )


@pytest.mark.flink
@pytest.mark.fault("data", "Instants come back in the time zone of the environment's configuration")
def test_time_zone_of_the_configuration_is_used() -> None:
    zone = {"table.local-time-zone": "America/New_York"}
    _, batch, _, stream = useLocalEnv(1, config=zone)
    assert {each.get_config().get_local_timezone() for each in (batch, stream)} == {
        "America/New_York"
    }
    own = _custom(**zone)[1]
    assert own.get_config().get_local_timezone() != "America/New_York", (
        "Flink looks at the configuration: know_zone can go"
    )
    table = own.sql_query("SELECT TO_TIMESTAMP_LTZ(0, 0) AS t")
    assert str(arrow_of(table, []).schema.field("t").type) == "timestamp[ms, tz=America/New_York]"
    assert str(session_zone(None, _custom(**zone)[1])) == "America/New_York"
    own.get_config().set_local_timezone("Asia/Tokyo")
    assert str(session_zone(None, own)) == "Asia/Tokyo"


@pytest.mark.flink
def test_a_custom_environment_serves_batch_and_stream() -> None:
    stream_env, table_env = _custom()
    assert list(useCustomEnv(stream_env, table_env)) == [
        stream_env,
        table_env,
        stream_env,
        table_env,
    ]


@pytest.mark.flink
def test_custom_environment_gets_the_scheduler_for_co_location() -> None:
    _, table_env = _custom()
    prepare_for_batch(table_env)
    assert table_env.get_config().get("jobmanager.scheduler", "") == "Default"
    prepare_for_batch(table_env)  # a second operator


@pytest.mark.flink
def test_a_custom_environment_with_other_settings_is_refused() -> None:
    _, table_env = _custom(execution_batch__shuffle__mode="ALL_EXCHANGES_BLOCKING")
    with pytest.raises(
        ConfigurationError, match="execution.batch-shuffle-mode is ALL_EXCHANGES_BLOCKING, but"
    ):
        prepare_for_batch(table_env)


@pytest.mark.flink
def test_many_subtasks_have_network_buffers_enough() -> None:
    btenv = useLocalEnv(64).btenv  # too many for Flink's default
    rows = btenv.sql_query(
        "SELECT b, SUM(n) AS n FROM (SELECT a, b, COUNT(*) AS n FROM (VALUES (1, 2), (3, 4), (1, 2)) AS t(a, b) GROUP BY a, b) "
        "GROUP BY b"
    )
    with rows.execute().collect() as found:
        assert sorted(tuple(row) for row in found) == [(2, 2), (4, 1)]
