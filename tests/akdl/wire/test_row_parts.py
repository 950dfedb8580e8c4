"""Rows of a batch in parts."""

from __future__ import annotations

import numpy as np

from akdl.wire.row_parts import gathered, groups_of, hashes, taken


def test_groups_of_rows_are_put_together_in_order() -> None:
    keys = ["b", "a", None, "b"]
    groups = [(key, places.tolist()) for key, places in groups_of(keys)]
    assert groups == [("b", [0, 3]), ("a", [1]), (None, [2])]
    assert [(key, places.tolist()) for key, places in groups_of(np.array([7, 7]))] == [(7, [0, 1])]
    parts = [(places, taken(np.arange(4.0), places)) for _, places in groups_of(keys)]
    whole = gathered(parts, 4)
    assert isinstance(whole, np.ndarray) and whole.tolist() == [0, 1, 2, 3]
    assert gathered(parts[:2], 4) == [0, 1, None, 3] and gathered([], 2) == [None, None]


def test_a_row_has_one_hash_in_all_forms_of_its_columns() -> None:
    x, text = np.array([0.5, -1.0, 3e9, 0.0]), [b"a", b"", None, "b"]
    vectors = np.arange(12.0).reshape(4, 3)
    whole = hashes({"x": x, "v": vectors, "s": text})
    lists = hashes({"s": text, "v": [*vectors], "x": x.tolist()})
    single = [
        hashes({"x": x[row : row + 1], "v": [vectors[row].tolist()], "s": [text[row]]})[0]
        for row in range(4)
    ]
    assert whole.tolist() == lists.tolist() == single and len(set(single)) == 4
    with_null = hashes({"x": [0.5, None]})
    assert with_null[0] == hashes({"x": x[:1]})[0] != with_null[1]
    assert hashes({"x": np.arange(3)}).tolist() == hashes({"x": np.arange(3.0)}).tolist()


def test_hashes_are_spread_evenly() -> None:
    for cells in (
        np.arange(100_000),
        np.arange(100_000) / 7,
        [str(each) for each in range(100_000)],
    ):
        parts = np.bincount((hashes({"x": cells}) >> np.uint64(60)).astype(int), minlength=16)
        assert parts.min() > 5500 and parts.max() < 7000
