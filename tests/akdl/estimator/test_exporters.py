"""Exporters: one model at the end, the best of all runs, and the newest ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.akdl.estimator.custom import CLASSES, estimator, input_fn
from tests.akdl.estimator.support import signature

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = estimator(tmp_path_factory.mktemp("trained"))
    made.train(input_fn(CLASSES), max_steps=1)
    return made


def run(exporter: Any, trained: Any, folder: Path, auc: float, is_final: bool = False) -> int:
    """Export after an evaluation and return the number of exported models."""
    target = folder / exporter.name
    exporter.export(
        trained, str(target), trained.latest_checkpoint(), {"auc": auc, "loss": 1 - auc}, is_final
    )
    return len([path for path in target.glob("*") if path.name.isdigit()])


def spec() -> Any:
    import tensorflow as tf

    return {"x": tf.io.FixedLenFeature([2], tf.float32)}


def test_the_final_model_takes_examples(trained: Any, tmp_path: Path) -> None:
    from akdl.estimator.exporters import model_final_exporter

    exporter = model_final_exporter("last", spec())
    assert (
        run(exporter, trained, tmp_path, 0.5) == 0
        and run(exporter, trained, tmp_path, 0.5, True) == 1
    )
    (exported,) = (tmp_path / "last").iterdir()
    assert "examples" in signature(str(exported), "predict").structured_input_signature[1]


def test_best_exporter_remembers_the_best_model_of_earlier_runs(
    trained: Any, tmp_path: Path
) -> None:
    from akdl.estimator.exporters import model_best_exporter

    def exports(auc: float, **how: Any) -> list[str]:
        """Return the exported models after an evaluation by a run of its own."""
        run(model_best_exporter("best", spec(), **how), trained, tmp_path, auc)
        return [path.name for path in (tmp_path / "best").iterdir() if path.name.isdigit()]

    first = exports(0.7)
    assert len(first) == 1 and exports(0.6) == first == exports(0.7)
    second = exports(0.8)
    assert len(second) == 1 and second != first
    assert (tmp_path / "best" / "best.json").read_text() == '{"auc": 0.8}'


def test_best_exporter_accepts_a_metric_whose_smaller_values_are_better(
    trained: Any, tmp_path: Path
) -> None:
    from akdl.estimator.exporters import model_best_exporter

    def exports(auc: float) -> list[str]:
        run(
            model_best_exporter("best", spec(), metric="loss", bigger=False), trained, tmp_path, auc
        )
        return [path.name for path in (tmp_path / "best").iterdir() if path.name.isdigit()]

    first = exports(0.7)
    assert len(first) == 1 and exports(0.6) == first == exports(0.7) == exports(float("nan"))
    assert exports(0.8) != first


def test_best_exporter_replaces_a_first_model_whose_metric_is_nan(
    trained: Any, tmp_path: Path
) -> None:
    from akdl.estimator.exporters import model_best_exporter

    for auc in (float("nan"), 0.7, 0.6, float("nan")):
        assert run(model_best_exporter("best", spec()), trained, tmp_path, auc) == 1
    assert (tmp_path / "best" / "best.json").read_text() == '{"auc": 0.7}'


def test_a_metric_that_is_missing_is_an_error_at_once(trained: Any, tmp_path: Path) -> None:
    from akdl.estimator.exporters import model_best_exporter

    with pytest.raises(
        ValueError, match="chosen by 'accuracy', but the evaluation has only auc, loss"
    ):
        run(model_best_exporter("best", spec(), metric="accuracy"), trained, tmp_path, 0.5)


def test_latest_exporter_keeps_as_many_models_as_asked_for(trained: Any, tmp_path: Path) -> None:
    from akdl.estimator.exporters import model_latest_exporter

    exporter = model_latest_exporter("newest", spec(), exports_to_keep=1)
    assert [run(exporter, trained, tmp_path, 0.5) for _ in range(2)] == [1, 1]
