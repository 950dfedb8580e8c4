"""ML_PREDICT in jobs of SQL, and its process alone. The models are functions, which need no
TensorFlow.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import itertools
import json
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pyarrow as pa
import pytest

from akdl.process.preflight import RUN_MODULE
from bridge.exceptions import ConfigurationError, SchemaError, TaskError
from operators import MLEnv, resetEnv, useLocalEnv
from operators.errors.flink_errors import readable
from operators.serve.ml_predict import settings_of
from tests.support.deadline import SLOWER
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, is_running, task_processes, wait_until

SCORE = """
import numpy as np

def load():
    def predict(batch):
        print("not for the pipe")
        first = next(iter(batch.values()))
        if "x" in batch:
            return {"y": 2 * first}
        text = np.array([f"<{each}>" for each in batch["s"]], object)
        return {"y": batch["f"] + batch["d"] + batch["i"], "big": batch["j"], "text": text, "no": ~batch["b"],
                "pair": np.stack([first, batch["d"]], 1)}
    return predict
"""
ROWS = """
(1, CAST(2 AS SMALLINT), CAST(1.25 AS DECIMAL(10, 2)), 9007199254740993, 'ü', TRUE),
(2, CAST(3 AS SMALLINT), CAST(2.5 AS DECIMAL(10, 2)), -7, CAST(NULL AS STRING), FALSE)
"""


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("models") / "score.py"
    file.write_text(SCORE)
    return f"{file}:load"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, score: str) -> Iterator[MLEnv]:
    """An environment with the provider, compiled here, a model and a table of the numbers from 1 to
    3,000.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        env = useLocalEnv(
            1,
            config={"jars": ["akdl"], "table.exec.async-ml-predict.max-concurrent-operations": 100},
        )
        for tables in (env.btenv, env.stenv):
            tables.execute_sql(f"""
                CREATE TEMPORARY MODEL twice INPUT (x DOUBLE) OUTPUT (y DOUBLE)
                WITH ('provider' = 'akdl', 'path' = '{score}')""")
            tables.execute_sql("""
                CREATE TEMPORARY TABLE numbers (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3000',
                'fields.x.kind' = 'sequence', 'fields.x.start' = '1', 'fields.x.end' = '3000')""")
        yield env
    resetEnv()


def rows_of(tables: Any, query: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(query).collect() as found:
        return list(map(tuple, found))


def relays() -> list[psutil.Process]:
    """Return the processes of ML_PREDICT below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "operators.serve.ml_predict" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def mini_batches(models: MLEnv) -> Iterator[None]:
    """Streams aggregate rows in groups: each row whose change is collected takes some
    milliseconds.
    """
    config = models.stenv.get_config()
    options = {"enabled": "true", "allow-latency": "1 s", "size": "3000"}
    for name, value in options.items():
        config.set(f"table.exec.mini-batch.{name}", value)
    yield
    for name in options:
        config.get_configuration().remove_config(f"table.exec.mini-batch.{name}")


@pytest.mark.flink
def test_ml_predict_carries_all_types(models: MLEnv, score: str) -> None:
    tables = models.btenv
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL many INPUT (f FLOAT, d DOUBLE, i INT, j BIGINT, s STRING, b BOOLEAN)
        OUTPUT (y DOUBLE NOT NULL, big BIGINT, text STRING, `no` BOOLEAN, pair ARRAY<FLOAT>)
        WITH ('provider' = 'akdl', 'path' = '{score}', 'params' = '{{"defaults": "{{\\"s\\": \\"none\\"}}"}}')""")
    tables.execute_sql(
        f"CREATE TEMPORARY VIEW many_rows AS SELECT * FROM (VALUES {ROWS}) AS t (id, i, d, j, s, b)"
    )
    query = "SELECT * FROM ML_PREDICT(TABLE many_rows, MODEL many, DESCRIPTOR(i, d, i, j, s, b)) ORDER BY id"
    first, second = rows_of(tables, query)
    assert first[6:] == (5.25, 9007199254740993, "<ü>", False, [2.0, 1.25])
    assert second[4:] == (None, False, 8.5, -7, "<none>", True, [3.0, 2.5])


def test_starts_of_modules_are_the_same_in_java_and_python() -> None:
    text = (
        importlib.resources.files("bridge.serving")
        .joinpath("SqlModels.java")
        .read_text(encoding="utf-8")
    )
    parts = re.search(r"RUN_MODULE =\s+((?:\+?\s*\"[^\"]*\"\s*)+);", text)
    assert parts and "".join(re.findall(r'"([^"]*)"', parts[1])) == RUN_MODULE
    assert '"-m"' not in text


@pytest.mark.flink
def test_instants_are_in_utc_and_times_stay(models: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "show.py").write_text("""
import numpy as np

def load():
    return lambda batch: {"y": np.array([str(each) for each in batch["t"]], object)}
""")
    tables = models.btenv
    tables.get_config().set("table.local-time-zone", "Asia/Shanghai")
    try:
        tables.execute_sql("""
            CREATE TEMPORARY VIEW times AS
            SELECT t, CAST(t AS TIMESTAMP_LTZ(3)) AS instant FROM (VALUES (TIMESTAMP '2024-05-31 18:00:00.000')) AS v (t)""")
        queries = []
        for name, type_, column in (
            ("a", "TIMESTAMP(3)", "t"),
            ("b", "TIMESTAMP(3)", "instant"),
            ("c", "TIMESTAMP_LTZ(3)", "instant"),
        ):
            tables.execute_sql(f"""
                CREATE TEMPORARY MODEL shows_{name} INPUT (t {type_}) OUTPUT (y STRING)
                WITH ('provider' = 'akdl', 'path' = '{tmp_path}/show.py:load')""")
            queries.append(
                f"SELECT '{name}', y FROM ML_PREDICT(TABLE times, MODEL shows_{name}, DESCRIPTOR({column}))"
            )
        found = rows_of(tables, " UNION ALL ".join(queries))
    finally:
        tables.get_config().get_configuration().remove_config("table.local-time-zone")
    assert sorted(found) == [
        ("a", "2024-05-31T18:00:00.000000"),
        ("b", "2024-05-31T10:00:00.000000"),
        ("c", "2024-05-31T10:00:00.000000"),
    ]


AGGREGATE = "SELECT COUNT(*), MIN(y), SUM(y - 2 * x) FROM ML_PREDICT(TABLE numbers, MODEL twice, DESCRIPTOR(x))"


@pytest.mark.long
@pytest.mark.flink
def test_ml_predict_feeds_an_aggregate_of_a_stream(models: MLEnv, mini_batches: None) -> None:
    """That of a batch is the query that follows a kill."""
    assert rows_of(models.stenv, AGGREGATE)[-1] == (3000, 2.0, 0.0)
    wait_until(lambda: not relays(), "the process has ended with the query")


@pytest.mark.flink
@pytest.mark.fault(
    "prediction",
    "ML_PREDICT fails with the words of the model for a bad row, or puts them into a column",
)
def test_ml_predict_fails_or_fills_the_error_column_for_a_bad_row(
    models: MLEnv, score: str
) -> None:
    tables = models.btenv
    tables.execute_sql(
        "CREATE TEMPORARY VIEW few AS SELECT NULLIF(x, 2) AS x FROM (VALUES (1), (2)) AS t (x)"
    )
    query = "SELECT * FROM ML_PREDICT(TABLE few, MODEL {}, DESCRIPTOR(x))"
    with pytest.raises(
        Exception, match="^ML_PREDICT: row . of a batch cannot be predicted: .* got null"
    ) as raised:
        rows_of(tables, query.format("twice"))
    assert "answers, got 0" not in str(raised.value) and "prepareLoadNextBatch" not in str(
        raised.value
    )
    told = str(readable(raised.value))
    assert "column 'x'" in told and told.endswith(
        f"The model is {score}, its inputs are {{'x': None}}"
    ), told
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL lenient INPUT (x DOUBLE) OUTPUT (why STRING, y DOUBLE)
        WITH ('provider' = 'akdl', 'path' = '{score}', 'params' = '{{"errorCol": "why"}}')""")
    found = sorted(rows_of(tables, query.format("lenient")), key=str)
    assert (
        found[0] == (1, None, 2.0)
        and found[1][0] is found[1][2] is None
        and "got null" in found[1][1]
    )


@pytest.mark.flink
@pytest.mark.fault(
    "prediction",
    "Nulls stay nulls in ML_PREDICT, and no row gets the answer of another, in queries side by side",
)
def test_ml_predict_keeps_nulls_apart_in_concurrent_queries(
    models: MLEnv, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "add.py").write_text(
        "def load():\n    return lambda batch: {'y': batch['x0'] + 2 * batch['x1']}\n"
    )
    tables = models.btenv
    tables.execute_sql("""
        CREATE TEMPORARY VIEW holes AS
        SELECT NULLIF(CAST(x AS FLOAT), 7 * (x / 7)) AS x0, NULLIF(CAST(x AS DECIMAL(9, 1)), 3 * (x / 3)) AS x1 FROM numbers""")
    queries = []
    for name, rows, params in [
        ("strict", 7, '{"errorCol": "why"}'),
        ("filled", 100, '{"errorCol": "why", "defaults": "{\\"x1\\": 1}"}'),
    ]:
        tables.execute_sql(f"""
            CREATE TEMPORARY MODEL {name} INPUT (x0 FLOAT, x1 DOUBLE) OUTPUT (y DOUBLE, why STRING)
            WITH ('provider' = 'akdl', 'path' = '{tmp_path}/add.py:load', 'params' = '{params}')""")
        queries.append(f"""
            SELECT '{name}', COUNT(*), COUNT(y), COUNT(why),
            SUM(ABS(y - x0 - 2 * {"x1" if name == "strict" else "COALESCE(x1, 1)"}))
            FROM ML_PREDICT(TABLE holes, MODEL {name}, DESCRIPTOR(x0, x1), MAP['max-concurrent-operations', '{rows}'])""")
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(tables.execute_sql(query).collect()) for query in queries]
        found = [tuple(row) for each in running for row in each]
    # of 3,000 numbers 428 are multiples of 7, 1,000 of 3, and 142 of both
    assert found == [("strict", 3000, 1714, 1286, 0.0), ("filled", 3000, 2572, 428, 0.0)]


@pytest.mark.flink
@pytest.mark.fault(
    "prediction",
    "A killed process of ML_PREDICT fails its query by name, and not another one of its model",
)
def test_killed_process_of_ml_predict_fails_its_query_alone(models: MLEnv) -> None:
    tables = models.stenv
    tables.execute_sql("""
        CREATE TEMPORARY TABLE endless (x DOUBLE) WITH ('connector' = 'datagen', 'rows-per-second' = '50')""")
    query = "SELECT y FROM ML_PREDICT(TABLE endless, MODEL twice, DESCRIPTOR(x))"
    with contextlib.closing(tables.execute_sql(query).collect()) as other:
        next(other)
        first = relays()
        with tables.execute_sql(query).collect() as found:
            next(found)
            for process in set(relays()) - set(first):
                process.kill()
            with pytest.raises(Exception, match="ML_PREDICT"):
                list(found)
        for _ in range(100):
            next(other)
    wait_until(lambda: not relays(), "the process has ended with the query")
    for processes, message in (
        (relays, "the process that predicts ended with status 137"),
        (task_processes, "the process that serves the model has ended"),
    ):
        with tables.execute_sql(query).collect() as found:
            next(found)
            for process in processes():
                process.kill()
            with pytest.raises(Exception, match="ML_PREDICT") as raised:
                for _ in found:
                    pass
        told = readable(raised.value)
        assert isinstance(told, TaskError) and str(told).startswith(f"ML_PREDICT: {message}")
        wait_until(lambda: not relays(), "the process has ended with the query")
    # In batch mode: a collected stream would give a changed sum for each row.
    assert rows_of(models.btenv, AGGREGATE) == [(3000, 2.0, 0.0)]


@pytest.mark.flink
@pytest.mark.fault(
    "hosts", "A query with ML_PREDICT that is cancelled while its model loads leaves no process"
)
def test_query_cancelled_while_its_model_loads_leaves_no_process(
    models: MLEnv, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "slow.py").write_text(f"""
import os, pathlib, time

def load():
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(600)
""")
    tables = models.btenv
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL slow INPUT (x DOUBLE) OUTPUT (y DOUBLE)
        WITH ('provider' = 'akdl', 'path' = '{tmp_path}/slow.py:load')""")
    running = tables.execute_sql(
        "SELECT y FROM ML_PREDICT(TABLE numbers, MODEL slow, DESCRIPTOR(x))"
    )
    wait_until(lambda: bool(list(tmp_path.glob("[0-9]*"))), "the model loads", 4 * DEADLINE_S)
    (pid,) = [int(path.name) for path in tmp_path.glob("[0-9]*")]
    running.get_job_client().cancel().result()
    wait_until(lambda: not relays() and not is_running(pid), "its processes have ended")


@pytest.mark.flink
def test_newer_model_takes_over_while_ml_predict_runs(
    models: MLEnv, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "scaled.py").write_text("""
import pathlib

def load(path):
    factor = float(pathlib.Path(path, "factor").read_text())
    return lambda batch: {"y": 0 * batch["x"] + factor}
""")
    for name in ("first", "newer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "factor").write_text("2" if name == "first" else "3")
    (tmp_path / "folder").mkdir()
    params = {
        "modelPath": f"{tmp_path}/first",
        "modelStreamFilePath": f"{tmp_path}/folder",
        "modelStreamScanInterval": 0.1,
    }
    tables = models.stenv
    tables.execute_sql("""
        CREATE TEMPORARY TABLE steady (x DOUBLE) WITH ('connector' = 'datagen', 'rows-per-second' = '50')""")
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL scaled INPUT (x DOUBLE) OUTPUT (y DOUBLE)
        WITH ('provider' = 'akdl', 'path' = '{tmp_path}/scaled.py:load', 'params' = '{json.dumps(params)}')""")
    query = "SELECT y FROM ML_PREDICT(TABLE steady, MODEL scaled, DESCRIPTOR(x))"
    with tables.execute_sql(query).collect() as found:
        assert next(found)[0] == 2.0
        (tmp_path / "newer").rename(tmp_path / "folder" / str(int(time.time())))
        deadline = time.monotonic() + 2 * DEADLINE_S
        factors = {row[0] for row in itertools.takewhile(lambda row: row[0] != 3.0, found)}
        assert factors <= {2.0} and time.monotonic() < deadline


def test_models_are_newer_from_the_start_of_the_query_on(
    score: str, tmp_path: pathlib.Path
) -> None:
    given = json.loads(line(score, modelPath=str(tmp_path), modelStreamFilePath=str(tmp_path)))
    settings, _ = settings_of(json.dumps({**given, "begun": 1717171717}).encode())
    assert json.loads(settings.process.serving)["modelsFromMs"] == "1717171717000"


@pytest.mark.long
@pytest.mark.flink
def test_options_of_flink_limit_ml_predict(models: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "count.py").write_text("""
import time
import numpy as np

def load(seconds=0):
    def predict(batch):
        time.sleep(seconds)
        return {"y": np.full(len(batch["x"]), float(len(batch["x"])))}
    return predict
""")
    tables = models.btenv
    for name, seconds in (("counts", 0), ("sleeps", 3)):
        tables.execute_sql(f"""
            CREATE TEMPORARY MODEL {name} INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'akdl',
            'path' = '{tmp_path}/count.py:load', 'params' = '{{"userParams": {{"seconds": {seconds}}}}}')""")

    def query(model: str, options: str) -> str:
        return (
            f"SELECT MAX(y) FROM ML_PREDICT(TABLE numbers, MODEL {model}, DESCRIPTOR(x){options})"
        )

    # The fixture allows 100, and rows that wait are predicted together.
    ((many,),) = rows_of(tables, query("counts", ""))
    seven = ", MAP['max-concurrent-operations', '7', 'output-mode', 'ALLOW_UNORDERED']"
    ((few,),) = rows_of(tables, query("counts", seven))
    assert 1 < few <= 7 < many <= 100
    with pytest.raises(Exception) as raised:
        rows_of(tables, query("sleeps", ", MAP['timeout', '1 s']"))
    told = str(readable(raised.value))
    assert "table.exec.async-ml-predict.timeout" in told and told.count("\n") < 3, told
    wait_until(lambda: not relays(), "the process has ended with the query")


@pytest.mark.flink
@pytest.mark.parametrize(
    ("columns", "types", "message"),
    [
        (
            "x",
            "INPUT (x DOUBLE) OUTPUT (z DOUBLE)",
            "ML_PREDICT: the model failed: .*: expected a dict with the outputs 'z', got a dict with 'y'",
        ),
        (
            "s",
            "INPUT (x DOUBLE) OUTPUT (y DOUBLE)",
            "Flink: org.apache.flink.table.api.ValidationException: .*'s'",
        ),
        *(
            (
                column,
                f"INPUT (x {type}) OUTPUT (y DOUBLE)",
                rf"Flink: .*ML_PREDICT: input 'x': expected {re.escape(type)}, got {got}: CAST it",
            )
            for column, type, got in [
                ("d", "DECIMAL(5, 2)", "1.239"),
                ("x", "DECIMAL(2, 1)", "[0-9]{2,}"),
                ("t", "TIMESTAMP(3)", "2024-01-01T00:00:00.123456"),
            ]
        ),
    ],
)
def test_ml_predict_refuses_columns_that_do_not_fit_the_model(
    columns: str, types: str, message: str, models: MLEnv, score: str
) -> None:
    tables = models.btenv
    tables.execute_sql(
        "CREATE TEMPORARY VIEW IF NOT EXISTS texts AS SELECT x, 'a' AS s, 1.239 AS d,"
        " CAST('2024-01-01 00:00:00.123456' AS TIMESTAMP(6)) AS t FROM numbers"
    )
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL wrong {types} WITH ('provider' = 'akdl', 'path' = '{score}')""")
    try:
        with pytest.raises(Exception) as raised:
            rows_of(
                tables, f"SELECT * FROM ML_PREDICT(TABLE texts, MODEL wrong, DESCRIPTOR({columns}))"
            )
    finally:
        tables.execute_sql("DROP TEMPORARY MODEL wrong")
    told = str(readable(raised.value))
    assert re.match(message, told) and told.count("\n") < 8, told


@pytest.mark.flink
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'path' = '/absent/score.py:load'", ".*/absent/score.py"),
        (
            "'path' = '{}', 'params' = '['",
            "ML_PREDICT: the option 'params' is not an object of JSON",
        ),
        ("'path' = '{}', 'parms' = '['", "Unsupported options:\n\nparms"),
        ("'params' = '{{}}'", "Missing required options are:\n\npath"),
    ],
)
def test_ml_predict_refuses_wrong_options(
    options: str, message: str, models: MLEnv, score: str
) -> None:
    tables = models.btenv
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL wrong INPUT (x DOUBLE) OUTPUT (y DOUBLE)
        WITH ('provider' = 'akdl', {options.format(score)})""")
    try:
        with pytest.raises(Exception, match=message):
            rows_of(tables, "SELECT * FROM ML_PREDICT(TABLE numbers, MODEL wrong, DESCRIPTOR(x))")
    finally:
        tables.execute_sql("DROP TEMPORARY MODEL wrong")


def line(path: str, outputs: str = "`y` DOUBLE", **params: object) -> bytes:
    given = {
        "path": path,
        "inputs": "ROW<`x` DOUBLE> NOT NULL",
        "outputs": f"ROW<{outputs}> NOT NULL",
        "params": json.dumps(params),
    }
    return json.dumps(given).encode() + b"\n"


def test_settings_of_ml_predict_follow_from_its_options(score: str) -> None:
    settings, result = settings_of(line(score, "`e` STRING, `y` DOUBLE", errorCol="e"))
    assert (settings.output_schema.names, settings.error_column, result.names) == (
        ["y"],
        "e",
        ["e", "y"],
    )
    for outputs in ("`y` DOUBLE", "`e` INT, `y` DOUBLE"):
        with pytest.raises(
            ConfigurationError,
            match="ML_PREDICT: OUTPUT of the model lacks the errorCol 'e', a STRING",
        ):
            settings_of(line(score, outputs, errorCol="e"))
    with pytest.raises(
        ConfigurationError, match="OUTPUT 'y' is NOT NULL, but with errorCol bad rows have nulls"
    ):
        settings_of(line(score, "`e` STRING, `y` DOUBLE NOT NULL", errorCol="e"))
    with pytest.raises(SchemaError, match="MULTISET"):
        settings_of(line(score, "`y` MULTISET<INT>"))
    with pytest.raises(ConfigurationError, match="the option 'params' is not an object of JSON"):
        settings_of(line(score).replace(b'"{}"', b'"3"'))


@contextlib.contextmanager
def predicting(path: str, **params: object) -> Iterator[tuple[subprocess.Popen[bytes], list[Any]]]:
    """A process that predicts two rows, and its answers."""
    command = [sys.executable, "-c", RUN_MODULE, "operators.serve.ml_predict"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(line(path, **params))
        batch = pa.record_batch([pa.array([1.0, 2.5])], names=["x"])
        pa.ipc.new_stream(process.stdin, batch.schema).write_batch(batch)
        process.stdin.flush()
        answers = pa.ipc.open_stream(process.stdout)
        assert answers.read_next_batch().num_rows == 0  # it is loaded
        yield process, answers.read_next_batch()["y"].to_pylist()
        process.stdin.close()
        assert process.stderr.read() == b"" and process.wait(2 * DEADLINE_S) == 0


@pytest.mark.process
@pytest.mark.fault("hosts", "The process of ML_PREDICT ends when its JVM dies")
def test_process_of_ml_predict_ends_with_its_input(score: str) -> None:
    with predicting(score) as (_, answer):
        assert answer == [2.0, 5.0]
        (model,) = task_processes()
    wait_until(lambda: not is_running(model.pid), "the model's process has ended")


@pytest.mark.process
@pytest.mark.fault("prediction", "A model that stalls in SQL is tried again in a fresh process")
def test_stalled_model_of_ml_predict_is_tried_again(tmp_path: pathlib.Path) -> None:
    (tmp_path / "stalls.py").write_text(f"""
import pathlib, time

def load():
    seen = pathlib.Path({str(tmp_path)!r}, "seen")
    is_second = seen.exists()
    seen.touch()
    return lambda batch: {{"y": batch["x"]}} if is_second else time.sleep(600)
""")
    with predicting(f"{tmp_path}/stalls.py:load", inferTimeout=1.0 * SLOWER) as (_, answer):
        assert answer == [1.0, 2.5]
