"""Sources of main scripts, and what they hold to run."""

from __future__ import annotations

import pytest

from bridge.exceptions import ConfigurationError
from bridge.settings import UserFile
from operators.prepare.main_script import check_main, estimator_in_step, trains_apart


@pytest.mark.parametrize(
    "source",
    [
        "def main(config): pass",
        "async def main(config): pass",
        "from other import main",
        "from other import *",
        "import other as main",
        "import functools\nmain = functools.partial(print)",
        "a, main = 1, print",
        "try:\n    from fast import main\nexcept ImportError:\n    def main(config): pass",
        "if True:\n    with open('x') as f:\n        def main(config): pass",
        "def make():\n    global main\n    main = print\nmake()",
        "globals()['main'] = print",
        "import sys\nsys.modules[__name__].main = print",
        "def awf_create_model_fn(): pass",
        "def model_fn(): pass\ndef train_input_fn(): pass",
        "main: object = print",
    ],
)
def test_scripts_with_a_main_are_accepted(source: str) -> None:
    check_main("Op", "s.py", source.encode(), 2)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("x = 1", ""),
        ("def mian(config): pass", r" \(is it 'mian'\?\)"),
        ("class Trainer:\n    def main(self): pass", ""),
        ("def train():\n    main = 1", ""),
        ("def model_fn(): pass", ""),
    ],
)
def test_scripts_without_a_main_are_refused_with_a_hint(source: str, hint: str) -> None:
    expected = f"^Op: /home/s.py defines no function `main`{hint}: the main script needs `def main"
    with pytest.raises(ConfigurationError, match=expected):
        check_main("Op", "/home/s.py", source.encode(), 2)


FUNCTIONS = "def model_fn(): pass\ndef train_input_fn(): pass\n"
IMPORT = "from akdl.estimator.group import train_and_evaluate\n"
DNN = "from akdl.models.tf.dnn import dnn_batch\n"
MAIN = "def main(config): pass\n"


@pytest.mark.parametrize(
    ("source", "size", "needs_it"),
    [
        (FUNCTIONS, 1, True),
        (FUNCTIONS + MAIN, 1, False),
        (FUNCTIONS + "def awf_create_model_fn(): pass", 1, False),
        (IMPORT + MAIN, 1, True),
        (IMPORT + MAIN + "tf_version()", 1, False),
        (f"try:\n    {IMPORT}except RuntimeError:\n    pass\n{MAIN}", 1, False),
        (DNN + MAIN, 1, False),
        (DNN + MAIN, 2, True),
        (MAIN, 2, False),
    ],
)
def test_check_main_finds_scripts_that_need_an_estimator(
    source: str, size: int, needs_it: bool
) -> None:
    assert check_main("Op", "s.py", source.encode(), size) is needs_it


@pytest.mark.parametrize(
    ("main", "other", "apart"),
    [
        ("def main(config): pass", "", True),
        ("def main(config): pass", "import tensorflow as tf\ntf.distribute.get_strategy()", False),
        (
            "from akdl.engine.strategy import choose_strategy\ndef main(config): choose_strategy(config)",
            "",
            False,
        ),
        ("def main(config):\n    if config.task_index == 0: pass", "", False),
        ("def awf_create_model_fn(): pass", "", False),
        ("from other import *", "def main(config): pass", False),
    ],
)
def test_trains_apart_finds_scripts_without_a_strategy(main: str, other: str, apart: bool) -> None:
    files = [
        UserFile("s.py", main.encode()),
        UserFile("lib/other.py", other.encode()),
        UserFile("data.csv", b"strategy"),
    ]
    assert trains_apart(files, "s.py") is apart


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (b"from akdl.engine.train import train_estimator\n", True),
        (b"config = generate_run_config()\n", True),
        (b"tf.estimator.train_and_evaluate(est, a, b)\n", True),
        (b"train_keras_model(model, {}, {}, task_config)\n", False),
    ],
)
def test_estimator_in_step_finds_scripts_that_train_estimators(source: bytes, found: bool) -> None:
    assert estimator_in_step(source) is found
