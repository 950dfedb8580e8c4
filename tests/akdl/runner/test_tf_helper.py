from __future__ import annotations

import pathlib

import pytest

from akdl import testing

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_rows_are_shown(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    from akdl.runner.tf_helper import preview_tfrecords_file, set_intra_op_parallelism

    set_intra_op_parallelism(2)
    config = testing.batch_task_config({"n": [5, 6, 7]}, {"n": "BIGINT"}, str(tmp_path))
    preview_tfrecords_file(config.dataset_file, 2)
    shown = capsys.readouterr().out
    assert "value: 5" in shown and "value: 6" in shown and "value: 7" not in shown
    preview_tfrecords_file(config.dataset_file)
    assert "value: 7" in capsys.readouterr().out
