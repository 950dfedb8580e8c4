"""A Flink cluster of several TaskManagers on this machine, started from the distribution inside the
PyFlink package.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyflink

from operators.flink.java import ensure_java
from tests.support.class_archive import SHORT_LIVED, archive_options
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.network import Network
from tests.support.ports import free_ports

FLINK_HOME = pathlib.Path(pyflink.__file__).parent
LOG_LINES = 100
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_ZOOKEEPER = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
_ROUTINE = re.compile(r"(Triggering|Completed) checkpoint")

_without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class FlinkCluster:
    """A running cluster.

    Args:
        host: Where the REST endpoint is, and all TaskManagers unless they have hosts of their own.
        rest_port: Port of the REST endpoint.
        job_manager_pid: The JVM of the JobManager.
        task_manager_pids: The JVMs of the TaskManagers.
        log_folder: One file per JVM.
        variables: The environment of its processes, which Flink's command line finds it by.
        start: Starts another "jobmanager", where one was killed, or "taskmanager"; returns the id
            of its JVM.
    """

    host: str
    rest_port: int
    job_manager_pid: int
    task_manager_pids: tuple[int, ...]
    log_folder: pathlib.Path
    variables: Mapping[str, str]
    start: Callable[[str], int]

    def rest(self, path: str) -> dict[str, Any]:
        """Return the answer of the REST endpoint, such as that of "/overview"."""
        with _without_proxy.open(
            f"http://{self.host}:{self.rest_port}{path}", timeout=DEADLINE_S
        ) as answer:
            return json.load(answer)


@contextmanager
def flink_cluster(
    tmp_path: pathlib.Path,
    task_managers: int = 3,
    slots: int = 1,
    hosts: Network | None = None,
    python_library: bool = True,
    python: str = sys.executable,
    java_home: str | None = None,
    options: Mapping[str, str] | None = None,
    high_availability: bool = False,
    own_scripts: bool = False,
    jars: Sequence[str] = (),
) -> Iterator[FlinkCluster]:
    """Start a cluster, wait until all its slots are there, and stop it at the end, with its logs on
    stderr, for pytest to show.

    Args:
        tmp_path: An empty folder for configuration, logs and Flink's temporary files.
        task_managers: Number of TaskManagers.
        slots: Slots of each.
        hosts: Where TaskManagers run, in turn, with their Python workers and all these start; the
            JobManager runs beside this program. Without, all run beside this program.
        python_library: Whether Flink's Python library lies in the cluster's lib folder, as it
            should where many jobs run.
        python: The hosts' Python.
        java_home: The hosts' Java; None for that of this program.
        options: More settings of Flink.
        high_availability: Whether a JobManager that starts goes on with the jobs of one that was
            killed, through a ZooKeeper.
        own_scripts: Whether Flink's own scripts start the processes, as users start them; they need
            three more JVMs for each, so most tests use commands like those that the scripts make.
        jars: Paths of jars for the cluster's lib folder.
    """
    address = hosts.address if hosts else "localhost"
    rest_port, rpc_port, keeper_port = free_ports(3, address)
    if high_availability:
        options = {
            **(options or {}), "high-availability.type": "zookeeper", "high-availability.storageDir": (tmp_path / "ha").as_uri(),
            "high-availability.zookeeper.quorum": f"127.0.0.1:{keeper_port}",
        }  # fmt: skip
    variables = _prepare(
        tmp_path, address, rest_port, rpc_port, slots, python_library, python, options or {}, jars
    )
    if java_home is not None:
        variables["JAVA_HOME"] = java_home
    logs = tmp_path / "log"
    with ExitStack() as stack:
        try:
            commands = {
                "jobmanager": _java(_JOB_MANAGER, variables),
                "taskmanager": _java(_TASK_MANAGER, variables),
            }
            if own_scripts:
                commands = {role: _script(role) for role in commands}
                del variables["FLINK_LOG_DIR"]  # the scripts don't export their own
            if high_availability:
                keeper = [*_java(_ZOOKEEPER, variables)[:-2], _zookeeper(tmp_path, keeper_port)]
                stack.enter_context(_jvm(keeper, variables, logs / "zookeeper.log"))
            job_manager = stack.enter_context(
                _jvm(commands["jobmanager"], variables, logs / "jobmanager.log")
            )
            workers = [
                stack.enter_context(_jvm(command, variables, logs / f"taskmanager-{index}.log"))
                for index, command in enumerate(
                    _task_managers(task_managers, commands["taskmanager"], variables, hosts)
                )
            ]
            pids = tuple(worker.pid for worker in workers)
            numbers = itertools.count(task_managers)

            def start(role: str) -> int:
                return stack.enter_context(
                    _jvm(commands[role], variables, logs / f"{role}-{next(numbers)}.log")
                ).pid

            cluster = FlinkCluster(
                address, rest_port, job_manager.pid, pids, logs, variables, start
            )
            _wait_for_slots(cluster, [job_manager, *workers], task_managers * slots)
            yield cluster
        finally:
            _show(logs)


@contextmanager
def flink_application(
    tmp_path: pathlib.Path, arguments: Sequence[str], slots: int, python: str = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a cluster for one program, which its JobManager runs; yield the JobManager, which ends
    with the program.

    Args:
        tmp_path: An empty folder for configuration, logs and Flink's temporary files.
        arguments: What comes behind `standalone-job.sh start-foreground`.
        slots: Slots of the one TaskManager.
        python: The hosts' Python.
    """
    rest_port, rpc_port = free_ports(2, "localhost")
    variables = _prepare(
        tmp_path, "localhost", rest_port, rpc_port, slots, python_library=True, python=python
    )
    logs = tmp_path / "log"
    try:
        with (
            _jvm(
                [*_script("standalone-job"), *arguments], variables, logs / "jobmanager.log"
            ) as job_manager,
            _jvm(_java(_TASK_MANAGER, variables), variables, logs / "taskmanager-0.log"),
        ):
            yield job_manager
    finally:
        _show(logs)


def flink_run(cluster: FlinkCluster, *arguments: str) -> str:
    """Do `flink run` with these arguments and return what it prints; raise CalledProcessError when
    it fails.
    """
    command = ["bash", str(FLINK_HOME / "bin" / "flink"), "run", *arguments]
    return subprocess.run(
        command, cwd=cluster.log_folder, env=cluster.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=True, timeout=5 * DEADLINE_S,
    ).stdout  # fmt: skip


def wait_for_log(cluster: FlinkCluster, pattern: str) -> None:
    """Wait until a TaskManager has written a line: lines of Python workers reach it later than
    their rows.
    """

    def is_there() -> bool:
        return any(
            re.search(pattern, log.read_text(errors="replace"))
            for log in cluster.log_folder.glob("taskmanager-*")
        )

    wait_until(is_there, f"a log of a TaskManager has {pattern}", 4 * DEADLINE_S)


def _prepare(
    folder: pathlib.Path,
    address: str,
    rest_port: int,
    rpc_port: int,
    slots: int,
    python_library: bool,
    python: str,
    more: Mapping[str, str] = MappingProxyType({}),
    jars: Sequence[str] = (),
) -> dict[str, str]:
    """Write the cluster's configuration and return the environment of its processes."""
    conf, lib, logs, temporary = folder / "conf", folder / "lib", folder / "log", folder / "tmp"
    for each in (conf, lib, logs, temporary):
        each.mkdir()
    for jar in [
        *(FLINK_HOME / "lib").iterdir(),
        *((FLINK_HOME / "opt").glob("flink-python*") if python_library else ()),
        *map(pathlib.Path, jars),
    ]:
        (lib / jar.name).symlink_to(jar)
    for path in (FLINK_HOME / "conf").iterdir():
        (conf / path.name).write_bytes(path.read_bytes())
    console = (conf / "log4j-console.properties").read_text()
    (conf / "log4j-console.properties").write_text(
        "".join(line for line in console.splitlines(True) if "rolling" not in line)
    )
    # Flink needs the module openings of its own file; all else is ours.
    openings = _openings(conf)
    options = {
        **more,
        "env.java.opts.all": " ".join(openings),
        "jobmanager.rpc.address": address,
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": address,
        "jobmanager.memory.process.size": "1200m",
        # would ask the machine's name server for the hosts' addresses
        "jobmanager.retrieve-taskmanager-hostname": "false",
        "rest.address": address,
        "rest.bind-address": address,
        "rest.port": rest_port,
        "rest.bind-port": rest_port,
        "taskmanager.host": "localhost",
        "taskmanager.bind-host": "localhost",
        "taskmanager.numberOfTaskSlots": slots,
        "taskmanager.cpu.cores": slots,
        **{f"taskmanager.memory.{name}": size for name, size in _memory(slots).items()},
        "io.tmp.dirs": str(temporary),
        # a TaskManager that two have not reached is gone; Flink sends one in 10 s
        "heartbeat.interval": 1000,
        # beside other tests a task may take longer to start than the 10 s of the default
        "pekko.ask.timeout": "120 s",
        # beside which REST finds the other logs
        "taskmanager.log.path": str(logs / "taskmanager.log"),
        "env.log.dir": str(logs),  # of Flink's scripts
        "env.pid.dir": str(temporary),
    }
    (conf / "config.yaml").write_text(
        "".join(f"{key}: {value}\n" for key, value in options.items())
    )
    ensure_java()
    return {
        **{
            name: value
            for name, value in ENVIRONMENT.items()
            if not name.startswith(("FLINK_", "PYTHONPATH"))
        },
        # of ensure_java
        **{name: os.environ[name] for name in ["JAVA_HOME"] if name in os.environ},
        "FLINK_HOME": str(FLINK_HOME),
        "FLINK_OPT_DIR": str(FLINK_HOME / "opt"),
        "FLINK_PLUGINS_DIR": str(FLINK_HOME / "plugins"),
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LIB_DIR": str(lib),
        "FLINK_LOG_DIR": str(logs),
        "PATH": os.path.dirname(python) + os.pathsep + ENVIRONMENT.get("PATH", os.defpath),
    }


def _openings(conf: pathlib.Path) -> list[str]:
    found = re.search(r"--add-exports=.*", (conf / "config.yaml").read_text())
    assert found is not None
    return found.group().split()


def _memory(slots: int) -> dict[str, str]:
    """Return the sizes of a TaskManager's memory, which Flink's start script would work out."""
    return {
        "framework.heap.size": "128m",
        "framework.off-heap.size": "128m",
        "task.heap.size": "300m",
        "task.off-heap.size": "0m",
        "network.min": "100m",
        "network.max": "100m",
        "managed.size": f"{200 + 100 * slots}m",
        "jvm-metaspace.size": "256m",
        "jvm-overhead.min": "192m",
        "jvm-overhead.max": "192m",
    }


def _script(role: str) -> list[str]:
    return ["bash", str(FLINK_HOME / "bin" / f"{role}.sh"), "start-foreground"]


def _java(entry_point: str, variables: Mapping[str, str]) -> list[str]:
    """Return the command of a JVM as Flink's start script would make it, which starts three other
    JVMs for that.
    """
    java = (
        os.path.join(variables["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in variables else "java"
    )
    conf = pathlib.Path(variables["FLINK_CONF_DIR"])
    return [
        java, *SHORT_LIVED, "-XX:MaxDirectMemorySize=1g", "-XX:MaxMetaspaceSize=256m", *archive_options(), *_openings(conf),
        f"-Dlog4j.configurationFile=file:{conf}/log4j-console.properties",
        "-classpath", os.pathsep.join(_jars(variables)),
        entry_point, "--configDir", str(conf),
    ]  # fmt: skip


def _jars(variables: Mapping[str, str]) -> list[str]:
    """Return the jars of the lib folder, where they lie and in the order of a program's JVM, as the
    archive of classes needs it.
    """
    all_jars = glob.glob(str(FLINK_HOME / "lib" / "*.jar")) + glob.glob(
        str(FLINK_HOME / "opt" / "flink-python*.jar")
    )
    linked = [str(link.readlink()) for link in pathlib.Path(variables["FLINK_LIB_DIR"]).iterdir()]
    return [
        *(jar for jar in all_jars if jar in linked),
        *(jar for jar in linked if jar not in all_jars),
    ]


def _task_managers(
    count: int, command: list[str], variables: Mapping[str, str], network: Network | None
) -> Iterator[list[str]]:
    """Yield the command of each TaskManager."""
    for index in range(count):
        if network is None:
            yield command
        else:
            host = network.hosts[index % len(network.hosts)]
            # hosts share no folder for temporary files
            own = os.path.join(variables["FLINK_CONF_DIR"], host.name)
            os.makedirs(own, exist_ok=True)
            addresses = [
                f"-Dtaskmanager.host={host.address}",
                f"-Dtaskmanager.bind-host={host.address}",
            ]
            yield host.command(["env", f"TMPDIR={own}", *command, *addresses])


def _zookeeper(folder: pathlib.Path, port: int) -> str:
    """Write the configuration of a ZooKeeper of one node, which is part of Flink; return
    its path.
    """
    path = folder / "zoo.cfg"
    path.write_text(
        f"dataDir={folder}/zookeeper\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=1000\n"
    )
    return str(path)


@contextmanager
def _jvm(
    command: list[str], variables: dict[str, str], log: pathlib.Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            # Python workers look into it for modules; those of this checkout must not be found by
            # chance
            cwd=log.parent,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the JVM, which stops its Python workers; SIGKILL to its whole group after
    a while.
    """
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(DEADLINE_S)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing of the group is left
    process.wait()


def _wait_for_slots(
    cluster: FlinkCluster, processes: list[subprocess.Popen[bytes]], slots: int
) -> None:
    def ready() -> bool:
        for process in processes:
            if process.poll() is not None:
                raise AssertionError(f"{process.args} ended with status {process.returncode}")
        try:
            return cluster.rest("/overview")["slots-available"] == slots
        except (OSError, urllib.error.URLError, ValueError):
            return False  # not up yet

    wait_until(ready, f"the cluster has {slots} free slots", 3 * DEADLINE_S)


def _show(logs: pathlib.Path) -> None:
    for log in sorted(logs.glob("*.log")):
        lines = [
            line
            for line in log.read_text(errors="replace").splitlines()
            if not _ROUTINE.search(line)
        ]
        sys.stderr.write(
            f"==== {log.name}, last {LOG_LINES} of {len(lines)} lines\n"
            + "\n".join(lines[-LOG_LINES:])
            + "\n"
        )
