"""A YARN cluster with HDFS on this machine, Hadoop's own for tests, and Flink's commands for it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import py4j.version
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway

from bridge.exceptions import BridgeError
from operators.flink.jars import paths_of
from operators.flink.java import ensure_java
from tests.support.class_archive import SHORT_LIVED
from tests.support.environment import ENVIRONMENT
from tests.support.flink_cluster import FLINK_HOME, LOG_LINES
from tests.support.leftovers import DEADLINE_S, wait_until

VERSION = "3.4.2"
_CLIENT = (
    f"org.apache.hadoop:hadoop-client-api:{VERSION}",
    f"org.apache.hadoop:hadoop-client-runtime:{VERSION}",
    "org.xerial.snappy:snappy-java:1.1.10.4",
    "commons-logging:commons-logging:1.3.0",
)
_SERVERS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}",
    "org.slf4j:slf4j-api:1.7.36",
    "junit:junit:4.13.2",
    # Java 8 had them
    "javax.xml.bind:jaxb-api:2.3.1",
    "javax.activation:javax.activation-api:1.2.0",
    "com.sun.xml.bind:jaxb-core:2.3.0.1",
    "com.sun.xml.bind:jaxb-impl:2.3.1",
    *(f"org.bouncycastle:{part}-jdk18on:1.78.1" for part in ("bcprov", "bcpkix", "bcutil")),
)
# Java's side of py4j, as its package installs it.
_GATEWAY = pathlib.Path(sys.prefix, "share", "py4j", f"py4j{py4j.version.__version__}.jar")


@dataclass(frozen=True)
class Yarn:
    """A running cluster.

    Args:
        folder: Where its files are, also the logs of containers.
        web: The address of the ResourceManager's pages.
        hdfs: The address of its HDFS.
        variables: The environment of Flink's commands.
        servers: Hadoop's MiniYARNCluster. The ResourceManager's REST does not answer next to
            NodeManagers in one JVM.
    """

    folder: pathlib.Path
    web: str
    hdfs: str
    variables: Mapping[str, str]
    servers: Any

    def flink(self, *arguments: str) -> str:
        """Do a command of Flink's, such as `flink run`, and return what it prints."""
        command = ["bash", str(FLINK_HOME / "bin" / arguments[0]), *arguments[1:]]
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=10 * DEADLINE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def application(self, printed: str) -> str:
        """Return the id of the application that a command has started."""
        return re.findall(r"application_\d+_\d+", printed)[-1]

    def wait_for_end(self, application: str) -> str:
        """Wait until an application has ended, and return its final status, such as SUCCEEDED."""
        applications = self.servers.getResourceManager().getRMContext().getRMApps()
        found = next(
            each for each in applications.values() if str(each.getApplicationId()) == application
        )
        ended = {"FINISHED", "FAILED", "KILLED"}
        wait_until(
            lambda: str(found.createApplicationState()) in ended,
            f"{application} has ended",
            10 * DEADLINE_S,
        )
        return str(found.getFinalApplicationStatus())

    def logs(self, application: str, name: str) -> list[pathlib.Path]:
        """Return the logs of an application's containers with a name, such as "jobmanager.log"."""
        return sorted(self.folder.glob(f"**/{application}/container_*/{name}"))


@contextmanager
def yarn_cluster(folder: pathlib.Path, node_managers: int = 2) -> Iterator[Yarn]:
    """Yield a cluster, and stop it at the end with all containers; skip the test where Maven's jars
    cannot be had.
    """
    try:
        client, servers = paths_of(_CLIENT), paths_of(_SERVERS)
    except BridgeError as error:
        pytest.skip(f"Hadoop cannot be had: {error}")
    hadoop, logs, temporary = folder / "hadoop", folder / "log", folder / "tmp"
    for each in (hadoop, logs, temporary):
        each.mkdir()
    variables = {
        **{name: each for name, each in ENVIRONMENT.items() if not name.startswith("PYTHON")},
        # containers start $JAVA_HOME/bin/java
        "JAVA_HOME": _java_home(),
        "HADOOP_CONF_DIR": str(hadoop),
    }
    of_flink = {
        "FLINK_CONF_DIR": str(shutil.copytree(FLINK_HOME / "conf", folder / "conf")),
        "FLINK_LIB_DIR": str(_lib(folder)),
        "FLINK_LOG_DIR": str(logs),
        "HADOOP_CLASSPATH": os.pathsep.join(client),
        # Of the commands. They leave a file there, by which later ones find the last session.
        "JVM_ARGS": " ".join([*SHORT_LIVED, f"-Djava.io.tmpdir={temporary}"]),
    }
    settings = {
        "yarn.application.classpath": ",".join([str(hadoop), *client]),
        "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "8192",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        # the share of a queue that JobManagers may take; one in ten leaves room for one alone
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    }
    written = hadoop / "yarn-site.xml"
    class_path = [*client, *servers, str(_GATEWAY), *_log4j(folder)]
    command = [
        f"{variables['JAVA_HOME']}/bin/java", *SHORT_LIVED, "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-cp", os.pathsep.join(class_path), "py4j.GatewayServer", "--enable-auth", "0",
    ]  # fmt: skip
    with (logs / "hadoop.out").open("wb") as output, (logs / "hadoop.log").open("wb") as errors:
        server = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )  # fmt: skip
    gateway = None
    try:

        def address() -> list[str]:
            assert server.poll() is None, (logs / "hadoop.log").read_text()[-5000:]
            return (logs / "hadoop.out").read_text().splitlines()[:2]

        wait_until(lambda: len(address()) == 2, "Hadoop's JVM listens", 6 * DEADLINE_S)
        port, token = address()
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=int(port), auth_token=token)
        )
        yarn = _started(gateway.jvm, settings, node_managers)
        stream = gateway.jvm.java.io.FileOutputStream(str(written))
        for_clients = yarn.getConfig()
        for_clients.writeXml(stream)
        stream.close()
        for name in ("core-site.xml", "hdfs-site.xml"):
            shutil.copy(written, hadoop / name)
        web = f"http://{for_clients.get('yarn.resourcemanager.webapp.address')}"
        hdfs = for_clients.get("fs.defaultFS")
        yield Yarn(folder, web, hdfs, {**variables, **of_flink}, yarn)
    finally:
        if gateway is not None:
            gateway.close()
        _stop(server)
        _show(folder)


def _java_home() -> str:
    ensure_java()
    java = pathlib.Path(shutil.which("java") or "java").resolve()
    return os.environ.get("JAVA_HOME") or str(java.parents[1])


def _started(jvm: Any, settings: Mapping[str, str], node_managers: int) -> Any:
    """Start HDFS and YARN, and return YARN."""
    hadoop = jvm.org.apache.hadoop
    configuration = hadoop.yarn.conf.YarnConfiguration()
    for name, value in settings.items():
        configuration.set(name, value)
    # It sets its address in the configuration.
    hadoop.hdfs.MiniDFSCluster.Builder(configuration).build()
    yarn = hadoop.yarn.server.MiniYARNCluster("yarn", node_managers, 1, 1)
    yarn.init(configuration)
    yarn.start()
    yarn.waitForNodeManagersToConnect(600_000)
    # A class of HDFS for tests, which clients do not have.
    yarn.getConfig().unset("net.topology.node.switch.mapping.impl")
    return yarn


def _lib(folder: pathlib.Path) -> pathlib.Path:
    """Return a lib folder with Flink's jars, also its Python library."""
    lib = folder / "lib"
    lib.mkdir()
    for jar in [*(FLINK_HOME / "lib").iterdir(), *(FLINK_HOME / "opt").glob("flink-python*")]:
        (lib / jar.name).symlink_to(jar)
    return lib


def _log4j(folder: pathlib.Path) -> list[str]:
    """Return the class path of logging for Hadoop's servers: Flink's jars, and a file that asks for
    warnings.
    """
    place = folder / "log4j"
    place.mkdir()
    (place / "log4j2.properties").write_text(
        "rootLogger.level = WARN\nrootLogger.appenderRef.out.ref = Out\nappender.out.name = Out\n"
        "appender.out.type = CONSOLE\nappender.out.layout.type = PatternLayout\n"
        "appender.out.layout.pattern = %d %-5p %c{1} %m%n\n"
    )
    return [str(place), *map(str, (FLINK_HOME / "lib").glob("log4j-*.jar"))]


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End Hadoop and all containers, which are its children, though in sessions of their own."""
    below = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    for each in [*below, server]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    server.wait()
    psutil.wait_procs(below, DEADLINE_S)


def _show(folder: pathlib.Path) -> None:
    """Show the ends of all logs on stderr, for pytest to show where a test fails."""
    logs = [*folder.glob("log/*"), *folder.glob("**/container_*/*")]
    for log in sorted(path for path in logs if path.suffix in (".log", ".err", ".out")):
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        sys.stderr.write("\n".join([f"==== {log.relative_to(folder)}", *lines, ""]))
