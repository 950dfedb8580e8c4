"""What loads what: the TensorFlow side is light until it trains, and imports point one way."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.leftovers import DEADLINE_S
from tests.support.warm_python import warm_python

pytestmark = pytest.mark.estimator

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "operators": (
        "bridge",
        "akdl.versions",
        "akdl.masking",
        "akdl.near_names",
        "akdl.storage.locked_folder",
        "akdl.process.parent",
        "akdl.process.preflight",
        "akdl.user_code.module",
        "akdl.wire",
        "akdl.models.tf.keras_sequential.layer_text",
        "akdl.storage.ak_records",
        "akdl.storage.archive",
        "akdl.storage.training_folders",
        "akdl.storage.files",
        "akdl.storage.limits",
        "akdl.storage.model_archive",
        "akdl.storage.model_forms",
        "akdl.storage.model_place",
        "akdl.storage.local_files",
        "akdl.serving",
        "akdl.tf_version",
    ),
    "bridge": (
        "akdl.masking",
        "akdl.near_names",
        "akdl.wire",
        "akdl.wire.cells",
        "akdl.runner.config",
        "akdl.process.activity",
        "akdl.runner_commands",
        "akdl.serving.model",
        "akdl.storage.archive",
        "akdl.storage.files",
        "akdl.storage.limits",
        "akdl.storage.model_archive",
        "akdl.storage.model_forms",
        "akdl.storage.model_place",
        "akdl.storage.local_files",
        "akdl.storage.locked_folder",
        "akdl.process.parent",
        "akdl.process.preflight",
    ),
    "akdl": (),
}
OURS = tuple(ALLOWED)


def in_fresh_interpreter(code: str) -> str:
    return printed([sys.executable, "-c", code])


def beside_tensorflow(code: str, folder: Path) -> str:
    """What a program prints that finds TensorFlow imported, and none of our modules."""
    (folder / "program.py").write_text(code)
    return printed([warm_python(), str(folder / "program.py")], PYTHONPATH=str(ROOT))


def printed(command: list[str], **variables: str) -> str:
    return subprocess.run(
        command,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        env={**os.environ, **variables},
    ).stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "akdl",
        "akdl.__main__",
        "akdl.storage.archive",
        "akdl.estimator.functions_script",
        "akdl.features",
        "akdl.storage.files",
        "akdl.storage.limits",
        "akdl.keras.operator",
        "akdl.storage.model_archive",
        "akdl.storage.model_forms",
        "akdl.storage.model_place",
        "akdl.storage.training_folders",
        "akdl.storage.local_files",
        "akdl.runner.config",
        "akdl.runner_commands",
        "akdl.serving.saved_model",
        "akdl.serving.model_store",
        "akdl.serving.model_stream",
        "akdl.serving.model_server",
        "akdl.testing",
    ],
)
def test_light_modules_do_not_load_tensorflow(module: str) -> None:
    loaded = in_fresh_interpreter(
        f"import sys, {module}; print(sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    assert not {"tensorflow", "keras", "pyflink", "pandas", "pyarrow"} & set(
        ast.literal_eval(loaded)
    )


def test_akdl_loads_the_standard_library_only() -> None:
    loaded = in_fresh_interpreter(
        "import sys; before = set(sys.modules); import akdl; print(sorted(set(sys.modules) - before))"
    )
    assert ast.literal_eval(loaded) == ["akdl"]


@pytest.mark.tf
def test_importing_training_modules_leaves_eager_execution_on(tmp_path: Path) -> None:
    modules = "akdl.engine.train, akdl.models.tf.dnn.dnn_batch, akdl.models.tf.dnn.dnn_train, akdl.keras.keras_training"
    if importlib.util.find_spec("tensorflow_estimator"):
        modules += ", akdl.engine.early_stopping, akdl.estimator.estimator_training, akdl.estimator.common_estimator, akdl.estimator.exporters"
    code = f"import {modules}\nimport tensorflow as tf\nprint(tf.executing_eagerly(), tf.compat.v1.resource_variables_enabled())"
    assert beside_tensorflow(code, tmp_path) == "True True"


def modules_of(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported_by(module: str, path: Path) -> Iterator[str]:
    """Yield what the import statements of a module name, wherever they stand in it; `from a import
    b` gives "a.b".
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", OURS)
def test_imports_point_one_way(package: str) -> None:
    allowed = (package, *ALLOWED[package])
    wrong = [
        f"{module} imports {name}"
        for module, path in modules_of(package)
        for name in imported_by(module, path)
        if name.split(".")[0] in OURS
        and not any(name == good or name.startswith(f"{good}.") for good in allowed)
    ]
    assert wrong == []


def test_imported_by_finds_every_kind_of_import(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "import a.b\nfrom c import d\ndef f():\n    from . import e\n    from ..g import h\n"
    )
    assert list(imported_by("p.q.m", path)) == ["a.b", "c.d", "p.q.e", "p.g.h"]
