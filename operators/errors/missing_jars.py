"""Missing jars of Flink connectors and formats: one short error in place of a page of Java."""

from __future__ import annotations

import glob
import os
import re
import zipfile
from collections.abc import Sequence

from akdl.near_names import did_you_mean
from bridge.exceptions import ConfigurationError

CONNECTOR, FORMAT, CATALOG = "connector", "format", "catalog"

# Formats share the version of Flink. Connectors have their own releases, named after the oldest Flink that they support.
_KAFKA = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)
_JARS = {
    (CONNECTOR, "kafka"): _KAFKA,
    (CONNECTOR, "upsert-kafka"): _KAFKA,
    (FORMAT, "avro"): ("org.apache.flink:flink-sql-avro:{flink}",),
    (FORMAT, "avro-confluent"): ("org.apache.flink:flink-sql-avro-confluent-registry:{flink}",),
    (FORMAT, "orc"): ("org.apache.flink:flink-sql-orc:{flink}",),
    (FORMAT, "parquet"): ("org.apache.flink:flink-sql-parquet:{flink}",),
    (FORMAT, "protobuf"): ("org.apache.flink:flink-sql-protobuf:{flink}",),
}
# Factory classes that jars register as services.
_FACTORIES = {
    "AvroFileFormatFactory": (FORMAT, "avro"),
    "AvroFormatFactory": (FORMAT, "avro"),
    "BlackHoleTableSinkFactory": (CONNECTOR, "blackhole"),
    "CanalJsonFormatFactory": (FORMAT, "canal-json"),
    "CsvFileFormatFactory": (FORMAT, "csv"),
    "CsvFormatFactory": (FORMAT, "csv"),
    "DataGenTableSourceFactory": (CONNECTOR, "datagen"),
    "DebeziumJsonFormatFactory": (FORMAT, "debezium-json"),
    "FileSystemTableFactory": (CONNECTOR, "filesystem"),
    "JdbcDynamicTableFactory": (CONNECTOR, "jdbc"),
    "JsonFormatFactory": (FORMAT, "json"),
    "KafkaDynamicTableFactory": (CONNECTOR, "kafka"),
    "MaxwellJsonFormatFactory": (FORMAT, "maxwell-json"),
    "OggJsonFormatFactory": (FORMAT, "ogg-json"),
    "OrcFileFormatFactory": (FORMAT, "orc"),
    "ParquetFileFormatFactory": (FORMAT, "parquet"),
    "PbFormatFactory": (FORMAT, "protobuf"),
    "PrintTableSinkFactory": (CONNECTOR, "print"),
    "RawFormatFactory": (FORMAT, "raw"),
    "RegistryAvroFormatFactory": (FORMAT, "avro-confluent"),
    "UpsertKafkaDynamicTableFactory": (CONNECTOR, "upsert-kafka"),
}
_SERVICES = "META-INF/services/org.apache.flink.table.factories.Factory"
_NOT_FOR_USERS = ("legacy-csv", "python-arrow-source", "python-input-format")
_UNKNOWN = re.compile(
    r"Could not find any (?:(?P<format>format )factory|factory) for identifier '(?P<name>[^'\n]+)'"
    r"(?: that implements '(?P<factory>[\w.]+)')? in the classpath\."
    r"(?:\s+Available factory identifiers are:\s+(?P<known>[\w.-]+(?:\n[\w.-]+)*))?"
)


def missing_jar(text: str) -> ConfigurationError | None:
    """Translate the text of Flink's exception about an unknown connector or format; None for other exceptions."""
    match = _UNKNOWN.search(text)
    if match is None:
        return None
    factory, name = match["factory"] or "", match["name"]
    kind = FORMAT if match["format"] or "Format" in factory else CATALOG if "Catalog" in factory else CONNECTOR
    known = [each for each in (match["known"] or "").split() if each not in _NOT_FOR_USERS]
    if not known and kind == FORMAT:
        known = [each for what, each in in_folder(lib_folder()) if what == FORMAT]
    return ConfigurationError(_message(kind, name, sorted(known)))


def require_format(operator: str, name: str) -> None:
    from pyflink.java_gateway import get_gateway

    loader = get_gateway().jvm.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"org/apache/flink/formats/{name}") is None:
        raise ConfigurationError(f"{operator}: {_message(FORMAT, name, [])}")


def coordinates(kind: str, name: str) -> Sequence[str]:
    """Return the Maven coordinates of the jars of a connector or format, for the Flink version of this program."""
    from pyflink.version import __version__

    return [each.format(flink=__version__) for each in _JARS.get((kind, name), ())]


def lib_folder() -> str:
    import pyflink

    return os.path.join(os.path.dirname(pyflink.__file__), "lib")


def in_folder(folder: str) -> list[tuple[str, str]]:
    jars = glob.glob(os.path.join(glob.escape(folder), "*.jar"))
    return sorted({_FACTORIES[factory] for jar in jars for factory in _factories(jar) if factory in _FACTORIES})


def _factories(jar: str) -> list[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(_SERVICES).decode("utf-8", "replace").splitlines()
    except (OSError, KeyError, zipfile.BadZipFile):
        return []
    return [line.partition("#")[0].strip().rpartition(".")[2] for line in lines]


def _message(kind: str, name: str, known: Sequence[str]) -> str:
    jars = coordinates(kind, name)
    available = f" Available: {', '.join(known)}." if known else ""
    file = "-".join(jars[0].split(":")[1:]) if jars else "NAME"
    if jars:
        first = f"Flink has no {kind} '{name}': its jar is missing.{available}"
        second = f"Get {' and '.join(jars)} from a Maven repository."
    else:
        hint = did_you_mean(name, [*known, *(each for what, each in _JARS if what == kind)])
        first = f"Flink has no {kind} '{name}'{hint}.{available}"
        second = f"A {kind} that is not part of Flink needs a jar built for Flink 2."
    return "\n".join([
        first,
        second,
        f"Put the jar into {lib_folder()}, and into the lib folder of a cluster;",
        f"or ship it with jobs: useLocalEnv(2, config={{'pipeline.jars': 'file:///path/to/{file}.jar'}}).",
    ])  # fmt: skip
