"""Names of operators in savepoints."""

from __future__ import annotations

from bridge.flink.uids import uids


class Environment:
    """Something to count in."""


def test_a_name_depends_on_operators_of_equal_class_and_script_alone() -> None:
    program, changed = Environment(), Environment()
    first, second = (uids(program, "StreamOp", "a b.py") for _ in range(2))
    uids(changed, "StreamOp", "other.py")
    uids(changed, "PredictOp", "model")
    again = uids(changed, "StreamOp", "a b.py")
    assert first("exchange") == again("exchange") == "akdl-StreamOp-a_b.py-1-exchange"
    assert len({first("exchange"), first("rows"), second("exchange"), second("rows")}) == 4
