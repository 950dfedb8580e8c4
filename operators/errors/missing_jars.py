"""Missing jars of Flink connectors and formats: one short error in place of a page of Java.

The texts of Flink's exceptions are matched with patterns, as the exceptions have no fields. `JARS`
is the table behind `akdl jars` too, so that the error can name the command that helps.
"""

from __future__ import annotations

import glob
import os
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress

from akdl.near_names import did_you_mean
from bridge.exceptions import ConfigurationError

CONNECTOR = "connector"
FORMAT = "format"
CATALOG = "catalog"
PROVIDER = "model provider"

# This is the provider of models for ML_PREDICT. Its jar is compiled on this machine and not
# downloaded.
OWN = "akdl"

_FLINK = "org.apache.flink:flink-"
_POSTGRESQL = "org.postgresql:postgresql:42.7.14"
# ORC and Parquet of Flink read their files through Hadoop's classes, which Flink does not contain.
_HADOOP = (
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)


def _format(name: str, *needed: str) -> dict[str, tuple[str, ...]]:
    # Formats are released with Flink and have its version.
    return {"1.20+": (f"{_FLINK}sql-{name}:{{flink}}", *needed)}


# Names of jars, and their Maven coordinates by the releases of Flink that they support: "2.1", or
# "2.1+" up to the next entry.
JARS: dict[str, dict[str, tuple[str, ...]]] = {
    "kafka": {
        "1.20": (f"{_FLINK}sql-connector-kafka:3.4.0-1.20",),
        "2.0+": (f"{_FLINK}sql-connector-kafka:4.0.1-2.0",),
        "2.2+": (f"{_FLINK}sql-connector-kafka:5.0.0-2.2",),
    },
    "jdbc-postgresql": {
        "1.20": (f"{_FLINK}connector-jdbc:3.3.0-1.20", _POSTGRESQL),
        "2.0+": (
            f"{_FLINK}connector-jdbc-core:4.0.0-2.0",
            f"{_FLINK}connector-jdbc-postgres:4.0.0-2.0",
            _POSTGRESQL,
        ),
    },
    "avro": _format("avro"),
    "avro-confluent": _format("avro-confluent-registry"),
    "orc": _format("orc", *_HADOOP),
    "parquet": _format("parquet", *_HADOOP),
    "protobuf": _format("protobuf"),
    "paimon": {
        "1.20": ("org.apache.paimon:paimon-flink-1.20:1.3.1", *_HADOOP),
        "2.0": ("org.apache.paimon:paimon-flink-2.0:2.0.0", *_HADOOP),
        "2.1+": ("org.apache.paimon:paimon-flink-2.1:1.3.0", *_HADOOP),
    },
    "s3": {"1.20+": (f"{_FLINK}s3-fs-hadoop:{{flink}}",)},
    OWN: {"2.1+": (f"{OWN}:models:{{flink}}",)},
}
# These are names in Flink that differ from the names of their jars.
_NAMES = {"upsert-kafka": "kafka", "jdbc": "jdbc-postgresql"}
# Factory classes that jars register as services. Most of their names contain the name of the format
# or connector.
_FACTORY = re.compile(r"(\w+?)(?:(?:File)?(Format)|(?:Dynamic)?Table(?:Source|Sink)?)Factory")
_HIDDEN_NAMES = {
    # The name of a class is cut before each capital letter, which gives these names in place of the
    # names in SQL.
    "black-hole": "blackhole",
    "data-gen": "datagen",
    "file-system": "filesystem",
    "pb": "protobuf",
    "registry-avro": "avro-confluent",
}
_SERVICES = "META-INF/services/org.apache.flink.table.factories.Factory"
# These factories serve Flink's and PyFlink's own code, so errors and the doctor do not offer them.
_NOT_FOR_USERS = ("legacy-csv", "python-arrow-source", "python-input-format")
_UNKNOWN = re.compile(
    r"Could not find any (?:(?P<format>format )factory|factory) for identifier '(?P<name>[^'\n]+)'"
    r"(?: that implements '(?P<factory>[\w.]+)')? in the classpath\."
    r"(?:\s+Available factory identifiers are:\s+(?P<known>[\w.-]+(?:\n[\w.-]+)*))?"
)
_NO_PROVIDER = re.compile(
    r"'provider'='(?P<name>[^'\n]+)'[^\0]*Could not find any factories that implement"
    r" '[\w.]*ModelProvider"
)
_NO_S3 = re.compile(r"Could not find a file system implementation for scheme 's3")


def missing_jar(text: str) -> ConfigurationError | None:
    """Translate Flink's text about an unknown connector, format or storage.

    Args:
        text: Message of a Java exception, with the messages of its causes.

    Returns:
        The error to raise in its place; None for other exceptions.
    """
    if _NO_S3.search(text):
        return ConfigurationError(
            "Flink needs its plugin for s3:// addresses. useLocalEnv(2, config={'jars': ['s3']})"
            " loads it into this program;\non each host of a cluster, copy what akdl jars s3 prints"
            " into a folder of its own in Flink's folder plugins."
        )
    # Flink has no provider of its own, so its text lists no names and differs from the one for
    # connectors.
    no_provider = _NO_PROVIDER.search(text)
    if no_provider is not None:
        return ConfigurationError(_message(PROVIDER, no_provider["name"], ()))
    match = _UNKNOWN.search(text)
    if match is None:
        return None
    factory = match["factory"] or ""
    name = match["name"]
    kinds = {"Format": FORMAT, "Catalog": CATALOG, "ModelProvider": PROVIDER}
    kind = (
        FORMAT
        if match["format"]
        else next((kind for part, kind in kinds.items() if part in factory), CONNECTOR)
    )
    known = [each for each in (match["known"] or "").split() if each not in _NOT_FOR_USERS]
    # Flink's text may have no list of formats, so the jars in its lib folder are searched for
    # names.
    if not known and kind == FORMAT:
        known = [each for what, each in in_folder(lib_folder()) if what == FORMAT]
    return ConfigurationError(_message(kind, name, sorted(known)))


def coordinates(name: str) -> Sequence[str]:
    """Maven coordinates of the jars of a name.

    They are empty if no release for the Flink of this program is known: a jar for another Flink
    would load and then fail inside a job.
    """
    flink = _release(flink_version())
    found: Sequence[str] = ()
    for release, jars in JARS.get(_NAMES.get(name, name), {}).items():
        # Entries are in the order of releases, so the last one that fits wins.
        if _release(release) == flink or (release.endswith("+") and _release(release) < flink):
            found = [each.format(flink=flink_version()) for each in jars]
    return found


def flink_version() -> str:
    from pyflink.version import __version__

    return str(__version__)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rstrip("+").split(".")[:2])


def lib_folder() -> str:
    """Folder with the jars of the Flink that PyFlink brings."""
    import pyflink

    return f"{os.path.dirname(pyflink.__file__)}/lib"


def in_folder(folder: str) -> list[tuple[str, str]]:
    """Kinds and names of the connectors and formats in the jars of a folder."""
    found = set()
    for jar in glob.glob(f"{glob.escape(folder)}/*.jar"):
        # Most jars have no factories, and a damaged one must not hide the error that is being
        # explained.
        with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
            for line in archive.read(_SERVICES).decode("utf-8", "replace").splitlines():
                factory = _FACTORY.fullmatch(line.partition("#")[0].strip().rpartition(".")[2])
                if factory is not None:
                    name = re.sub("(?<=[a-z])(?=[A-Z])", "-", factory[1]).lower()
                    found.add((FORMAT if factory[2] else CONNECTOR, _HIDDEN_NAMES.get(name, name)))
    return sorted(each for each in found if each[1] not in _NOT_FOR_USERS)


def _message(kind: str, name: str, known: Sequence[str]) -> str:
    """Text of the error: what is missing, the command that gets it, and how it reaches the jobs."""
    jar = _NAMES.get(name, name)
    available = f" Available: {', '.join(known)}." if known else ""
    if jar in JARS:
        hint = ": its jar is missing"
        second = f"Get it: akdl jars {jar}"
    else:
        hint = did_you_mean(name, [*known, *JARS])
        release = ".".join(map(str, _release(flink_version())))
        jar = "GROUP:ARTIFACT:VERSION"
        second = f"A {kind} that is not part of Flink needs a jar built for Flink {release}."
    return "\n".join(
        [
            f"Flink has no {kind} '{name}'{hint}.{available}",
            second,
            f"It travels with jobs: useLocalEnv(2, config={{'jars': ['{jar}']}});",
            f"or copy it into {lib_folder()}, and into the lib folder of a cluster.",
        ]
    )
