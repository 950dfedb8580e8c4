"""Calls that programs for Alink make around these operators, each really made: a probe.

Those that give a table are all put off and run as one job. Those that are answered in another way
than Alink's are, word for word, the rows of the table in docs/coming_from_alink.md.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyflink.table import DataTypes, TableDescriptor
from pyflink.table import Schema as PyflinkSchema

import operators
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import (
    AkSinkBatchOp,
    AkSourceBatchOp,
    AkSourceStreamOp,
    AlinkDataTypes,
    AlinkGlobalConfiguration,
    BatchOperator,
    CsvSinkBatchOp,
    CsvSourceBatchOp,
    MemSourceBatchOp,
    MemSourceStreamOp,
    Pipeline,
    PipelineModel,
    RandomTableSourceBatchOp,
    RandomTableSourceStreamOp,
    StreamOperator,
    TableSinkBatchOp,
    TensorFlow2BatchOp,
    TF2TableModelTrainer,
    TFSavedModelPredictor,
    TFTableModelPredictor,
    TFTableModelPredictStreamOp,
    getMLEnv,
    resetEnv,
    udf,
    udtf,
    useCustomEnv,
    useLocalEnv,
    useRemoteEnv,
)
from operators.alink.ak_file import AkWriter

pytestmark = pytest.mark.flink

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "coming_from_alink.md"
PEOPLE = [(1, "ann", 0.5), (2, "bob", 1.5), (3, None, 2.5)]
TYPES = "id INT, name STRING, score DOUBLE"


@udf(input_types=[AlinkDataTypes.INT()], result_type="DOUBLE")
def half(number: Any) -> Any:
    return number / 2


class Twice:
    """A function as Alink's users write them."""

    def eval(self, number: Any) -> Iterator[tuple[Any, str]]:
        yield number, "a"
        yield number, "b"


def sql(query: str) -> Callable[[Any], Any]:
    def call(people: Any) -> Any:
        people.registerTableName("people")
        return BatchOperator.sqlQuery(query)

    return call


def sql_with_function(people: Any) -> Any:
    BatchOperator.registerFunction("half_of", half)
    return sql("SELECT half_of(id) AS h FROM people")(people)


# Calls that give a table, with its rows.
TABLES: dict[str, tuple[Callable[[Any], Any], list[tuple[Any, ...]]]] = {
    "select": (lambda p: p.select("id, name"), [(1, "ann"), (2, "bob"), (3, None)]),
    "select with a list": (lambda p: p.select(["name"]), [("ann",), ("bob",), (None,)]),
    "select with an expression": (lambda p: p.select("`i.|score` , name AS `n.*`, `id` + 1 AS j"), [(1, 0.5, "ann", 2), (2, 1.5, "bob", 3), (3, 2.5, None, 4)]),
    "filter": (lambda p: p.filter("id > 2"), [PEOPLE[2]]),
    "where": (lambda p: p.where("score < 1"), [PEOPLE[0]]),
    "alias": (lambda p: p.alias("a, b,\n `c`").select("c"), [(0.5,), (1.5,), (2.5,)]),
    "alias with a list": (lambda p: p.select("id").alias(["x"]).where("x = 1"), [(1,)]),
    "alias of some": (lambda p: p.alias("a").select("a, name"), [(1, "ann"), (2, "bob"), (3, None)]),
    "firstN": (lambda p: p.orderBy("id").firstN(2), PEOPLE[:2]),
    "orderBy": (lambda p: p.orderBy("id", order="desc"), PEOPLE[::-1]),
    "orderBy, the last one downwards": (lambda p: p.orderBy("id > 0, score DESC"), PEOPLE[::-1]),
    "orderBy, nulls last and downwards": (lambda p: p.orderBy("name desc nulls last -- and a comment"), [PEOPLE[1], PEOPLE[0], PEOPLE[2]]),
    "orderBy with a comment": (lambda p: p.orderBy("id -- as they came", 2, order="DESC"), PEOPLE[:0:-1]),
    "orderBy with a limit": (lambda p: p.orderBy("score", 1), PEOPLE[:1]),
    "orderBy with fetch and offset": (lambda p: p.orderBy("id", fetch=1, offset=1), PEOPLE[1:2]),
    "groupBy": (lambda p: p.groupBy("id > 1", "COUNT(*) AS n, SUM(score) AS s"), [(1, 0.5), (2, 4.0)]),
    "distinct": (lambda p: p.unionAll(p).distinct(), PEOPLE),
    "sample all": (lambda p: p.sample(1.0), PEOPLE),
    "sample none": (lambda p: p.sample(0.0).select("COUNT(*) AS n"), [(0,)]),
    "sampleWithSize": (lambda p: p.sampleWithSize(2).select("COUNT(*) AS n"), [(2,)]),
    "rebalance": (lambda p: p.rebalance(), PEOPLE),
    "shuffle": (lambda p: p.shuffle(), PEOPLE),
    "unionAll": (lambda p: p.unionAll(p.where("id = 1"), p.where("id = 2")), [*PEOPLE, *PEOPLE[:2]]),
    "union": (lambda p: p.union(p.where("id = 1")), PEOPLE),
    "join": (lambda p: p.join(p, "a.id = b.id + 1", "a.id, b.name"), [(2, "ann"), (3, "bob")]),
    "left join": (lambda p: p.join(p, "a.id = b.id + 2", "a.id, b.name", "LEFT OUTER JOIN"), [(1, None), (2, None), (3, "ann")]),
    "udf": (lambda p: p.udf(half, ["id"], "h", ["name"]), [("ann", 0.5), ("bob", 1.0), (None, 1.5)]),
    "udf that replaces a column": (lambda p: p.where("id = 1").udf(half, ["id"], "id"), [(0.5, "ann", 0.5)]),
    "udtf": (
        lambda p: p.where("id = 1").udtf(udtf(Twice(), result_types=["INT", "STRING"]), ["id"], ["i", "s"], ["name"]),
        [("ann", 1, "a"), ("ann", 1, "b")],
    ),
    "sqlQuery": (sql("SELECT COUNT(*) AS n FROM people"), [(3,)]),
    "registerFunction": (sql_with_function, [(0.5,), (1.0,), (1.5,)]),
    "fromDataframe": (lambda p: BatchOperator.fromDataframe(pd.DataFrame({"a": [1]}), "a LONG"), [(1,)]),
    "vectors and tensors": (
        lambda p: MemSourceBatchOp([("$3$0:1 2:2", [1.0, 2.0]), ("0 1 0", [3.0, 4.0])], "v VECTOR, t FLOAT_TENSOR")
        .toTensor("v", "INT", "w").select("w[1] AS a, w[3] AS b, t[2] AS c"),
        [(1, 2, 2.0), (0, 0, 4.0)],
    ),
    "toVector": (lambda p: p.where("id = 1").select("ARRAY[id, 2] AS a").toVector("a", "v").select("v"), [("1 2",)]),
    "toVector with a null": (lambda p: p.where("id = 1").select("ARRAY[score, NULL, 3] AS v").toVector("v"), [("0.5 NaN 3.0",)]),
    "convertTypes": (lambda p: p.select("id").convertTypes(["id"], "STRING"), [("1",), ("2",), ("3",)]),
    "setX(None)": (lambda p: RandomTableSourceBatchOp(numRows=2, numCols=1, idCol="id").setIdCol(None).select("1 AS x"), [(1,), (1,)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def frames(env: operators.MLEnv) -> dict[str, pd.DataFrame]:
    """The results of all tables, of one job."""
    people, found = MemSourceBatchOp(PEOPLE, TYPES), {}
    for name, (call, _) in TABLES.items():
        call(people).lazyCollectToDataframe(lambda frame, name=name: found.update({name: frame}))
    people.lazyCollectStatistics(lambda frame: found.update({"lazy statistics": frame}))
    found["statistics"] = people.collectStatistics()  # runs what was put off too
    return found


@pytest.mark.parametrize("name", TABLES)
def test_calls_of_alink_give_their_tables(frames: dict[str, Any], name: str) -> None:
    rows = [
        tuple(None if pd.isna(cell) else cell for cell in row)
        for row in frames[name].itertuples(index=False)
    ]
    expected = TABLES[name][1]
    if not name.startswith("orderBy"):
        rows, expected = sorted(rows, key=str), sorted(expected, key=str)
    assert rows == expected


def test_statistics_are_those_of_alink(frames: dict[str, Any]) -> None:
    assert frames["lazy statistics"].equals(frames["statistics"])
    frame = frames["statistics"].set_index("colName")
    assert frame["count"].tolist() == [3, 3, 3] and frame.missing.tolist() == [0, 1, 0]
    assert (frame["mean"].score, frame["max"].id, frame.variance.score) == (1.5, 3.0, 1.0)


@pytest.fixture
def model_file(tmp_path: pathlib.Path) -> str:
    """A model without a graph: nothing here loads it."""
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        file.writestr("saved_model.pb", "")
    return str(tmp_path / "model.zip")


def test_streams_accept_the_calls_of_alink(
    env: operators.MLEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    source = StreamOperator.fromDataframe(
        pd.DataFrame(PEOPLE, columns=["id", "name", "score"]), TYPES
    )
    source.select("id").sample(1.0).print(key="a", refreshInterval=1, maxLimit=10)
    source.registerTableName("stream_of_people")
    StreamOperator.sqlQuery("SELECT name FROM stream_of_people WHERE id = 1").udf(
        half_of_length, "name", "n"
    ).print("b")
    MemSourceStreamOp([(1,)], "x INT").unionAll(MemSourceStreamOp([(2,)], "x INT")).print(-1)
    StreamOperator.execute("job")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("a")] == ["a: id", "a: 1", "a: 2", "a: 3"]
    assert [line for line in lines if line.startswith("b")] == ["b: name, n", "b: ann, 1.5"]
    assert sorted(line for line in lines if ":" not in line) == ["1", "2", "x"]


@udf(result_type="DOUBLE")
def half_of_length(text: Any) -> float:
    return len(text) / 2


def test_the_schema_of_each_kind_is_one_that_sources_take(
    env: operators.MLEnv, tmp_path: pathlib.Path, model_file: str
) -> None:
    """Names in back-quotes, types without NOT NULL and marks of event time, wherever a table or its
    rows come from.
    """
    columns = "id BIGINT, `start time` TIMESTAMP(3), v ARRAY<FLOAT>"
    rows = MemSourceBatchOp(
        [(1, datetime.datetime(2024, 2, 29), [0.5])], columns.replace("BIGINT,", "LONG NOT NULL,")
    )
    table = env.stenv.from_descriptor(
        TableDescriptor.for_connector("datagen")
        .schema(PyflinkSchema.new_builder().from_fields(["id", "start time", "v"], [
            DataTypes.BIGINT().not_null(), DataTypes.TIMESTAMP(3), DataTypes.ARRAY(DataTypes.FLOAT().not_null()),
        ]).watermark("start time", "`start time`").build())
        .build()
    )  # fmt: skip
    stage = TFSavedModelPredictor(
        modelPath=model_file, outputSchemaStr="y FLOAT", selectedCols=["v"]
    )
    script = TensorFlow2BatchOp(
        mainScriptFile=do_nothing, outputSchemaStr=columns.replace("BIGINT", "long"), numWorkers=1
    )
    (tmp_path / "a.csv").write_text("1,2024-02-29 12:00:00,0.5\n")
    csv = CsvSourceBatchOp(
        filePath=str(tmp_path / "a.csv"), schemaStr=columns.replace("BIGINT", "long")
    )
    found = [
        rows, rows.select("*"), rows.fromTable(rows.getOutputTable()), StreamOperator.fromTable(table), stage.transform(rows),
        rows.link(script), csv,
    ]  # fmt: skip
    texts = [op.getSchemaStr().removesuffix(", y FLOAT") for op in found]
    assert texts == [columns] * len(found)
    assert {MemSourceBatchOp([], text).getSchemaStr() for text in texts} == {columns}


def do_nothing(config: Any) -> None:
    pass


def test_environments_accept_the_calls_of_alink(
    env: operators.MLEnv, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        assert list(useLocalEnv(2, None, {"some.option": 1})) and not caplog.records
        assert getMLEnv().btenv.get_config().get("some.option", "") == "1"
        useLocalEnv(2, flinkHome="/opt/flink", config=None)
        assert "useLocalEnv: flinkHome='/opt/flink' is ignored" in caplog.text
        useLocalEnv(1, {"some.option": 2})
        assert list(useCustomEnv(None, *env)) == list(env)
        remote = useRemoteEnv(
            "localhost", "8081", 2, None, localIp="127.0.0.1", shipAlinkAlgoJar=False, config={}
        )
        assert remote is getMLEnv()
        resetEnv()
    finally:
        useCustomEnv(None, *env)


def test_pipelines_accept_the_calls_of_alink(
    env: operators.MLEnv, model_file: str, tmp_path: pathlib.Path
) -> None:
    people = MemSourceBatchOp(PEOPLE, TYPES)
    stage = (
        TFSavedModelPredictor()
        .setModelPath(model_file)
        .setOutputSchemaStr("y FLOAT")
        .setSelectedCols(["score"])
    )
    stage.setModelStreamFilePath(None).setModelStreamScanInterval(5).setModelStreamStartTime(
        "2024-02-29 00:00:00"
    )
    pipeline = Pipeline().add(stage).add(0, stage)
    assert (pipeline.size(), pipeline.get(1)) == (2, stage) and pipeline.remove(0) is stage
    assert pipeline.fitAndTransform(people).getColNames() == ["id", "name", "score", "y"]
    model = pipeline.fit(people)
    assert isinstance(model, PipelineModel) and model.getTransformers() == [stage]
    path = str(tmp_path / "saved")
    model.save(path)
    model.save(path, True)
    with pytest.raises(
        ConfigurationError, match="saved exists already; overwrite=True replaces a file"
    ):
        model.save(path, overwrite=False)
    BatchOperator.execute()  # after a save
    predictor = (
        TFTableModelPredictor()
        .setModelFilePath(model_file)
        .setOutputSchemaStr("y FLOAT")
        .setSelectedCols(["score"])
    )
    assert predictor.transform(people).getColNames() == ["id", "name", "score", "y"]
    assert predictor.setModelData(people).getModelData() is people
    stream = StreamOperator.fromDataframe(pd.DataFrame({"score": [0.5]}), "score DOUBLE")
    swapping = TFTableModelPredictor(
        modelFilePath=model_file, outputSchemaStr="y FLOAT", modelStreamFilePath=str(tmp_path)
    )
    assert swapping.transform(stream).getColNames() == ["score", "y"]
    operator = (
        TFTableModelPredictStreamOp().setModelFilePath(model_file).setOutputSchemaStr("y FLOAT")
    )
    assert operator.linkFrom([stream]).getColNames() == ["score", "y"]


def test_trainer_accepts_the_calls_of_alink(env: operators.MLEnv, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def main(config): pass\n")
    trainer = TF2TableModelTrainer(
        userFiles=[], mainScriptFile=str(script), outputSchemaStr="y FLOAT", numWorkers=1, numPSs=0
    )
    fitted = trainer.setModelStreamScanInterval(3).fit(MemSourceBatchOp(PEOPLE, TYPES))
    assert fitted.getModelData().getColNames() == ["model_id", "model_info"]
    assert fitted.getModelStreamScanInterval() == 3
    (tmp_path / "model.ak").write_text("")
    with pytest.raises(ConfigurationError, match="model.ak exists already"):
        trainer.setModelFilePath(str(tmp_path / "model.ak")).fit(MemSourceBatchOp(PEOPLE, TYPES))


def test_sources_and_sinks_accept_the_calls_of_alink(
    env: operators.MLEnv, tmp_path: pathlib.Path
) -> None:
    people = MemSourceBatchOp(PEOPLE, TYPES)
    people.link(
        AkSinkBatchOp().setFilePath(str(tmp_path / "a.ak")).setOverwriteSink(True).setNumFiles(1)
    )
    people.link(
        CsvSinkBatchOp()
        .setFilePath(str(tmp_path / "a.csv"))
        .setFieldDelimiter(",")
        .setQuoteChar('"')
    )
    BatchOperator.execute()
    assert AkSourceBatchOp().setFilePath(str(tmp_path / "a.ak")).getSchemaStr() == TYPES
    assert AkSourceStreamOp().setFilePath(str(tmp_path / "a.ak")).getColNames() == [
        "id",
        "name",
        "score",
    ]
    source = (
        CsvSourceBatchOp()
        .setFilePath(str(tmp_path / "a.csv"))
        .setSchemaStr(TYPES)
        .setLenient(True)
        .setRowDelimiter("\n")
    )
    assert source.setSkipBlankLine(True).setMLEnvironmentId(0).getSchemaStr() == TYPES


def _parallelism_one() -> Any:
    script = pathlib.Path(__file__)
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile=str(script), outputSchemaStr="a INT"
    ).setNumPSs(1)
    return MemSourceBatchOp(PEOPLE, TYPES).link(op)


def _alink_pipeline(folder: pathlib.Path) -> Any:
    nodes = [
        {"identifier": None},
        {"identifier": "com.alibaba.alink.pipeline.dataproc.StandardScalerModel"},
    ]
    with open(folder / "p.ak", "wb") as file:
        writer = AkWriter(file, Schema.parse("id BIGINT, p0 STRING"))
        writer.write((-1, json.dumps({"stages": json.dumps(nodes)})))
        writer.close()
    return PipelineModel.load(str(folder / "p.ak"))


def _missing(*names: str) -> Any:
    found = [name for name in names if hasattr(operators, name)]
    assert not found
    raise ConfigurationError("not there")


# Calls that differ: the first cell of a row of the page, a call, and words of its answer; no words
# where it is taken.
DIFFERENCES: dict[str, tuple[Callable[[Any, pathlib.Path], Any], str]] = {
    "from pyalink.alink import *": (
        lambda p, _: __import__("pyalink.alink"),
        "No module named 'pyalink'",
    ),
    'MemSourceBatchOp(rows, ["a", "b"])': (
        lambda p, _: MemSourceBatchOp(PEOPLE, ["a", "b"]),
        "types are not guessed",
    ),
    "sample(ratio, True)": (
        lambda p, _: p.sample(0.5, True),
        "withReplacement=True is not supported",
    ),
    "sampleWithSize(n, True)": (
        lambda p, _: p.sampleWithSize(2, withReplacement=True),
        "withReplacement=True is not supported",
    ),
    "udf(function, cols, col)": (
        lambda p, _: p.udf(len, ["name"], "n"),
        r"declare the result type with udf\(function, result_type=...\)",
    ),
    "getSideOutput(i)": (lambda p, _: p.getSideOutput(0), "add a column to outputSchemaStr"),
    "lazyVizStatistics()": (lambda p, _: p.lazyVizStatistics(), r"lazyPrintStatistics\(\) prints"),
    "lazyVizDive()": (lambda p, _: p.lazyVizDive(), r"lazyCollectToDataframe\(function\) passes"),
    "lazyPrintModelInfo()": (
        lambda p, _: p.lazyPrintModelInfo(),
        r"lazyPrint\(\) prints the rows of a model table",
    ),
    "lazyPrintTrainInfo()": (
        lambda p, _: p.lazyPrintTrainInfo(),
        r"setPrintProcessInfo\(True\) shows",
    ),
    "collectStatistics()": (lambda p, _: p.collectStatistics, ""),
    "setMLEnvironmentId(1)": (
        lambda p, _: CsvSourceBatchOp().setMLEnvironmentId(1),
        "0, the one environment of a program",
    ),
    "setNumFiles(2)": (
        lambda p, _: AkSinkBatchOp().setNumFiles(2),
        "expected 1: this program writes one file",
    ),
    "numPSs=1 at parallelism 1": (
        lambda p, _: _parallelism_one(),
        "numPSs=1 leaves no room in the parallelism of 1",
    ),
    "AkSinkStreamOp": (lambda p, _: _missing("AkSinkStreamOp"), "not there"),
    "ToTensorBatchOp, VectorToTensorBatchOp, ToVectorBatchOp, TypeConvertBatchOp": (
        lambda p, _: _missing(
            "ToTensorBatchOp", "VectorToTensorBatchOp", "ToVectorBatchOp", "TypeConvertBatchOp"
        ),
        "not there",
    ),
    "setPartitions(text)": (
        lambda p, _: CsvSourceBatchOp().setPartitions("day=1"),
        r"set filePath to a folder, and drop rows with filter\(",
    ),
    "setPartitionCols(cols)": (
        lambda p, _: AkSinkBatchOp(partitionCols=["day"]),
        "use a CsvSinkBatchOp, or a ParquetSinkBatchOp",
    ),
    "setHandleInvalidMethod(method)": (
        lambda p, _: CsvSourceBatchOp().setHandleInvalidMethod("SKIP"),
        "errorCol of predictors",
    ),
    "enableLazyPrintTransformData(n)": (
        lambda p, _: TFTableModelPredictor().enableLazyPrintTransformData(3),
        r"transform\(data\).lazyPrint\(n\) prints",
    ),
    "enableLazyPrintTransformStat()": (
        lambda p, _: PipelineModel().enableLazyPrintTransformStat(),
        r"transform\(data\).lazyPrintStatistics\(\) prints",
    ),
    "enableLazyPrintTrainInfo()": (
        lambda p, _: TF2TableModelTrainer().enableLazyPrintTrainInfo(),
        r"setPrintProcessInfo\(True\) shows",
    ),
    "enableLazyPrintModelInfo()": (
        lambda p, _: TF2TableModelTrainer().enableLazyPrintModelInfo(),
        r"getModelData\(\).lazyPrint\(\) prints",
    ),
    "setModelData(op), setModelStreamFilePath(path)": (
        lambda p, _: PipelineModel().setModelStreamFilePath("models"),
        r"stages and stream predictors have it, such as getTransformers\(\)\[0\]",
    ),
    "setOverwriteSink(True)": (
        lambda p, _: TFTableModelPredictor().setOverwriteSink(True),
        r"trainers and sinks have it; PipelineModel.save\(path\) replaces a file",
    ),
    "Pipeline.load(path)": (
        lambda p, _: Pipeline.load("x"),
        r"load them with PipelineModel.load\(path\)",
    ),
    "Pipeline.collectLoad(op), PipelineModel.collectLoad(op)": (
        lambda p, _: PipelineModel.collectLoad(p),
        r"pipelines are saved in files: load them with PipelineModel.load\(path\)",
    ),
    "Pipeline.save(path)": (lambda p, _: Pipeline().save("x"), r"fit\(data\).save\(path\)"),
    "PipelineModel.save()": (
        lambda p, _: PipelineModel().save(None),
        "a pipeline cannot be saved in a table",
    ),
    "PipelineModel.load(path)": (
        lambda p, folder: _alink_pipeline(folder),
        "the stage StandardScalerModel is not supported",
    ),
    "timeZones": (
        lambda p, _: RandomTableSourceStreamOp(maxRows=1, numCols=1, timeZones=[0.0, 1.0]),
        "",
    ),
    "flinkHome, localIp, shipAlinkAlgoJar": (lambda p, _: useLocalEnv, ""),
    "plugins of AlinkGlobalConfiguration": (
        lambda p, _: AlinkGlobalConfiguration.getPluginDownloader().downloadAll(),
        "",
    ),
    "TableSinkBatchOp(tableName)": (
        lambda p, _: p.link(TableSinkBatchOp(tableName="nowhere")),
        "there is no table 'nowhere'",
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_differing_calls_of_alink_are_answered_in_one_line(
    env: operators.MLEnv, tmp_path: pathlib.Path, name: str
) -> None:
    call, words = DIFFERENCES[name]
    people = MemSourceBatchOp(PEOPLE, TYPES)
    if not words:
        call(people, tmp_path)
        return
    with pytest.raises((ConfigurationError, AttributeError, ImportError), match=words) as raised:
        call(people, tmp_path)
    assert len(str(raised.value).splitlines()) == 1 and len(str(raised.value)) < 400


def test_page_lists_all_differing_calls_of_alink() -> None:
    table = (
        PAGE.read_text(encoding="utf-8")
        .split("## Look up a call that differs", 1)[1]
        .split("\n## ", 1)[0]
    )
    listed = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(DIFFERENCES)
