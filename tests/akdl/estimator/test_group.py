"""`train_and_evaluate`: who exports, in one process and in groups with and without an evaluator."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.akdl.estimator.support import SCRIPTS, run_group
from tests.support.tensorflows import TF_1

pytestmark = [pytest.mark.tf, pytest.mark.estimator]
SCRIPT = str(SCRIPTS / "with_exporters.py")


def exported(folder: Path, name: str) -> list[str]:
    return sorted(path.name for path in (folder / "export" / name).iterdir() if path.name.isdigit())


def last_line(log: str) -> str:
    return log.splitlines()[-1]


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
)
def test_a_second_run_with_nothing_left_to_train_evaluates_and_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(sys, "argv", [SCRIPT, str(tmp_path), "20"])
    for runs in (1, 2):
        assert runpy.run_path(SCRIPT)["found"]["global_step"] == 20
        assert len(exported(tmp_path, "final")) == runs


def test_only_the_first_process_that_claims_export_folders_owns_them(tmp_path: Path) -> None:
    """The first that claims them; the chief removes an older claim when it starts."""
    from akdl.estimator.group import ExportFolders

    def folders(role: str) -> Any:
        return ExportFolders(
            SimpleNamespace(model_dir=str(tmp_path), config=SimpleNamespace(task_type=role))
        )

    chief, evaluator = folders("chief"), folders("evaluator")
    chief.release()
    assert [evaluator.claim(), chief.claim(), evaluator.claim()] == [True, False, True]
    chief.release()
    assert [chief.claim(), evaluator.claim(), chief.claim()] == [True, False, True]
    chief.release()
    assert evaluator.claim()


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [pytest.param("1.15", marks=pytest.mark.long), "2.15"])
def test_group_with_an_evaluator_exports_one_final_model(tmp_path: Path, tensorflow: str) -> None:
    """All processes end well, and there is one final model, that of the evaluator or, where it is
    late, that of the chief.
    """
    python = TF_1.python() if tensorflow == "1.15" else None
    out = tmp_path / "out"
    roles = [("chief", 0), ("ps", 0), ("evaluator", 0)]
    logs = run_group(tmp_path, [SCRIPT, str(out), "500"], roles, python=python)
    assert last_line(logs["chief-0"]).startswith("returned 50"), (
        "asynchronous workers may make a step more"
    )
    assert last_line(logs["evaluator-0"]) == "returned None"
    owner = (out / "export_owner").read_text()
    assert owner in ("chief", "evaluator")
    assert len(exported(out, "final")) == 1 and 1 <= len(exported(out, "latest")) <= 2
    assert (out / "eval_checks_chief").exists() == (owner == "evaluator")
