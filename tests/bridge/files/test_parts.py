"""Numbers of the parts of files, which have them before the files are opened, and the shares of
members.
"""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from bridge.files.listing import FoundFile
from bridge.files.parts import (
    TO_THE_END,
    CutParts,
    FilePart,
    GroupCut,
    NumberedFiles,
    parts_to_arrow,
    share_of,
)


@pytest.mark.parametrize("seed", range(10))
def test_every_part_has_one_number(seed: int) -> None:
    draw = random.Random(seed)
    files = [
        FoundFile(f"{number}", draw.choice([0, 10, 5000, 300_000]))
        for number in range(draw.randrange(1, 80))
    ]
    parts: dict[str, Any] = {}
    for file in files:
        parts[file.path] = [
            ((file.path, place), 0) for place in range(draw.randrange(file.size // 500 + 2))
        ]
    numbered = pickle.loads(pickle.dumps(NumberedFiles(iter(files), 1000)))
    found = [list(numbered.parts_at(number, parts.__getitem__)) for number in range(numbered.count)]
    assert [part for some in found for part in some] == [
        part for file in files for part, _ in parts[file.path]
    ]
    some = found[0:3]
    numbered.join(3)
    assert list(numbered.parts_at(0, parts.__getitem__)) == [part for each in some for part in each]
    assert numbered.count == -(-len(found) // 3)
    assert (
        max(map(len, found)) <= 64
        and len(found) <= sum(file.size for file in files) // 1000 + len(files) // 60 + 1
    )


def shares(
    draw: random.Random, groups: list[FilePart], members: int, seed: int | None
) -> list[list[FilePart]]:
    draw.shuffle(groups)  # subtasks send them in any order
    sent = [parts_to_arrow(groups[start : start + 5]) for start in range(0, len(groups), 5)]
    return [share_of(sent, member, members, seed) for member in range(members)]


def test_shares_are_equal_and_few_groups_are_cut() -> None:
    for seed in range(100):
        draw = random.Random(seed)
        members, most = draw.randint(1, 7), draw.choice([3, 50, 200])
        sizes = [draw.choice([draw.randint(0, most), most]) for _ in range(draw.randint(1, 30))]
        groups = [
            FilePart(f"{number // 4}.parquet", number % 4, 0, size)
            for number, size in enumerate(sizes)
        ]
        shuffled = draw.choice([None, seed])

        found = shares(draw, groups, members, shuffled)
        assert found == shares(draw, groups, members, shuffled), seed
        counts = [sum(part.rows for part in share) for share in found]
        assert max(counts) - min(counts) <= 1 and sum(counts) == sum(sizes), seed
        rows = [
            (part.path, part.group, part.first + row)
            for share in found
            for part in share
            for row in range(part.rows)
        ]
        assert len(set(rows)) == len(rows) and all(part.rows for share in found for part in share)
        owners = [{(part.path, part.group) for part in share} for share in found]
        assert sum(map(len, owners)) - len(set().union(*owners)) < members, (
            "a cut for each member but the last, at most"
        )


def test_shares_go_by_path_in_turn_or_by_a_seed() -> None:
    groups = [FilePart(path, group, 0, 10) for path in ("b", "a") for group in range(3)]
    sent = [parts_to_arrow(groups)]
    assert [(part.path, part.group) for part in share_of(sent, 0, 2)] == [
        ("a", 0),
        ("a", 2),
        ("b", 1),
    ]
    drawn = {
        tuple((part.path, part.group) for part in share_of(sent, 0, 1, seed)) for seed in range(20)
    }
    assert len(drawn) > 10
    assert share_of([], 0, 2) == []


def test_parts_of_any_number_of_rows_are_made_when_they_are_read() -> None:
    whole = FilePart("a", 0, 0, 2**47)
    unknown = FilePart("b", -1, 0, TO_THE_END)
    parts = CutParts(
        [GroupCut(whole, 1000, -(-(2**47) // 1000), 500), GroupCut(unknown, 10, 2, 100)]
    )
    assert len(parts) == -(-(2**47) // 1000) + 2
    assert [part for part, _ in (parts[0], parts[1])] == [
        whole._replace(first=first, rows=1000) for first in (0, 1000)
    ]
    last = parts[len(parts) - 3][0]
    assert last.first + last.rows == 2**47
    assert [
        (part.first, part.rows, size)
        for part, size in (parts[len(parts) - 2], parts[len(parts) - 1])
    ] == [
        (0, 10, 50),
        (10, TO_THE_END, 50),
    ]
    with pytest.raises(IndexError):
        parts[len(parts)]
    numbered = NumberedFiles(iter([FoundFile("a", 5000)]), 1000)
    assert [next(numbered.parts_at(number, lambda _: parts)).first for number in range(2)] == [
        0,
        -(-len(parts) // 5) * 1000,
    ]
