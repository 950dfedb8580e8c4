"""What docstrings show runs: each example, and each fragment of SQL and other text that a method
takes.

Their tables run as one job for batches and one for streams, but for examples that run or train
something themselves.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import pathlib
import re
import shutil
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from akdl.storage.model_archive import pack
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    MemSourceStreamOp,
    PipelineModel,
    StreamOperator,
    TFSavedModelPredictor,
    getMLEnv,
    useLocalEnv,
)
from operators.alink.ak_file import AkWriter
from operators.params import accessors
from operators.params.param import Param
from tests.support.installs import ROOT

pytestmark = [pytest.mark.flink, pytest.mark.tf]

_EXAMPLE = re.compile(r"^Examples?:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)
_QUOTED = re.compile(r'"([^"]*)"')
ROWS = [(1, "a", 0.5, -0.5, [0.5, -0.5]), (2, "b", 1.5, 0.0, [1.5, 0.0])]
COLUMNS = "id BIGINT, label STRING, x0 FLOAT, x1 FLOAT, x ARRAY<FLOAT>"
SCORE = """
def main(task_config):
    for batch in task_config.tf_context.batches(2):
        task_config.output_writer.write_batch({"id": batch["id"], "score": batch["x0"]})

def load():
    return lambda batch: {"y": 2 * batch["x0"]}
"""
TRAIN = """
import tensorflow as tf

class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x0")])
    def serve(self, x0):
        return {"logits": 2 * x0}

def main(task_config):
    task_config.dataset_length
    model = Model()
    tf.saved_model.save(model, task_config.saved_model_dir, signatures={"serving_default": model.serve})
"""


def docstrings() -> Iterator[tuple[str, str, str]]:
    """Module, name and docstring of all that is public."""
    for package in ("operators", "akdl"):
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    yield module, getattr(node, "name", module), ast.get_docstring(node) or ""


@functools.cache  # not read when the module is imported, which each process of a run does
def examples() -> list[tuple[str, str, str]]:
    return [
        (module, name, found[1])
        for module, name, text in docstrings()
        for found in _EXAMPLE.finditer(text)
    ]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What examples take for granted: names, and files in the current folder."""
    import tensorflow as tf

    folder, before = tmp_path_factory.mktemp("examples"), os.getcwd()
    os.chdir(folder)
    try:
        pathlib.Path("score.py").write_text(SCORE)
        pathlib.Path("train.py").write_text(TRAIN)
        pathlib.Path("trips.csv").write_text("id,start time\n1,2024-02-29 12:00:00\n")
        trips = pa.table({"id": [1, 2], "fare": [2.5, 7.0]})
        os.mkdir("trips")
        pq.write_table(trips, "trips/0.parquet")
        po.write_table(trips, "trips.orc")
        feather.write_feather(trips, "trips.feather")
        trips.to_pandas().to_json("trips.jsonl", orient="records", lines=True)
        model = tf.Module()
        spec = tf.TensorSpec([None], tf.float32)
        model.serve = tf.function(lambda x0, x1: {"logits": x0 + x1}, input_signature=[spec, spec])
        tf.saved_model.save(model, "saved", signatures={"serving_default": model.serve})
        shutil.make_archive("model", "zip", "saved")
        with open("model.ak", "wb") as file:
            writer = AkWriter(file, Schema.parse("model_id BIGINT, model_info STRING"))
            for row in pack("saved"):
                writer.write(row)
            writer.close()
        env = useLocalEnv(2)
        data, stream = MemSourceBatchOp(ROWS, COLUMNS), MemSourceStreamOp(ROWS, COLUMNS)
        scored = data.select("id, x0 AS score")
        stage = TFSavedModelPredictor(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        PipelineModel(stage).save("pipeline.akdl")
        env.btenv.create_temporary_view("orders", data.getOutputTable())
        env.stenv.create_temporary_view("clicks", stream.getOutputTable())
        yield {
            "data": data, "stream": stream, "scored": scored, "predicted": scored,
            "model": importlib.import_module("operators").AkSourceBatchOp(filePath="model.ak"),
        }  # fmt: skip
    finally:
        os.chdir(before)


def test_examples_of_docstrings_are_python() -> None:
    for module, name, example in examples():
        compile(_dedented(example), f"<example of {name} in {module}>", "exec")


@pytest.mark.long
def test_examples_of_docstrings_run(names: dict[str, Any]) -> None:
    wrong, run = {}, []
    spaces: dict[str, dict[str, Any]] = {}
    for module, name, example in examples():
        space = spaces.setdefault(module, _space(module, names))
        before = dict(space)
        try:
            exec(compile(_dedented(example), f"<example of {name}>", "exec"), space)
            for found in [value for key, value in space.items() if before.get(key) is not value]:
                if isinstance(found, BatchOperator):
                    found.getColNames()
                    found.lazyCollectToDataframe(run.append)
                # does not end
                elif isinstance(found, StreamOperator) and "scanInterval" not in example:
                    found.print(title=name)
        except Exception:
            wrong[name] = traceback.format_exc()
    assert not wrong, "\n".join(wrong.values())
    BatchOperator.execute()
    StreamOperator.execute()
    assert len(run) > 15 and all(len(frame) for frame in run)


def _space(module: str, names: dict[str, Any]) -> dict[str, Any]:
    """The namespace that the examples of a module share."""
    space: dict[str, Any] = {}
    exec("from operators import *", space)
    of_streams = "stream" in module
    table = names["stream" if of_streams else "data"].getOutputTable()
    tables = getMLEnv().stenv if of_streams else getMLEnv().btenv
    predict = space["TFTableModelPredictBatchOp"](
        outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
    )
    return {**space, **names, "table": table, "tables": tables, "predict": predict}


def _dedented(example: str) -> str:
    return re.sub(r"^ {4}", "", example, flags=re.MULTILINE)


def fragments() -> dict[tuple[str, str], list[str]]:
    """Texts in quotes in the docstrings of methods of operators: by method and argument, "" for the
    summary.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for module in ("base/operator", "base/shaping", "batch_operator"):
        tree = ast.parse((ROOT / "operators" / f"{module}.py").read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
                continue
            summary, _, rest = (ast.get_docstring(function) or "").partition("\nArgs:\n")
            found.setdefault((function.name, ""), []).extend(_QUOTED.findall(summary))
            for argument, text in re.findall(
                r"^    (\w+): ((?:.*\n?(?:     .*\n?)*))", rest.partition("\n\n")[0], re.MULTILINE
            ):
                found.setdefault((function.name, argument), []).extend(_QUOTED.findall(text))
    return {key: texts for key, texts in found.items() if texts}


# How each method is called with the text, on a table.
CALLS: dict[tuple[str, str], Callable[[Any, str], Any]] = {
    ("select", ""): lambda t, text: t.select(text),
    ("orderBy", "field"): lambda t, text: t.orderBy(text),
    ("orderBy", "order"): lambda t, text: t.orderBy("a, b", order=text),
    ("groupBy", "by"): lambda t, text: t.groupBy(text, "COUNT(*) AS n"),
    ("groupBy", "select"): lambda t, text: t.groupBy("a", text),
    ("join", "joinPredicate"): lambda t, text: t.join(t, text, "a.id"),
    ("join", "selectClause"): lambda t, text: t.join(t, "a.id = b.id", text),
    ("toTensor", "selectedCol"): lambda t, text: MemSourceBatchOp([(text,)], "vec STRING").toTensor(
        "vec"
    ),
    ("convertTypes", ""): lambda t, text: t.convertTypes("a", text),
}
# a form, or a result
NO_CALLS = {("fromDataframe", "schemaStr"), ("getSchemaStr", ""), ("toVector", "")}


def test_fragments_of_docstrings_run(names: dict[str, Any]) -> None:
    found = fragments()
    assert found.keys() == CALLS.keys() | NO_CALLS
    columns = "a INT, b INT, id INT, x INT, score DOUBLE"
    table, got = MemSourceBatchOp([(1, 2, 3, 4, 0.5), (1, 1, 1, 1, 1.0)], columns), {}
    for key, call in CALLS.items():
        for text in found[key]:
            call(table, text).lazyCollectToDataframe(
                lambda frame, key=(*key, text): got.update({key: frame})
            )
    BatchOperator.execute()
    assert len(got) == sum(len(found[key]) for key in CALLS) and all(
        len(frame) for frame in got.values()
    )
    assert list(got["orderBy", "field", "a, b DESC"].b) == [2, 1]
    assert list(got["orderBy", "order", "desc"].b) == [2, 1] and list(
        got["orderBy", "order", "asc"].b
    ) == [1, 2]


def params() -> Iterator[tuple[Param, str]]:
    for param in dict.fromkeys(param for kind in accessors.ALL for param in kind.params):
        for text in _QUOTED.findall(param.doc.partition("such as ")[2]):
            yield param, text


@pytest.mark.parametrize(
    ("param", "text"), [pytest.param(*each, id=f"{each[0].name}-{each[1]}") for each in params()]
)
def test_example_values_of_parameters_are_accepted(param: Param, text: str) -> None:
    try:
        param.convert([text] if f'["{text}"]' in param.doc else text)
    except (ValueError, ConfigurationError) as error:
        pytest.fail(f"{param.name}: {error}")
