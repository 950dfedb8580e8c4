"""A Kafka broker of one node on this machine, from the jars that Maven gets, and tables of its
topics.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.exceptions import BridgeError
from operators.flink.jars import paths_of
from operators.flink.java import ensure_java
from tests.support.class_archive import SHORT_LIVED
from tests.support.installs import ROOT
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.ports import answers, free_ports

VERSION = "4.4.0"
_CLASSPATH = ROOT / "build" / f"kafka-{VERSION}.classpath"
_POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>akdl</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>"""
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""


@dataclass
class Broker:
    """The broker. Topics have three partitions, and appear when something is written to them.

    Args:
        folder: Where its files are.
        port: Its port on 127.0.0.1.
    """

    folder: pathlib.Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the files that it left, and wait until it answers."""
        log = self.folder / "log"
        with log.open("ab") as output:
            command = _java("kafka.Kafka", str(self.folder / "server.properties"))
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output)

        def is_up() -> bool:
            assert self.process is not None and self.process.poll() is None, log.read_text()[-3000:]
            return answers(self.port)

        wait_until(is_up, "the broker answers", 4 * DEADLINE_S)

    def kill(self) -> None:
        """Kill it, as nothing of it is needed later than its files."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def table(
        self, table_env: Any, name: str, columns: str, topic: str | None = None, **options: str
    ) -> str:
        """Make a table of a topic, of JSON and read from its beginning unless options say
        otherwise; return its name.
        """
        chosen = {
            "connector": "kafka", "topic": topic or name, "properties.bootstrap.servers": self.address, **options,
        }  # fmt: skip
        if chosen["connector"] == "kafka":
            chosen.setdefault("scan.startup.mode", "earliest-offset")
            chosen.setdefault("value.format", "json")
        entries = ", ".join(f"'{key}' = '{value}'" for key, value in chosen.items())
        table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({entries})")
        return name


@contextmanager
def broker_in(folder: pathlib.Path) -> Iterator[Broker]:
    """Yield a broker, with Flink's connector in the cache; skip the test where one of them cannot
    be had.
    """
    try:
        paths_of(["kafka"])
    except BridgeError as error:
        pytest.skip(f"Flink's connector for Kafka cannot be had: {error}")
    ensure_java()
    _get_kafka()
    port, controller = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=controller, folder=folder))
    command = _java(
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        "MkU3OEVBNTcwNTJENDM2Qg",
        "--config",
        str(properties),
    )
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=4 * DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    broker = Broker(folder, port)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _get_kafka() -> None:
    """Get the broker's jars unless they are there; skip the test where they cannot be had."""
    if _CLASSPATH.exists() and all(map(os.path.exists, _CLASSPATH.read_text().split(os.pathsep))):
        return
    mvn = shutil.which("mvn")
    if mvn is None:
        pytest.skip("there is no mvn to get Kafka with")
    _CLASSPATH.parent.mkdir(exist_ok=True)
    pom = _CLASSPATH.with_suffix(f".{os.getpid()}.pom")
    pom.write_text(_POM)
    new = _CLASSPATH.with_suffix(f".{os.getpid()}")
    command = [
        mvn,
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:build-classpath",
        f"-Dmdep.outputFile={new}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * DEADLINE_S)
        if done.returncode != 0:
            pytest.skip(f"mvn cannot get Kafka: {done.stdout[-500:]}")
        new.rename(_CLASSPATH)
    finally:
        pom.unlink()


def _java(*arguments: str) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    return [java, *SHORT_LIVED, "-Xmx256m", "-cp", _CLASSPATH.read_text(), *arguments]
