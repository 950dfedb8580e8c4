"""Too few slots are found before a job starts, with a real HTTP server in the place of Flink's
REST.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import resetEnv, useLocalEnv, useRemoteEnv
from operators.flink import slots
from operators.flink.slots import Need, check_scheduler, check_slots, free_slots, rest_of

GROUP = Need.of_group("TensorFlow2BatchOp", 3, 1)


class Cluster:
    """Answers as Flink's REST does, and counts how often each path was asked for."""

    def __init__(
        self, total: int, free: list[Any], jobs: Sequence[Any] = (), config: Sequence[Any] = ()
    ) -> None:
        self.free = list(free)  # answers to /overview one after the other; the last one stays
        self.asked = []
        self._answers = {
            "/jobs/overview": {
                "jobs": [
                    {"jid": f"id{n}", "name": name, "state": state}
                    for n, (name, state) in enumerate(jobs)
                ]
            },
            "/jobmanager/config": [{"key": key, "value": "x"} for key in ("rest.port", *config)],
        }
        self._total = total

    def answer(self, path: Any) -> Any:
        self.asked.append(path)
        if path == "/overview":
            free = self.free.pop(0) if len(self.free) > 1 else self.free[0]
            return {"taskmanagers": 2, "slots-total": self._total, "slots-available": free}
        return self._answers[path]


@contextlib.contextmanager
def serving(answer: Callable[..., Any]) -> Iterator[dict[Any, Any]]:
    """Serve JSON on a free port; yield the configuration of an environment for that cluster."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body = json.dumps(answer(self.path)).encode()
            except LookupError:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield {
                "execution.target": "remote",
                "rest.address": "127.0.0.1",
                "rest.port": str(server.server_port),
            }
        finally:
            server.shutdown()
            thread.join()


def test_enough_free_slots_need_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not for us
    cluster = Cluster(total=5, free=[4])
    with serving(cluster.answer) as config:
        check_slots(config, [Need.of_parallelism(2), GROUP])
    assert cluster.asked == ["/overview"]


def test_too_few_slots_are_refused_with_needs_and_remedies() -> None:
    with (
        serving(Cluster(total=3, free=[3]).answer) as config,
        pytest.raises(ConfigurationError) as raised,
    ):
        check_slots(config, [Need.of_parallelism(2), GROUP])
    assert str(raised.value) == (
        "TensorFlow2BatchOp needs 4 slots at once (3 workers and 1 parameter server), but the Flink cluster at "
        f"127.0.0.1:{config['rest.port']} has 3 in all (2 TaskManagers). Start more TaskManagers, raise "
        "taskmanager.numberOfTaskSlots, or lower numWorkers or numPSs."
    )


@pytest.mark.parametrize(
    ("free", "words"), [(0, "none is free"), (1, "1 is free"), (2, "2 are free")]
)
@pytest.mark.fault("jobs", "The jobs that occupy the slots are named")
def test_jobs_that_hold_the_slots_are_named(
    free: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "WAIT_S", 0.2)
    jobs = [
        ("insert-into_x", "RUNNING"),
        ("earlier", "FINISHED"),
        ("SELECT\n" + "x" * 1000, "RESTARTING"),
    ]
    with (
        serving(Cluster(5, [free], jobs).answer) as config,
        pytest.raises(ConfigurationError) as raised,
    ):
        check_slots(config, [Need.of_parallelism(5)])
    assert str(raised.value) == (
        "the job needs 5 slots at once (its parallelism is 5), but of the 5 of the Flink cluster at "
        f"127.0.0.1:{config['rest.port']} {words}; 'insert-into_x' (id0, RUNNING) and 'SELECT "
        + "x"
        * 53
        + "...' (id2, "
        "RESTARTING) have the others. Wait until they are free, cancel what has them, start more TaskManagers, or lower the parallelism."
    )


def test_with_high_availability_the_named_job_manager_answers() -> None:
    with (
        serving(Cluster(2, [2]).answer) as config,
        pytest.raises(ConfigurationError, match="has 2 in all"),
    ):
        check_slots({**config, "high-availability.type": "zookeeper"}, [GROUP])


@pytest.mark.parametrize("key", ["security.ssl.rest.enabled", "security.ssl.enabled"])
def test_endpoint_of_a_cluster_with_tls_is_https(key: str) -> None:
    config = {"execution.target": "remote", "rest.address": "flink.example", "rest.port": "8443"}
    secured, plain = rest_of({**config, key: "true"}), rest_of(config)
    assert (repr(secured), repr(plain)) == (
        "Rest('https://flink.example:8443')",
        "Rest('flink.example:8443')",
    )
    assert rest_of({"execution.target": "local"}) is None


def test_slots_of_a_job_that_has_just_ended_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "WAIT_S", 60)
    cluster = Cluster(4, [0, 1, 4])
    with serving(cluster.answer) as config:
        check_slots(config, [GROUP])
    assert cluster.asked.count("/overview") == 3


def test_slots_without_a_known_holder_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "WAIT_S", 0)
    with serving(Cluster(4, [1]).answer) as config:
        with pytest.raises(
            ConfigurationError,
            match="1 is free; a job that is just starting or ending has the others",
        ):
            check_slots(config, [GROUP])


@pytest.mark.parametrize("key", ["kubernetes.cluster-id", "$internal.yarn.log-config-file"])
def test_clusters_that_grow_are_not_checked(key: str) -> None:
    with serving(Cluster(0, [0], config=[key]).answer) as config:
        check_slots(config, [GROUP])


@pytest.mark.parametrize(
    "overview",
    [None, [], {"slots-total": "many"}, {"slots-total": 1}, {"errors": ["Unauthorized"]}],
)
def test_foreign_answer_of_the_endpoint_is_one_log_line(
    overview: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(lambda path: overview) as config,
        caplog.at_level(logging.INFO, "operators.flink.slots"),
    ):
        check_slots(config, [GROUP])
    (line,) = caplog.messages
    assert line.startswith(
        f"the slots of the Flink cluster at 127.0.0.1:{config['rest.port']} are not checked: "
    )


def test_http_errors_and_dead_ends_are_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with serving({}.__getitem__) as missing, caplog.at_level(logging.INFO, "operators.flink.slots"):
        check_slots(missing, [GROUP])
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with caplog.at_level(logging.INFO, "operators.flink.slots"):
        check_slots(
            {"execution.target": "remote", "rest.address": "127.0.0.1", "rest.port": str(port)},
            [GROUP],
        )
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"execution.target": "kubernetes-session"},
        {"execution.target": "yarn-session"},
        {"execution.target": "local"},
        {"execution.target": "local", "taskmanager.numberOfTaskSlots": "4"},
        {
            "execution.target": "local",
            "taskmanager.numberOfTaskSlots": "2",
            "minicluster.number-of-taskmanagers": "2",
        },
        {"execution.target": "local", "taskmanager.numberOfTaskSlots": "two"},
    ],
)
def test_enough_or_unknown_slots_lead_to_no_message(
    config: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "operators.flink.slots"):
        check_slots(config, [GROUP])
        check_slots(config, [])
    assert caplog.messages == []


def test_too_few_slots_of_a_local_environment_are_refused() -> None:
    config = {"execution.target": "local", "taskmanager.numberOfTaskSlots": "2"}
    with pytest.raises(ConfigurationError) as raised:
        check_slots(config, [Need.of_group("TensorFlow2BatchOp", 3, 0)])
    assert str(raised.value) == (
        "TensorFlow2BatchOp needs 3 slots at once (3 workers), but the local environment has 2: taskmanager.numberOfTaskSlots "
        "is set to 2. Leave it unset, raise it, or lower numWorkers."
    )


@pytest.mark.flink
@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_slots_are_checked_with_the_settings_of_the_environments(mode: str) -> None:
    cluster = Cluster(total=3, free=[3])
    try:
        with serving(cluster.answer) as config:
            remote = getattr(
                useRemoteEnv("127.0.0.1", int(config["rest.port"]), 2), mode
            ).get_config()
            assert {key: remote.get(key, "") for key in config} == config
            with pytest.raises(ConfigurationError, match="has 3 in all"):
                check_slots(remote, [GROUP])
        local = getattr(
            useLocalEnv(2, config={"taskmanager.numberOfTaskSlots": 3}), mode
        ).get_config()
        with pytest.raises(ConfigurationError, match="the local environment has 3"):
            check_slots(local, [GROUP])
        check_slots(getattr(useLocalEnv(2), mode).get_config(), [GROUP])
    finally:
        resetEnv()


@pytest.mark.parametrize(
    "config", [{"jobmanager.scheduler": "Adaptive"}, {"scheduler-mode": "REACTIVE"}]
)
def test_the_adaptive_scheduler_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(
        ConfigurationError,
        match="MyOp needs all of its tasks, .* Set jobmanager.scheduler to default",
    ):
        check_scheduler(config, "MyOp")


@pytest.mark.parametrize("own", ["", "Default", "Adaptive"])
@pytest.mark.parametrize(
    ("key", "value", "is_refused"),
    [
        ("jobmanager.scheduler", "Default", False),
        ("jobmanager.scheduler", "Adaptive", True),
        ("scheduler-mode", "reactive", True),
    ],
)
def test_scheduler_of_a_cluster_counts_and_not_that_of_the_job(
    key: str, value: str, is_refused: bool, own: str
) -> None:
    answer = [{"key": key, "value": value}, {"key": "rest.port", "value": "1"}]
    refused = (
        pytest.raises(
            ConfigurationError,
            match="MyOp needs all .* to default in the configuration of the Flink cluster at 127",
        )
        if is_refused
        else contextlib.nullcontext()
    )
    with serving(lambda path: answer) as config, refused:
        check_scheduler({**config, **({"jobmanager.scheduler": own} if own else {})}, "MyOp")


def test_scheduler_of_a_cluster_that_does_not_answer_is_not_checked() -> None:
    with serving(lambda path: {}["a LookupError"]) as config:
        check_scheduler({**config, "jobmanager.scheduler": "Default"}, "MyOp")
    check_scheduler({"execution.target": "local"}, "MyOp")


def test_free_slots_counts_those_of_clusters_that_do_not_grow() -> None:
    with serving(Cluster(4, [3]).answer) as config:
        assert free_slots(config) == 3
    with serving(Cluster(4, [3], config=["kubernetes.cluster-id"]).answer) as config:
        assert free_slots(config) is None
    assert free_slots({"execution.target": "local"}) is None
    slots = {"taskmanager.numberOfTaskSlots": "3", "minicluster.number-of-taskmanagers": "2"}
    assert free_slots({"execution.target": "local", **slots}) == 6
