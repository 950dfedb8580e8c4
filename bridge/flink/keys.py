"""Keys of the subtasks of keyed operators, also those under which savepoints have state.

Flink sends an element to the subtask that owns the key group of its key, and the group is a hash
of the key. To address a subtask, one has to send a key that hashes into its range of groups.
"""

from __future__ import annotations

from bridge.flink.arrow_operators import least_keys
from bridge.settings import MAX_PARALLELISM

# The least key of each of the 128 key groups. They are a table because finding them takes about a
# thousand calls of the JVM, and they may never change, since savepoints have state under them.
_LEAST_KEYS = """
    250,57,89,134,39,19,220,235,295,91,136,72,23,325,73,283,299,4,195,81,230,43,36,201,95,475,
    42,65,40,30,49,31,13,0,87,152,157,11,332,150,55,66,12,69,1,10,138,111,238,121,362,214,348,
    15,194,41,16,14,137,191,116,32,37,457,22,60,53,272,47,275,212,50,239,46,141,341,280,338,107,
    179,8,35,176,33,21,180,923,145,44,80,143,78,84,151,132,331,113,2,306,117,119,290,62,102,3,
    287,59,17,79,18,273,573,101,20,307,311,24,399,52,9,29,265,114,172,25,6,67,85
"""
LEAST_KEYS = [int(key) for key in _LEAST_KEYS.split(",")]


def keys_of_subtasks(size: int) -> list[list[int]]:
    """Keys of each subtask, one of each of its key groups. A savepoint of another parallelism has
    state under some of them.
    """
    keys = LEAST_KEYS if size <= MAX_PARALLELISM else least_keys(size)
    # This is how Flink's KeyGroupRangeAssignment deals key groups to subtasks.
    starts = [-(-index * len(keys) // size) for index in range(size + 1)]
    return [keys[start:end] for start, end in zip(starts, starts[1:])]
