"""Environments of jobs: the embedded mini cluster, a Flink cluster, or the user's own.

A program that was submitted to Flink runs its jobs where it runs itself. `_current` holds the
environments in use, which are made on first use and not by `use...Env`, so that a program may
choose again.
"""

from __future__ import annotations

import functools
import glob
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from akdl.masking import masked_value
from bridge.exceptions import ConfigurationError
from bridge.host.shipped import ship_own_packages
from bridge.settings import MAX_PARALLELISM
from bridge.table_env import SAVEPOINT_PATHS, is_streaming, planning
from bridge.workarounds.beam_workers import fix_workers
from bridge.workarounds.java_text import flink_classes, running_jvm
from bridge.workarounds.local_python import python_of_local_jobs
from bridge.workarounds.local_servers import close_servers, listen_in_private, share_rpc_system
from bridge.workarounds.pyflink_defects import give_savepoints_a_format, know_planner, know_zone
from operators.alink.settings import AlinkGlobalConfiguration, note_flink_home, port_of
from operators.flink.jars import jar_urls, plugin_manager
from operators.flink.java import start_java
from operators.flink.slots import rest_of

if TYPE_CHECKING:
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

    Environments = tuple[StreamExecutionEnvironment, StreamTableEnvironment]

logger = logging.getLogger(__name__)

_CONNECT_S = 10.0

_BUNDLE_MS = "python.fn-execution.bundle.time"
_CHAINING = "pipeline.operator-chaining.enabled"

# Settings that jobs of this package need. A user's own configuration wins over them.
_DEFAULTS = {
    # This applies to vectorized functions of the user, and to results in pandas.
    "python.fn-execution.arrow.batch.size": "8000",
    # Until a bundle ends, rows that wait for a slow Python worker take memory outside the JVM's
    # heap, without a bound.
    _BUNDLE_MS: "200",
    # Otherwise Flink copies each row between the steps of a task, which took a third of its time.
    "pipeline.object-reuse": "true",
    # Rows of a task that wait for a model of ML_PREDICT are predicted together. Flink's 10 make
    # batches that are too small.
    "table.exec.async-ml-predict.max-concurrent-operations": "1000",
}
# Without these, co-located subtasks land on different hosts in BATCH mode, or the job cannot be
# scheduled at all.
_BATCH = {
    "jobmanager.scheduler": "Default",
    "execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED",
}
# This is an entry of our own among Flink's entries. It names jars that this program loads before it
# makes an environment.
_PLUGINS = "akdl.plugins"
# With these entries Flink's client gives up on a cluster that has died after half a minute instead
# of two.
_REMOTE = {"rest.retry.max-attempts": "5", "rest.retry.delay": "2000"}


class MLEnv:
    """Environments of jobs, each made on first use.

    `benv, btenv, senv, stenv = getMLEnv()` works too.
    """

    def __init__(
        self,
        batch: Callable[[], Environments],
        stream: Callable[[], Environments],
        debug_mode: bool = False,
        where: str = "",
    ) -> None:
        self._where = where
        # The lock of `planning` comes first: two threads that use an environment for the first time
        # would otherwise both make one.
        self._batch = planning()(functools.lru_cache(maxsize=None)(batch))
        self._stream = planning()(functools.lru_cache(maxsize=None)(stream))
        self.debug_mode = debug_mode

    @property
    def benv(self) -> StreamExecutionEnvironment:
        """The environment of batch operators."""
        return self._batch()[0]

    @property
    def btenv(self) -> StreamTableEnvironment:
        """The table environment of batch operators."""
        return self._batch()[1]

    @property
    def senv(self) -> StreamExecutionEnvironment:
        """The environment of stream operators."""
        return self._stream()[0]

    @property
    def stenv(self) -> StreamTableEnvironment:
        """The table environment of stream operators."""
        return self._stream()[1]

    def __repr__(self) -> str:
        return f"MLEnv({self._where}{', debug_mode' if self.debug_mode else ''})"

    def __iter__(self) -> Iterator[Any]:
        return iter((self.benv, self.btenv, self.senv, self.stenv))


_current: MLEnv | None = None


def useLocalEnv(
    parallelism: int,
    flinkHome: str | dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> MLEnv:
    """Run jobs on a Flink mini cluster inside this program, or on the cluster that the program was
    submitted to.

    Args:
        parallelism: Subtasks of each operator, at least 1.
        flinkHome: Not used, as the package apache-flink brings Flink; a dict here is taken for
            `config`.
        config: Entries of Flink's configuration. Two are ours: `debug_mode=True` shows on this
            console what scripts print, and `jars=["kafka", ...]` are names that `akdl jars --list`
            knows, Maven coordinates or paths of jars for the jobs.
    """
    flink_config, debug_mode = _checked("useLocalEnv", parallelism, flinkHome, config)
    if _is_submitted():
        logger.warning(
            "useLocalEnv: this program was submitted to Flink, so its jobs run there and not"
            " inside it"
        )
        where = f"where Flink started this program, parallelism {parallelism}"
        return _use(lambda mode: _submitted(parallelism, mode, flink_config), debug_mode, where)
    where = f"mini cluster in this program, parallelism {parallelism}"
    return _use(lambda mode: _local(parallelism, _merged(mode, flink_config)), debug_mode, where)


def useRemoteEnv(
    host: str,
    port: int | str,
    parallelism: int,
    flinkHome: str | dict[str, Any] | None = None,
    localIp: str | None = None,
    shipAlinkAlgoJar: bool = True,
    config: dict[str, Any] | None = None,
) -> MLEnv:
    """Run jobs on a Flink cluster.

    Args:
        host: Host of the cluster's REST endpoint.
        port: Its port, often 8081.
        parallelism: Subtasks of each operator, at least 1.
        flinkHome: Not used, as the package apache-flink brings Flink; a dict here is taken for
            `config`.
        localIp: Not used: the cluster does not connect to this program.
        shipAlinkAlgoJar: Not used: what jobs need travels with them.
        config: Entries of Flink's configuration, see `useLocalEnv`. `python.executable` names the
            Python with the Flink side on the cluster's hosts; it is `python` from their PATH when
            it is not given.

    Raises:
        ConfigurationError: A value is wrong, or this program was submitted, as with `flink run`,
            which says where it runs.
    """
    port = port_of(port)
    if _is_submitted():
        raise ConfigurationError(
            "useRemoteEnv: this program was submitted to Flink, so its jobs cannot go to"
            f" {host}:{port}: take getMLEnv(), or start it with python"
        )
    if not isinstance(host, str) or not host:
        raise ConfigurationError(f"useRemoteEnv: host: expected the name of a host, got {host!r}")
    if type(port) is not int or not 0 < port < 65536:
        raise ConfigurationError(
            f"useRemoteEnv: port: expected a number from 1 to 65535, got {port!r}"
        )
    flink_config, debug_mode = _checked("useRemoteEnv", parallelism, flinkHome, config)
    return _use(
        lambda mode: _remote(host, port, parallelism, _merged(mode, flink_config)),
        debug_mode,
        f"Flink cluster at {host}:{port}, parallelism {parallelism}",
    )


def useCustomEnv(*environments: Any) -> MLEnv:
    """Run jobs in environments that the caller has made.

    Args:
        environments: A StreamExecutionEnvironment and its StreamTableEnvironment, for batch and
            stream operators alike; or, as in Alink, gateway, benv, btenv, senv, stenv. The gateway
            is not used, and both kinds are environments of PyFlink 2.

    Raises:
        ConfigurationError: They are neither two nor five.
    """
    global _current
    if len(environments) not in (2, 5):
        raise ConfigurationError(
            "useCustomEnv: expected (stream_env, table_env), or (gateway, benv, btenv, senv,"
            f" stenv), got {len(environments)} values"
        )
    # Of two values, the slice of the first pair is empty, so both kinds share the one pair.
    batch = tuple(environments[-4:-2] or environments)
    stream = tuple(environments[-2:])
    for _, table_env in (batch, stream):
        protect(table_env)
    _current = MLEnv(lambda: batch, lambda: stream, where="environments of the caller")
    return _current


def getMLEnv() -> MLEnv:
    """Return the environments in use.

    The default is the cluster that the program was submitted to, as with `flink run`; otherwise a
    local environment with one subtask per processor.
    """
    if _current is None and _is_submitted():
        return _use(
            lambda mode: _submitted(None, mode, {}), False, "where Flink started this program"
        )
    return _current or useLocalEnv(os.cpu_count() or 1)


def resetEnv() -> None:
    """Forget the environments in use; the next job needs a new `use...Env`, or gets the default of
    `getMLEnv`.
    """
    global _current
    _current = None


def shows_process_output() -> bool:
    """Return True if this console shows what scripts print."""
    return AlinkGlobalConfiguration.isPrintProcessInfo() or (
        _current is not None and _current.debug_mode
    )


def prepare_for_batch(table_env: StreamTableEnvironment) -> None:
    """Apply the settings that co-location needs in batch mode, unless the user has set one of them
    to something else.
    """
    if is_streaming(table_env):
        return
    config = table_env.get_config()
    for key, value in _BATCH.items():
        chosen = config.get(key, value)
        if chosen.upper() != value.upper():
            raise ConfigurationError(
                f"{key} is {chosen}, but operators that run scripts need {value} in batch mode"
            )
        config.set(key, value)


def prepare_for_stream(
    table_env: StreamTableEnvironment, chunk_wait_s: float, ends_bundles: bool = False
) -> None:
    """Apply the settings that stream operators need; a shorter interval than `chunk_wait_s`
    stays.

    Args:
        table_env: In streaming mode, else it is refused.
        chunk_wait_s: Most seconds that rows wait to travel together.
        ends_bundles: The operator in front of the Python function ends its bundles, unless Flink
            keeps the two in different tasks, so Flink's interval need not do it.
    """
    if not is_streaming(table_env):
        raise ConfigurationError(
            "this environment is in batch mode, but stream operators need one in streaming mode:"
            " take getMLEnv().stenv, or batch operators"
        )
    config = table_env.get_config()
    if ends_bundles and config.get(_CHAINING, "true").lower() == "true":
        return
    wanted = int(chunk_wait_s * 1000)
    config.set(_BUNDLE_MS, str(max(1, min(wanted, int(config.get(_BUNDLE_MS, str(wanted)))))))


def _use(make: Callable[[dict[str, str]], Environments], debug_mode: bool, where: str) -> MLEnv:
    """Make environments the current ones; `make` gets the entries of the runtime mode."""
    global _current
    _current = MLEnv(
        lambda: make({"execution.runtime-mode": "BATCH", **_BATCH}),
        lambda: make({}),
        debug_mode,
        where,
    )
    return _current


def _merged(mode: dict[str, str], config: dict[str, str]) -> dict[str, str]:
    """Configuration of an environment; the user's entries win."""
    # Only streams continue from a savepoint. A batch job, such as one that collects a model, would
    # fail with it.
    if mode:
        config = {key: value for key, value in config.items() if key not in SAVEPOINT_PATHS}
    return {**_DEFAULTS, **mode, **config}


def _checked(
    function: str, parallelism: int, home: object, config: dict[str, Any] | None
) -> tuple[dict[str, str], bool]:
    """Check the arguments of `useLocalEnv` and `useRemoteEnv`, also the names of jars."""
    if isinstance(home, dict):
        config = home
    else:
        note_flink_home(function, home)
    if type(parallelism) is not int or parallelism < 1:
        raise ConfigurationError(
            f"parallelism: expected a whole number of at least 1, got {parallelism!r}"
        )
    entries = dict(config or {})
    jars = entries.pop("jars", [])
    if not isinstance(jars, (list, tuple)) or not all(isinstance(jar, str) for jar in jars):
        raise ConfigurationError(
            "config entry 'jars': expected a list of names, coordinates and paths of jars, got"
            f" {jars!r}"
        )
    for key, value in entries.items():
        if not isinstance(value, (bool, int, float, str)):
            got = f"{masked_value(key, value)!r} of type {type(value).__name__}"
            raise ConfigurationError(
                f"config entry {key!r}: expected a bool, int, float or str, got {got}"
            )
    debug_mode = entries.pop("debug_mode", False)
    if not isinstance(debug_mode, bool):
        raise ConfigurationError(
            f"config entry 'debug_mode': expected True or False, got {debug_mode!r}"
        )
    if jars:
        urls, plugins = jar_urls(jars)
        entries["pipeline.jars"] = ";".join(
            filter(None, [str(entries.get("pipeline.jars", "")), *urls])
        )
        entries[_PLUGINS] = ";".join(plugins)
    return {
        # Flink reads `true`, while Python writes `True`.
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in entries.items()
    }, debug_mode


def _local(parallelism: int, config: dict[str, str]) -> Environments:
    """Make an environment whose jobs run on a mini cluster in the JVM of this program."""
    start_java()
    from pyflink.datastream import StreamExecutionEnvironment

    # An exchange between all subtasks needs about a buffer of 32 KB per pair of them, all in the
    # one TaskManager. With Flink's 64 MB a job of two exchanges started at a parallelism of 32, and
    # not at 64.
    network = f"{max(64, parallelism**2 // 8)}m"
    defaults = {
        "python.executable": python_of_local_jobs(),
        # Flink's client starts this Python when it compiles a job. Without the entry it takes the
        # `python` of PATH, which may be another one.
        "python.client.executable": sys.executable,
        "taskmanager.memory.network.min": network,
        "taskmanager.memory.network.max": network,
    }
    # Servers of PyFlink and Beam read how to listen when they start, so this call has to come
    # before the environment is made.
    listen_in_private()
    env = StreamExecutionEnvironment.get_execution_environment(
        _configuration({**defaults, **config})
    )
    # Each mini cluster would otherwise load Pekko with another class loader, and leave a jar of 24
    # MB when the program is killed.
    share_rpc_system(env)
    return _with_table_env(env, parallelism, config)


def _configuration(entries: dict[str, str]) -> Any:
    from pyflink.common import Configuration

    configuration = Configuration()
    for key, value in entries.items():
        configuration.set_string(key, value)
    return configuration


def _is_submitted() -> bool:
    """True where Flink started this program, by its command line or as an application."""
    return "PYFLINK_GATEWAY_PORT" in os.environ


def _submitted(
    parallelism: int | None, mode: dict[str, str], config: dict[str, str]
) -> Environments:
    """Environment for the cluster that runs this program."""
    start_java()
    from pyflink.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment(_configuration(config))
    env, table_env = _with_table_env(env, parallelism, {**mode, **config})
    known = table_env.get_config()
    # The user's command line and the cluster's configuration are in `known`, and they win over our
    # defaults.
    for key, value in {**_DEFAULTS, **mode}.items():
        known.set(key, known.get(key, value))
    return env, table_env


def _remote(host: str, port: int, parallelism: int, config: dict[str, str]) -> Environments:
    """Make an environment whose jobs run on the cluster with REST at this address."""
    try:
        # Flink's own client tries for a minute before it reports that nothing answers.
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError as error:
        raise ConfigurationError(
            f"useRemoteEnv: nothing answers at {host}:{port}, where Flink's REST should be: {error}"
        ) from None
    start_java()
    import pyflink
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.util.java_utils import to_jarray

    configuration = _configuration(
        {"python.client.executable": sys.executable, **_REMOTE, **config}
    )
    # The cluster needs Flink's Python library; sent along, it does not have to be in the cluster's
    # lib folder. There it is loaded once, though, and not for every job again, and never unloaded:
    # TaskManagers failed after a dozen jobs.
    jars = []
    if not _has_python_library(
        {**config, "execution.target": "remote", "rest.address": host, "rest.port": str(port)}
    ):
        jars = glob.glob(f"{os.path.dirname(pyflink.__file__)}/opt/flink-python*.jar")
    # `execution.target=remote` in the configuration of a plain environment would still start a
    # local cluster.
    environments = flink_classes().streaming.api.environment.StreamExecutionEnvironment
    env = StreamExecutionEnvironment(
        environments.createRemoteEnvironment(
            host, port, configuration._j_configuration, to_jarray(running_jvm().String, jars)
        )
    )
    own_jars = [jar for jar in config.get("pipeline.jars", "").split(";") if jar]
    # Flink replaces the jars of the configuration by the jars of the environment, so they are added
    # to the environment as well.
    if own_jars:
        env.add_jars(*own_jars)
    return _with_table_env(env, parallelism, config)


def _has_python_library(config: dict[str, str]) -> bool:
    """True where the lib folder of the cluster has Flink's Python library, as far as the JobManager
    reports it.
    """
    rest = rest_of(config)
    try:
        return rest is not None and b"flink-python" in rest.content("/jobmanager/environment")
    except OSError:
        return False


def protect(table_env: StreamTableEnvironment) -> None:
    """Apply the workarounds that each environment needs. Safe to call twice."""
    know_planner(table_env)
    fix_workers()
    close_servers(table_env)


def _with_table_env(
    env: StreamExecutionEnvironment, parallelism: int | None, config: dict[str, str]
) -> Environments:
    """Add a table environment, and apply the workarounds that each environment needs."""
    from pyflink.datastream import RuntimeExecutionMode
    from pyflink.table import EnvironmentSettings, StreamTableEnvironment

    if config.get(_PLUGINS) and not _is_submitted():
        file_systems = flink_classes().core.fs.FileSystem
        # The JVM of this program has one table of file systems, and Flink fills it from plugins
        # only in this call. A submitted program runs in a JVM that Flink has initialized already.
        file_systems.initialize(
            _configuration(config)._j_configuration, plugin_manager(config[_PLUGINS])
        )
    if parallelism is not None:
        env.set_parallelism(parallelism)
    # Keys are chosen for this number of key groups. Flink's default grows with the parallelism, so
    # a savepoint would not fit another parallelism.
    env.set_max_parallelism(MAX_PARALLELISM)
    batch = config.get("execution.runtime-mode") == "BATCH"
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    settings = (
        EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    )
    table_env = StreamTableEnvironment.create(env, environment_settings=settings)
    know_zone(table_env)
    give_savepoints_a_format()
    protect(table_env)
    # Functions of the user's own may use our packages in jobs without an operator of ours, which
    # would ship them.
    ship_own_packages(table_env)
    return env, table_env
