"""What a predictor leaves of a table as it is: updates, times, the order of rows, columns of every
type.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

from akdl.serving.loaded_model import RowsError
from bridge.exceptions import ConfigurationError
from operators import (
    MemSourceBatchOp,
    MemSourceStreamOp,
    StreamOperator,
    TFSavedModelPredictBatchOp,
    TFSavedModelPredictor,
    TFSavedModelPredictStreamOp,
    getMLEnv,
    useLocalEnv,
)
from tests.akdl.serving import models
from tests.e2e.stream_jobs import all_rows
from tests.e2e.streams import counting

pytestmark = [pytest.mark.flink, pytest.mark.tf]
X = "ARRAY[CAST({} AS FLOAT), CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x, CAST(0 AS BIGINT) AS k"


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(1)


def predicted(table: Any, **params: Any) -> Any:
    """The table with p, which is twice the first number of x."""
    values = {
        "modelPath": models.scaled(2.0),
        "outputSchemaStr": "p DOUBLE",
        "selectedCols": ["x", "k"],
        **params,
    }
    return (
        StreamOperator.fromTable(table).link(TFSavedModelPredictStreamOp(**values)).getOutputTable()
    )


def test_updates_pass_through_a_predictor_as_updates() -> None:
    table_env = getMLEnv().stenv
    ids = counting(table_env, 4).getOutputTable()
    counts = table_env.sql_query(
        f"SELECT MOD(id, 2) AS g, COUNT(*) AS n FROM {ids} GROUP BY MOD(id, 2)"
    )
    table = table_env.sql_query(f"SELECT g, n, {X.format('n')} FROM {counts}")
    with predicted(table, reservedCols=["g", "n"]).execute().collect() as rows:
        found = [(str(row.get_row_kind()), *row) for row in rows]
    assert found == [
        ("+I", 0, 1, 2.0), ("+I", 1, 1, 2.0), ("-U", 0, 1, 2.0), ("+U", 0, 2, 4.0), ("-U", 1, 1, 2.0), ("+U", 1, 2, 4.0),
    ]  # fmt: skip


@pytest.mark.long
def test_a_result_with_updates_can_be_aggregated_on() -> None:
    table_env = getMLEnv().stenv
    ids = counting(table_env, 100).getOutputTable()
    counts = table_env.sql_query(
        f"SELECT MOD(id, 7) AS g, COUNT(*) AS n FROM {ids} GROUP BY MOD(id, 7)"
    )
    result = predicted(
        table_env.sql_query(f"SELECT g, n, {X.format('n')} FROM {counts}"), reservedCols=["g"]
    )
    with table_env.sql_query(f"SELECT SUM(p), COUNT(*) FROM {result}").execute().collect() as rows:
        assert tuple(list(rows)[-1]) == (200.0, 7)


def test_a_table_and_a_local_predictor_agree_on_a_model_without_names() -> None:
    params: dict[str, Any] = {
        "modelPath": models.identity("float32", (None, 2)), "outputSchemaStr": "y ARRAY<FLOAT>", "selectedCols": ["v", "u"],
        "defaults": {"u": 0.5}, "reservedCols": ["id"],
    }  # fmt: skip
    rows = [(1, 1.5, 2), (2, None, 3), (3, 4.5, 5)]
    schema = "id BIGINT, u FLOAT, v INT"
    table = MemSourceStreamOp(rows, schema).getOutputTable()
    with predicted(table, **params).execute().collect() as found:
        of_table = [(row[0], list(row[1])) for row in found]
    with TFSavedModelPredictor(**params).collectLocalPredictor(schema) as predictor:
        of_program = predictor.map_batch(rows)
    assert of_table == of_program == [(1, [2.0, 1.5]), (2, [3.0, 0.5]), (3, [5.0, 4.5])]


def test_event_time_and_watermarks_go_through() -> None:
    table_env = getMLEnv().stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE timed (id BIGINT, `at` AS TO_TIMESTAMP_LTZ(id * 1000, 3), `now` AS PROCTIME(), "
        "WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH ('connector' = 'datagen', 'number-of-rows' = '20', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '19')"
    )
    table = table_env.sql_query(f"SELECT id, `at`, `now`, {X.format('id')} FROM timed")
    result = predicted(table, reservedCols=["id", "at", "now"])
    types = [
        str(each.getLogicalType().asSummaryString())
        for each in result._j_table.getResolvedSchema().getColumnDataTypes()
    ]
    assert types == [
        "BIGINT",
        "TIMESTAMP_LTZ(3) *ROWTIME*",
        "TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*",
        "DOUBLE",
    ]
    windows = table_env.sql_query(
        f"SELECT window_start, SUM(p), COUNT(`now`) FROM TABLE(TUMBLE(TABLE {result}, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with windows.execute().collect() as rows:
        assert sorted(tuple(row[1:]) for row in rows) == [(90.0, 10), (290.0, 10)]


def test_rows_keep_their_order_and_columns_of_any_type_their_cells() -> None:
    table_env = getMLEnv().stenv
    ids = counting(table_env, 30_000).getOutputTable()
    other = "MAP['k', id] AS m, CAST(ROW(id, 'x') AS ROW<f0 BIGINT, f1 STRING>) AS r, CAST(id AS DECIMAL(20, 2)) AS d, CAST(NULL AS ARRAY<STRING>) AS a"
    result = predicted(
        table_env.sql_query(f"SELECT id, {other}, {X.format('id')} FROM {ids}"),
        reservedCols=["id", "m", "r", "d", "a"],
    )
    view = table_env.sql_query(
        f"SELECT id, m['k'] = id AND t.r.f0 = id AND d = id AND a IS NULL AS same, p FROM {result} AS t"
    )
    found = view.to_pandas()  # collect() takes minutes for so many rows
    assert found["id"].tolist() == list(range(30_000))
    assert found["same"].all()
    assert (found["p"] == 2.0 * found["id"]).all()


@pytest.mark.fault(
    "data",
    "Rows whose model is missing or broken go to the error column, in tables and local predictors",
)
def test_keys_choose_the_model_in_batches_streams_and_programs(tmp_path: pathlib.Path) -> None:
    for name, factor in [("de", 2.0), ("7", 3.0)]:
        shutil.copytree(models.scaled(factor), tmp_path / "models" / name)
    (tmp_path / "models/broken").mkdir()
    params: dict[str, Any] = {
        "modelPath": str(tmp_path / "models"), "modelKeyCol": "land", "modelCol": "version", "outputSchemaStr": "p DOUBLE",
        "selectedCols": ["x", "k"], "reservedCols": ["id"], "errorCol": "why",
    }  # fmt: skip
    lands = ["de", "7", None, "de", "../models/de", "broken", "fr", "7"]
    rows = [(number, land, [1.0, 0.0, float(number)], 0) for number, land in enumerate(lands)]
    schema = "id BIGINT, land STRING, x ARRAY<FLOAT>, k BIGINT"
    batch = MemSourceBatchOp(rows, schema).link(TFSavedModelPredictBatchOp(**params))
    stream = MemSourceStreamOp(rows, schema).link(TFSavedModelPredictStreamOp(**params))
    found = [
        sorted(tuple(row.values()) for row in batch.collectToArrow().to_pylist()),
        sorted(all_rows(stream)),
    ]
    de, seven = f"de{models.SERVED}", f"7{models.SERVED}"
    for of_table in found:
        assert [row[1:3] for row in of_table] == [
            (2.0, de), (6.0, seven), (None, None), (8.0, de), (None, None), (None, None), (None, None), (24.0, seven),
        ]  # fmt: skip
        reasons = {
            row[0]: row[3].partition("column 'land': ")[2] for row in of_table if row[3] is not None
        }
        assert (
            list(reasons) == [2, 4, 5, 6]
            and reasons[2].endswith("got null")
            and reasons[4].endswith("got '../models/de'")
        )
        assert (
            reasons[5].startswith("expected a SavedModel (")
            and reasons[6] == f"there is no model 'fr' in {tmp_path}/models"
        )
    with TFSavedModelPredictor(**params, defaultModel="7").collectLocalPredictor(
        schema
    ) as predictor:
        assert predictor.getOutputColNames() == ["id", "p", "version"]
        assert predictor.map_batch([rows[0], rows[1], rows[6]]) == [
            (0, 2.0, de),
            (1, 6.0, seven),
            (6, 21.0, seven),
        ]
        with pytest.raises(RowsError, match="row 0: column 'land': expected the name of a model"):
            predictor.map(rows[4])


def test_candidate_predicts_the_same_rows_as_the_model() -> None:
    params: dict[str, Any] = {
        "modelPath": models.scaled(2.0), "candidatePath": models.scaled(3.0), "candidateShare": 1.0, "modelCol": "version",
        "outputSchemaStr": "p DOUBLE", "selectedCols": ["x", "k"], "reservedCols": ["id"],
    }  # fmt: skip
    rows = MemSourceStreamOp(
        [(1, [1.0, 0.0, 0.0], 0), (2, [2.0, 0.0, 0.0], 0)], "id INT, x ARRAY<FLOAT>, k BIGINT"
    )
    predict = rows.link(TFSavedModelPredictStreamOp(**params))
    assert predict.getColNames() == ["id", "p", "shadow_p", "version"]
    name = pathlib.Path(models.scaled(2.0)).name + models.SERVED
    assert sorted(all_rows(predict)) == [(1, 2.0, 3.0, name), (2, 4.0, 6.0, name)]
    with pytest.raises(
        ConfigurationError, match="candidatePath: expected no other models next to it"
    ):
        rows.link(TFSavedModelPredictStreamOp(**params, modelKeyCol="id"))
