"""The weights of the runner are those of `tf.estimator` itself."""

from __future__ import annotations

import sys

import pytest

from akdl.user_code.module import load_module
from tests.support.tensorflows import TF_1
from tests.support.tf_group import ROOT

pytestmark = pytest.mark.estimator


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [pytest.param("1.15", marks=pytest.mark.long), "2.15"])
def test_weights_are_those_of_plain_tensorflow(tensorflow: str) -> None:
    rows = load_module(str(ROOT / "scripts" / "parity_estimator.py")).rows(
        {tensorflow: TF_1.python() if tensorflow == "1.15" else sys.executable}
    )
    assert len(rows) == 3
    for row in rows:
        assert row.difference <= 1e-6, row
