"""The page for scripts from Alink against the code: each of Alink's names is here, or the page says
that it is not.
"""

from __future__ import annotations

import ast
import inspect
import re

import operators
from akdl.models.tf.keras_sequential.layer_text import LayerTextError, parse_call
from operators.params import catalog
from tests.support.installs import ROOT

PAGE = (ROOT / "docs" / "alink_scripts.md").read_text(encoding="utf-8")

# Public names of Alink's modules that its scripts import, without those of its own machinery.
NAMES = {
    "akdl/runner/config.py": ["BatchTaskConfig", "StreamTaskConfig", "TrainTaskConfig"],
    "akdl/runner/io_helper.py": [
        "convert_java_queue_file_to_repeatable_dataset", "file_io_copy_fix", "find_timestamp_dir", "gfile_copy_dir_content",
        "output_model_ckpt_to_flink", "output_model_to_flink", "pack_dir_to_file", "remove_checkpoint_files",
        "unpack_model_from_flink",
    ],
    "akdl/runner/output_writer.py": ["DirectOutputWriter", "OutputWriter", "get_fake_output_writer"],
    "akdl/runner/tf_helper.py": ["preview_tfrecords_file", "set_intra_op_parallelism"],
    "akdl/engine/inputs.py": [
        "dtype_str_map", "get_dataset", "get_dataset_fn", "get_example_parser", "get_feature_placeholders", "parse_feature_specs",
    ],
    "akdl/engine/run_config.py": ["generate_run_config"],
    "akdl/engine/train.py": ["train_estimator", "train_estimator_one_worker", "train_keras_model"],
    "akdl/engine/early_stopping.py": [
        "make_early_stopping_hook", "read_eval_metrics", "stop_if_higher_hook", "stop_if_lower_hook", "stop_if_no_decrease_hook",
        "stop_if_no_increase_hook",
    ],
    "akdl/models/tf/dnn/dnn_batch.py": ["main"],
    "akdl/models/tf/dnn/dnn_stream.py": ["main"],
    "akdl/models/tf/dnn/dnn_tensor.py": ["dnn_tensor"],
    "akdl/models/tf/dnn/dnn_train.py": ["main"],
}  # fmt: skip


def defined(path: str) -> set[str]:
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    functions = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return functions | {
        target.id
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if hasattr(target, "id")
    }


def test_missing_names_of_akdl_of_alink_are_on_the_page() -> None:
    rows = [
        line
        for line in PAGE.splitlines()
        if "do not exist" in line or "does not exist, because" in line
    ]
    said = {name for line in rows for name in re.findall(r"`(\w+)", line.split("|")[1])}
    missing = {name for path, names in NAMES.items() for name in names if name not in defined(path)}
    assert missing <= said
    models = {"deepar", "lstnet", "easytransfer", "easyrec", "tft"}
    assert models <= said and not any((ROOT / "akdl/models/tf" / name).exists() for name in models)


def test_the_page_names_operators_and_parameters_that_exist() -> None:
    named = set(re.findall(r"\b(KerasSequential\w+)\b", PAGE))
    assert named and named <= set(operators.__all__)
    (call,) = re.findall(r"KerasSequentialClassifierTrainBatchOp\((.*?\])\)", PAGE, re.DOTALL)
    given = {
        keyword.arg: keyword.value for keyword in ast.parse(f"f({call})", mode="eval").body.keywords
    }  # type: ignore[attr-defined]
    assert set(given) <= {param.name for param in catalog.KERAS_TRAIN}
    for text in ast.literal_eval(given["layers"]):
        parse_call(text)


def test_layers_are_not_evaluated() -> None:
    source = inspect.getsource(inspect.getmodule(LayerTextError))  # type: ignore[arg-type]
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"eval", "exec", "compile", "__import__"}
