"""Where jobs run: the embedded mini cluster, a Flink cluster, or the user's own environments."""

from __future__ import annotations

import glob
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.exceptions import ConfigurationError
from operators.java import ensure_java

if TYPE_CHECKING:
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

MAX_PARALLELISM = 128

# What jobs need of Flink; a user's own configuration wins.
_DEFAULTS = {
    "python.fn-execution.arrow.batch.size": "8000",  # rows per call of the encoder: chunks of about 1 MB
    "python.fn-execution.bundle.size": "80000",
}
# Without these, co-located subtasks land on different hosts in BATCH mode, or the job cannot be scheduled at all.
_BATCH = {"jobmanager.scheduler": "Default", "execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}


class AlinkGlobalConfiguration:
    """Settings for all operators of this process."""

    _print_process_info = False

    @classmethod
    def setPrintProcessInfo(cls, value: bool) -> None:
        """Show on this console what scripts print, each line with role and index in front."""
        if not isinstance(value, bool):
            raise ConfigurationError(f"setPrintProcessInfo: expected True or False, got {value!r}")
        cls._print_process_info = value

    @classmethod
    def isPrintProcessInfo(cls) -> bool:
        """Whether this console shows what scripts print."""
        return cls._print_process_info


@dataclass(frozen=True)
class MLEnv:
    """The environments of jobs.

    Args:
        benv: Environment of batch operators.
        btenv: Its table environment.
        senv: Environment of stream operators.
        stenv: Its table environment.
        debug_mode: Show what scripts print, whatever AlinkGlobalConfiguration says.
    """

    benv: StreamExecutionEnvironment
    btenv: StreamTableEnvironment
    senv: StreamExecutionEnvironment
    stenv: StreamTableEnvironment
    debug_mode: bool = False


_current: MLEnv | None = None


def useLocalEnv(parallelism: int, config: dict[str, Any] | None = None) -> MLEnv:
    """Run jobs on a Flink mini cluster inside this program.

    Args:
        parallelism: Subtasks of each operator, at least 1.
        config: Entries of Flink's configuration; `debug_mode=True` shows on this console what scripts print.
    """
    flink_config, debug_mode = _checked(parallelism, config)
    _quiet_end_of_jobs()
    return _use(lambda mode: _local(parallelism, {**_DEFAULTS, **mode, **flink_config}), debug_mode)


def useRemoteEnv(host: str, port: int, parallelism: int, config: dict[str, Any] | None = None) -> MLEnv:
    """Run jobs on a Flink cluster.

    Args:
        host: Host of the cluster's REST endpoint.
        port: Its port, often 8081.
        parallelism: Subtasks of each operator, at least 1.
        config: Entries of Flink's configuration, see `useLocalEnv`. `python.executable` names the Python with the Flink
            side on the cluster's hosts; it is `python` from their PATH when it is not given.
    """
    flink_config, debug_mode = _checked(parallelism, config)
    return _use(lambda mode: _remote(host, port, parallelism, {**_DEFAULTS, **mode, **flink_config}), debug_mode)


def useCustomEnv(stream_env: StreamExecutionEnvironment, table_env: StreamTableEnvironment) -> MLEnv:
    """Run jobs, of batch and stream operators alike, in environments that the caller has made."""
    global _current
    _current = MLEnv(stream_env, table_env, stream_env, table_env)
    return _current


def getMLEnv() -> MLEnv:
    """Return the environments in use; a local one with one subtask per processor when none was chosen."""
    return _current or useLocalEnv(os.cpu_count() or 1)


def resetEnv() -> None:
    """Forget the environments in use; the next job needs a new `use...Env`, or gets the default of `getMLEnv`."""
    global _current
    _current = None


def prepare_for_batch(table_env: StreamTableEnvironment) -> None:
    """Give an environment in batch mode the settings that co-location needs, where the user made it himself.

    Raises:
        ConfigurationError: The user has set one of them to something else.
    """
    config = table_env.get_config()
    if config.get("execution.runtime-mode", "STREAMING").upper() != "BATCH":
        return
    for key, value in _BATCH.items():
        chosen = config.get(key, value)
        if chosen.upper() not in (value.upper(), "ALL_EXCHANGES_BLOCKING" if key.endswith("mode") else ""):
            raise ConfigurationError(f"{key} is {chosen}, but operators that run scripts need {value} in batch mode")
        config.set(key, value)


def _use(make: Callable[[dict[str, str]], tuple[Any, Any]], debug_mode: bool) -> MLEnv:
    global _current
    benv, btenv = make({"execution.runtime-mode": "BATCH", **_BATCH})
    senv, stenv = make({})
    _current = MLEnv(benv, btenv, senv, stenv, debug_mode)
    return _current


def _checked(parallelism: int, config: dict[str, Any] | None) -> tuple[dict[str, str], bool]:
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise ConfigurationError(f"parallelism: expected a whole number of at least 1, got {parallelism!r}")
    entries = dict(config or {})
    for key, value in entries.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ConfigurationError(
                f"config entry {key!r}: expected a bool, int, float or str, got {value!r} of type {type(value).__name__}"
            )
    debug_mode = entries.pop("debug_mode", False)
    if not isinstance(debug_mode, bool):
        raise ConfigurationError(f"config entry 'debug_mode': expected True or False, got {debug_mode!r}")
    return {key: str(value).lower() if value in (True, False) else str(value) for key, value in entries.items()}, debug_mode


def _local(parallelism: int, config: dict[str, str]) -> tuple[Any, Any]:
    ensure_java()
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment

    configuration = Configuration()
    own_python = {"python.executable": sys.executable, "python.client.executable": sys.executable}
    for key, value in {**own_python, **config}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return _with_table_env(env, parallelism, config)


def _remote(host: str, port: int, parallelism: int, config: dict[str, str]) -> tuple[Any, Any]:
    ensure_java()
    import pyflink
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.java_gateway import get_gateway

    configuration = Configuration()
    for key, value in {"python.client.executable": sys.executable, **config}.items():
        configuration.set_string(key, value)
    gateway = get_gateway()
    # The cluster needs Flink's Python library; sent along, it does not have to be in the cluster's lib folder.
    found = glob.glob(os.path.join(os.path.dirname(pyflink.__file__), "opt", "flink-python*.jar"))
    jars = gateway.new_array(gateway.jvm.String, len(found))
    for index, jar in enumerate(found):
        jars[index] = jar
    environments = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    env = StreamExecutionEnvironment(environments.createRemoteEnvironment(host, port, configuration._j_configuration, jars))
    for package in ("akdl", "bridge", "operators"):
        env.add_python_file(os.path.dirname(sys.modules[package].__file__ or ""))
    return _with_table_env(env, parallelism, config)


def _with_table_env(env: Any, parallelism: int, config: dict[str, str]) -> tuple[Any, Any]:
    from pyflink.datastream import RuntimeExecutionMode
    from pyflink.table import EnvironmentSettings, StreamTableEnvironment

    env.set_parallelism(parallelism)
    env.set_max_parallelism(MAX_PARALLELISM)
    batch = config.get("execution.runtime-mode") == "BATCH"
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    return env, StreamTableEnvironment.create(env, environment_settings=settings)


def _quiet_end_of_jobs() -> None:
    """Keep one harmless traceback of PyFlink off the console.

    At the end of each local job the JVM hangs up on a reader thread of Beam, whose exception nobody catches.
    """
    show = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if "Multiplexer hanging up" not in str(arguments.exc_value):
            show(arguments)

    if getattr(show, "__module__", "") != __name__:
        threading.excepthook = hook
