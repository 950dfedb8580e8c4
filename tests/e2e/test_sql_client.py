"""Models in statements of Flink's SQL client and of a Java program, which send them through the SQL
gateway to a cluster, as docs/ml_predict.md says.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from bridge.exceptions import ConfigurationError
from operators.errors.missing_jars import flink_version
from operators.flink.jars import paths_of
from operators.flink.java import ensure_java
from tests.support.deadline import DEADLINE_S
from tests.support.flink_cluster import FLINK_HOME, flink_cluster
from tests.support.leftovers import wait_until
from tests.support.ports import answers, free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.own_processes]

GATEWAY = "org.apache.flink:flink-sql-gateway:{}"
# The driver, and the logging that it expects of a Java program.
JDBC = ("org.apache.flink:flink-sql-jdbc-driver-bundle:{}", "org.slf4j:slf4j-api:1.7.36")
SCORE = """
def load():
    return lambda batch: {"y": 0.5 * next(iter(batch.values())) + 2}
"""
STATEMENTS = """
SET 'sql-client.execution.result-mode' = 'tableau';
SET 'execution.runtime-mode' = 'batch';
SET 'python.files' = '{folder}/my_models.py';
SET 'python.executable' = '{python}';
SET 'python.client.executable' = '{python}';
CREATE TEMPORARY FUNCTION half AS 'my_models.half' LANGUAGE PYTHON;
CREATE TEMPORARY MODEL half INPUT (x FLOAT) OUTPUT (y FLOAT)
WITH ('provider' = 'akdl', 'path' = '{folder}/score.py:load');
CREATE TEMPORARY TABLE points (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '300',
'fields.x.kind' = 'sequence', 'fields.x.start' = '1', 'fields.x.end' = '300');
SELECT COUNT(*) AS n, SUM(y) AS by_model, SUM(half(x)) AS by_function
FROM ML_PREDICT(TABLE points, MODEL half, DESCRIPTOR(x));
CREATE TEMPORARY VIEW holes AS SELECT NULLIF(x, 7) AS x FROM points;
SELECT y FROM ML_PREDICT(TABLE holes, MODEL half, DESCRIPTOR(x));
"""
BY_JDBC = STATEMENTS.split(";")[1:9]  # to the query with one row


def by_jdbc(class_path: str, port: int, statements: list[str]) -> list[object]:
    """Return the row that the last statement finds, as a Java program gets it."""
    java, token = launch_gateway(classpath=class_path, die_on_exit=True, enable_auth=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=java, auth_token=token))
    try:
        jvm = gateway.jvm
        driven = jvm.org.apache.flink.table.jdbc.FlinkDriver()
        connection = driven.connect(f"jdbc:flink://localhost:{port}", jvm.java.util.Properties())
        statement = connection.createStatement()
        for text in statements[:-1]:
            statement.execute(text)
        found = statement.executeQuery(statements[-1])
        assert found.next()
        row = [found.getObject(number) for number in (1, 2, 3)]
        connection.close()
        return row
    finally:
        gateway.shutdown()


@pytest.mark.fault(
    "prediction", "Models answer in SQL on a cluster, and a bad row is named in the client's error"
)
def test_models_answer_in_the_sql_client_of_a_cluster(tmp_path: pathlib.Path) -> None:
    ensure_java()
    try:
        of_flink = [each.format(flink_version()) for each in (GATEWAY, *JDBC)]
        jars = paths_of(["akdl", *of_flink])
    except ConfigurationError as error:
        pytest.skip(f"Flink's SQL gateway cannot be had: {error}")
    provider, gateway, *driver = jars
    (tmp_path / "score.py").write_text(SCORE)
    (tmp_path / "my_models.py").write_text(
        "from operators import model_function\n"
        f"half = model_function('{tmp_path}/score.py:load', 'x FLOAT', 'y FLOAT')\n"
    )
    values = {"folder": tmp_path, "python": sys.executable}
    (tmp_path / "query.sql").write_text(STATEMENTS.format(**values))
    (opt := tmp_path / "opt").mkdir()
    for jar in [*(FLINK_HOME / "opt").iterdir(), pathlib.Path(gateway)]:
        (opt / jar.name).symlink_to(jar)
    (folder := tmp_path / "cluster").mkdir()
    (port,) = free_ports(1)
    with flink_cluster(folder, task_managers=3, slots=1, jars=[provider]) as cluster:
        variables = {**cluster.variables, "FLINK_OPT_DIR": str(opt)}
        # The gateway would bind to the port of the cluster's REST endpoint.
        names = {"address": "localhost", "port": port, "bind-port": port}
        address = [f"-Dsql-gateway.endpoint.rest.{name}={each}" for name, each in names.items()]
        log = (tmp_path / "gateway.log").open("wb")
        with log, subprocess.Popen(
            [FLINK_HOME / "bin" / "sql-gateway.sh", "start-foreground", *address],
            env=variables, stdin=-3, stdout=log, stderr=log, start_new_session=True,
        ) as server:  # fmt: skip
            try:
                wait_until(
                    lambda: server.poll() is not None or answers(port),
                    "it listens",
                    3 * DEADLINE_S,
                )
                assert server.poll() is None, (tmp_path / "gateway.log").read_text()
                shown = subprocess.run(
                    [FLINK_HOME / "bin" / "sql-client.sh", "gateway", "-e", f"localhost:{port}", "-f", tmp_path / "query.sql"],
                    env=variables, stdin=-3, stdout=-1, stderr=-2, text=True, timeout=10 * DEADLINE_S,
                ).stdout  # fmt: skip
                row = by_jdbc(
                    os.pathsep.join(driver), port, [each.format(**values) for each in BY_JDBC]
                )
            finally:
                server.terminate()
    # the sum of x / 2 + 2 for x from 1 to 300
    assert "| 300 |  23175.0 |     23175.0 |" in shown and row == [300, 23175.0, 23175.0], shown
    assert "ML_PREDICT: row " in shown and "column 'x': expected a value, got null" in shown, shown
