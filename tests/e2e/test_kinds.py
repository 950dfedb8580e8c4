"""Every kind of model through every door, with models of one multiplication."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from operators import (
    BatchOperator,
    MemSourceBatchOp,
    MemSourceStreamOp,
    PipelineModel,
    PredictBatchOp,
    Predictor,
    PredictStreamOp,
    getMLEnv,
    model_function,
    resetEnv,
    useLocalEnv,
)
from tests.children.local_kind import predicted
from tests.e2e.stream_jobs import all_rows
from tests.support import kinds
from tests.support.environment import ENVIRONMENT

pytestmark = [pytest.mark.flink, pytest.mark.tf]
ROOT = pathlib.Path(__file__).parents[2]
ROWS = [(1, "a", 0.5), (2, "b", 1.5), (3, "b", None)]
COLUMNS = "id INT, k STRING, x FLOAT"


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> Iterator[None]:
    useLocalEnv(1, config={"jars": ["akdl"]})
    yield
    resetEnv()


IN_CI = ".onnx"


@pytest.fixture(
    params=[
        pytest.param(each, marks=pytest.mark.slow if each == IN_CI else pytest.mark.long)
        for each in kinds.KINDS
    ]
)
def kind(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> kinds.Kind:
    return kinds.Kind(request.param, tmp_path)


def test_every_kind_of_model_predicts_in_every_way(
    kind: kinds.Kind, tmp_path: pathlib.Path
) -> None:
    two, three, *_ = kind.scaled(
        two=2.0, three=3.0, keys__a=4.0, keys__b=5.0, newer__1717171717=6.0
    )
    params: dict[str, Any] = {
        **kind.params, "outputSchemaStr": "y DOUBLE", "selectedCols": ["x"], "reservedCols": ["id"], "errorCol": "why",
        "inferTimeout": 60.0, "modelCol": "m",
    }  # fmt: skip
    rows = MemSourceBatchOp(ROWS, COLUMNS)
    pipeline = str(tmp_path / "pipeline.akdl")
    PipelineModel(Predictor(modelPath=two, **params)).save(pipeline)
    loaded = PipelineModel.load(pipeline, trusted=True)
    loaded.getTransformers()[0]._values.update(
        {name: params[name] for name in ("pythonEnv",) if name in params}
    )
    newer = {
        "modelStreamFilePath": str(tmp_path / "newer"),
        "modelStreamStartTime": "2000-01-01 00:00:00",
    }
    given = {each: params[each] for each in ("pythonEnv", "trusted") if each in params}
    given.update(newer)
    if kind.is_function:
        given.update(modelPath=two, userParams={"power": 2})
    path = str(params.get("predictFn", two))
    score = model_function(path, "x FLOAT", "y DOUBLE", errorCol="why", **given)
    name, tables = f"score_{kinds.KINDS.index(kind.name)}", getMLEnv().btenv
    tables.create_temporary_function(name, score)
    tables.execute_sql(f"""
        CREATE TEMPORARY MODEL {name} INPUT (x FLOAT) OUTPUT (y DOUBLE, why STRING) WITH ('provider' = 'akdl',
        'path' = '{path}', 'params' = '{json.dumps({"errorCol": "why", **given})}')""")
    tables.create_temporary_view(f"rows_{name}", rows.getOutputTable())
    in_sql = tables.sql_query(
        f"SELECT id, y, why, 0 * y AS other, '' AS m FROM ML_PREDICT(TABLE rows_{name}, MODEL {name}, DESCRIPTOR(x))"
    )
    results = [
        rows.link(PredictBatchOp(
            modelPath=two, candidatePath=three, candidateShare=1.0, resumeDir=str(tmp_path / "resumed"), idCol="id", **params
        )).select("id, y, why, shadow_y AS other, m"),
        rows.link(PredictBatchOp(modelPath=str(tmp_path / "keys"), modelKeyCol="k", **params)).select(
            "id, y, why, 0 * y AS other, m"
        ),
        loaded.transform(rows).select("id, y, why, 0 * y AS other, m"),
        rows.select(f"id, {name}(x) AS s").select("id, s.y AS y, s.why AS why, 0 * s.y AS other, '' AS m"),
    ]  # fmt: skip
    table = results[0].getOutputTable()
    for each in [*(result.getOutputTable() for result in results[1:]), in_sql]:
        table = table.union_all(each)
    found = sorted(
        BatchOperator.fromTable(table).collectToDataframe().itertuples(index=False, name=None),
        key=repr,
    )
    good = sorted((row[0], row[1]) for row in found if row[0] < 3)
    # In SQL the newer model has taken over, which a function applies twice.
    power = 36.0 if kind.is_function else 6.0
    assert good == sorted(
        [
            (1, 1.0),
            (2, 3.0),
            (1, 2.0),
            (2, 7.5),
            (1, 1.0),
            (2, 3.0),
            (1, power / 2),
            (2, power * 1.5),
            (1, power / 2),
            (2, power * 1.5),
        ]
    )
    assert {(1, 1.5), (2, 4.5)} <= {(row[0], row[3]) for row in found}, "of the candidate"
    assert {row[4].partition(" ")[2] for row in found if row[0] < 3 and row[4]} == {kind.title}
    assert all("got null" in row[2] for row in found if row[0] == 3) and len(found) == 15
    assert list((tmp_path / "resumed").glob("*/part-*.feather"))
    stream = MemSourceStreamOp(ROWS, COLUMNS)
    op = PredictStreamOp(modelPath=two, chunkWait=0.1, **newer, **params)
    assert {row[:2] for row in all_rows(stream.link(op))} == {(1, 3.0), (2, 9.0), (3, None)}
    if kind.is_here:
        with loaded.collectLocalPredictor(COLUMNS) as predictor:
            assert predictor.map((1, "a", 0.5))[:2] == (1, 1.0)
    settings = {
        "pipeline": pipeline,
        "columns": COLUMNS,
        "newer": newer,
        "model": "" if kind.is_function else two,
        "trusted": params.get("trusted", False),
    }
    if kind.is_here:
        assert predicted(**settings) == [1.0, 3.0, 1.0]
    else:
        command = [kind.python, "-m", "tests.children.local_kind", json.dumps(settings)]
        here = subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        assert json.loads(here.stdout.splitlines()[-1]) == [1.0, 3.0, 1.0]
