from __future__ import annotations

import pytest

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_set_intra_op_parallelism_raises_nothing() -> None:
    from akdl.runner.tf_helper import set_intra_op_parallelism

    set_intra_op_parallelism(2)
