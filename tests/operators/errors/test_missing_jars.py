"""A connector or format without its jar is one error of a few lines, wherever it is found; and
those that are there.
"""

from __future__ import annotations

import pathlib
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from pyflink.java_gateway import get_gateway

from bridge.exceptions import ConfigurationError
from operators import MLEnv, resetEnv, useRemoteEnv
from operators.errors.missing_jars import in_folder, lib_folder, missing_jar
from tests.operators.flink.test_slots import serving

KAFKA = """An error occurred while calling o44.sqlQuery.
: org.apache.flink.table.api.ValidationException: Unable to create a source for reading table 'x'.
\tat org.apache.flink.table.factories.FactoryUtil.createDynamicTableSource(FactoryUtil.java:245)
Caused by: org.apache.flink.table.api.ValidationException: Could not find any factory for identifier 'kafka' that implements \
'org.apache.flink.table.factories.DynamicTableFactory' in the classpath.

Available factory identifiers are:

blackhole
datagen
python-arrow-source
\tat org.apache.flink.table.factories.FactoryUtil.discoverFactory(FactoryUtil.java:552)
"""


def test_missing_jar_of_a_connector_is_named_with_the_command() -> None:
    first, command, travels, place = str(missing_jar(KAFKA)).splitlines()
    assert (
        first
        == "Flink has no connector 'kafka': its jar is missing. Available: blackhole, datagen."
    )
    assert command == "Get it: akdl jars kafka"
    assert travels == "It travels with jobs: useLocalEnv(2, config={'jars': ['kafka']});"
    assert place == f"or copy it into {lib_folder()}, and into the lib folder of a cluster."


def test_missing_jar_of_a_format_is_named_with_the_command() -> None:
    text = "Could not find any format factory for identifier 'parquet' in the classpath.\n\tat org.apache"
    told = str(missing_jar(text))
    assert told.startswith(
        "Flink has no format 'parquet': its jar is missing. Available: canal-json, csv, "
    )
    assert "akdl jars parquet\n" in told
    told = str(missing_jar(KAFKA.replace("'kafka'", "'jdbc'")))
    assert "no connector 'jdbc': its jar" in told and "akdl jars jdbc-postgresql\n" in told


def test_missing_plugin_of_a_storage_is_named_with_the_command() -> None:
    text = "Caused by: org.apache: Could not find a file system implementation for scheme '{}'. The scheme is ..."
    told = str(missing_jar(text.format("s3a")))
    assert (
        told.startswith("Flink needs its plugin for s3:// addresses. ")
        and "'jars': ['s3']" in told
        and "akdl jars s3 prints" in told
    )
    assert missing_jar(text.format("gs")) is None


def test_missing_jar_of_our_model_provider_is_named() -> None:
    told = str(
        missing_jar(
            KAFKA.replace("'kafka'", "'akdl'").replace(
                "DynamicTableFactory", "ModelProviderFactory"
            )
        )
    )
    assert told.startswith("Flink has no model provider 'akdl': its jar is missing. Available: ")
    assert "config={'jars': ['akdl']}" in told


def test_missing_jar_of_our_model_provider_is_named_where_flink_has_none() -> None:
    text = """An error occurred while calling o50.executeSql.
: org.apache.flink.table.api.ValidationException: Unable to create a model provider for model 'a.b.half'.

Model options are:

'path'='/any/model'
'provider'='akdl'
\tat org.apache.flink.table.factories.FactoryUtil.createModelProvider(FactoryUtil.java:329)
Caused by: org.apache.flink.table.api.ValidationException: Could not find any factories that implement \
'org.apache.flink.table.factories.ModelProviderFactory' in the classpath.
"""
    told = str(missing_jar(text)).splitlines()
    assert told[:2] == [
        "Flink has no model provider 'akdl': its jar is missing.",
        "Get it: akdl jars akdl",
    ]
    assert "config={'jars': ['akdl']}" in told[2]
    assert "needs a jar built for Flink" in str(missing_jar(text.replace("'akdl'", "'openai'")))


def test_misspelled_connector_is_answered_with_the_nearest_name() -> None:
    told = str(missing_jar(KAFKA.replace("'kafka'", "'datagne'")))
    assert told.startswith(
        "Flink has no connector 'datagne' (did you mean 'datagen'?). Available: blackhole, datagen.\n"
    )
    told = str(
        missing_jar(
            KAFKA.replace("'kafka'", "'hive'").replace("DynamicTableFactory", "CatalogFactory")
        )
    )
    assert told.startswith(
        "Flink has no catalog 'hive'. Available: blackhole, datagen.\nA catalog that is not part of Flink"
    )


@pytest.mark.parametrize(
    "text", ["", "Could not find any file", "java.lang.ArithmeticException: / by zero"]
)
def test_errors_without_a_missing_jar_get_no_advice(text: str) -> None:
    assert missing_jar(text) is None


def test_connectors_and_formats_of_a_folder_are_read_from_its_jars(tmp_path: pathlib.Path) -> None:
    assert {
        ("connector", "filesystem"),
        ("connector", "datagen"),
        ("format", "csv"),
        ("format", "json"),
    } <= set(in_folder(lib_folder()))
    with zipfile.ZipFile(tmp_path / "kafka.jar", "w") as jar:
        jar.writestr(
            "META-INF/services/org.apache.flink.table.factories.Factory",
            "# licence\norg.apache.flink.streaming.connectors.kafka.table.KafkaDynamicTableFactory\n\norg.example.OwnFactory\n",
        )
    (tmp_path / "damaged.jar").write_bytes(b"no jar")
    assert (
        in_folder(str(tmp_path)) == [("connector", "kafka")]
        and in_folder(str(tmp_path / "nowhere")) == []
    )


@pytest.mark.flink
def test_jars_of_the_user_are_sent_with_those_of_flink(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.jar", "w") as jar:
        jar.writestr("akdl/tests/own.txt", "found")
    url = (tmp_path / "own.jar").as_uri()
    with serving(lambda path: {}) as cluster:
        config = {"pipeline.jars": url}
        env = useRemoteEnv("127.0.0.1", int(cluster["rest.port"]), 1, config=config).senv
        jars = str(
            env._j_stream_execution_environment.getConfiguration().toMap().get("pipeline.jars")
        )
    resetEnv()
    assert url in jars and "flink-python" in jars
    assert (
        get_gateway()
        .jvm.Thread.currentThread()
        .getContextClassLoader()
        .getResource("akdl/tests/own.txt")
        is not None
    )


@pytest.mark.flink
def test_table_without_its_jar_is_an_error_with_the_command(env: MLEnv) -> None:
    tables = env.btenv
    tables.execute_sql(
        "CREATE TEMPORARY TABLE no_kafka (a INT) WITH ('connector' = 'kafka', 'topic' = 'x')"
    )
    options = "'connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'parquet'"
    tables.execute_sql(f"CREATE TEMPORARY TABLE no_parquet (a INT) WITH ({options})")
    one_row = tables.sql_query("SELECT * FROM (VALUES (1)) AS rows_of (a)")
    calls: dict[str, Callable[[], Any]] = {
        "connector 'kafka'": lambda: tables.sql_query("SELECT * FROM no_kafka"),
        "format 'parquet'": lambda: one_row.execute_insert("no_parquet"),
    }
    for words, call in calls.items():
        with pytest.raises(ConfigurationError, match=words) as raised:
            call()
        assert "akdl jars " in str(raised.value) and len(str(raised.value).splitlines()) == 4
    with pytest.raises(Exception, match="Object 'nowhere' not found"):  # others are Flink's
        tables.sql_query("SELECT * FROM nowhere")
