"""Scripts whose Keras would fail to save the trained model are known before the training."""

from __future__ import annotations

import pytest

from akdl.tf_version import keras_3
from akdl.user_code.keras_saves import lost_model, saves_file


@pytest.mark.parametrize(
    ("version", "environment", "expected"),
    [
        (None, {}, ""),
        ("2.15.0", {}, ""),
        ("3.15.1", {}, "3.15.1"),
        ("3.15.1", {"TF_USE_LEGACY_KERAS": "1"}, ""),
        ("3.15.1", {"TF_USE_LEGACY_KERAS": "True"}, ""),
        ("3.15.1", {"TF_USE_LEGACY_KERAS": "0"}, "3.15.1"),
    ],
)
def test_keras_3_returns_the_version_unless_legacy_keras_is_chosen(
    version: str | None, environment: dict[str, str], expected: str
) -> None:
    assert keras_3(version, environment) == expected


@pytest.mark.parametrize(
    ("lines", "is_lost"),
    [
        ("model.save(config.saved_model_dir)", True),
        ("model.save(saved_model_dir, overwrite=True)", True),
        ("tf.keras.models.save_model(model, config.saved_model_dir)", True),
        ("with strategy.scope():\n        model.save(config.saved_model_dir)", True),
        ("model.export(config.saved_model_dir)", False),
        ("tf.saved_model.save(model, config.saved_model_dir)", False),
        ("model.save(config.saved_model_dir + '/model.keras')", False),
        ("model.save(config.work_dir)", False),
        ("if old:\n        model.save(config.saved_model_dir)", False),
        (
            "try:\n        model.save(config.saved_model_dir)\n    except ValueError:\n        pass",
            False,
        ),
        ("import tf_keras\n    model.save(config.saved_model_dir)", False),
        ("os.environ['TF_USE_LEGACY_KERAS'] = '1'\n    model.save(config.saved_model_dir)", False),
        ("mine.save(config.saved_model_dir)\n\nclass Mine:\n    def save(self, path): ...", False),
    ],
)
def test_lost_model_finds_models_that_keras_3_would_not_save(lines: str, is_lost: bool) -> None:
    source = f"import os\n\ndef main(config):\n    {lines}\n"
    told = lost_model(source, "train.py", "3.15.1")
    assert bool(told) == is_lost and lost_model(source, "train.py", "") == ""
    if is_lost:
        assert (
            told.startswith("train.py, line ")
            and "write model.export(task_config.saved_model_dir)" in told
        )


def test_lost_model_names_the_line() -> None:
    source = (
        "import os\n\ndef main(config):\n    model.fit(x)\n    model.save(config.saved_model_dir)\n"
    )
    assert lost_model(source, "train.py", "3.0.0").startswith(
        "train.py, line 5: Keras 3.0.0 does not save models to folders"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("model.save(dir + '/m.keras')", True),
        ('f"{dir}/m.h5"', True),
        ("model.export(dir)", False),
        ("tf.keras.Model", False),
    ],
)
def test_saves_file_finds_scripts_that_write_files_of_keras(source: str, expected: bool) -> None:
    assert saves_file(source) == expected
