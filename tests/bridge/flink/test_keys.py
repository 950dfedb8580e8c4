"""Keys agree with the key groups of Flink."""

from __future__ import annotations

import pytest
from pyflink.java_gateway import get_gateway

from bridge.flink.arrow_operators import least_keys
from bridge.flink.keys import LEAST_KEYS, keys_of_subtasks
from bridge.settings import MAX_PARALLELISM
from operators import useLocalEnv

pytestmark = pytest.mark.flink


def test_each_subtask_owns_its_keys() -> None:
    """Also those of savepoints, so they may not change."""
    useLocalEnv(1)
    assert least_keys(MAX_PARALLELISM) == LEAST_KEYS
    jvm = get_gateway().jvm
    assign = (
        jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup
    )
    for size in (1, 3, 100, MAX_PARALLELISM, MAX_PARALLELISM + 1):
        groups = max(size, MAX_PARALLELISM)
        owners = [owner for owner, keys in enumerate(keys_of_subtasks(size)) for _ in keys]
        assert owners == [assign(groups, size, group) for group in range(groups)]
