"""Units of files, which are made before the files are opened, and the shares of members."""

from __future__ import annotations

import random

from bridge.codec.ipc import read_batch
from bridge.files.listing import FoundFile
from bridge.files.parts import FilePart, Unit, parts_to_arrow, share_of, units_from, units_of, units_to_arrow

MB = 1 << 20


def test_large_files_are_split_and_small_ones_gathered() -> None:
    files = [FoundFile("large", 40 * MB), *(FoundFile(f"small {number}", 10) for number in range(100)), FoundFile("empty", 0)]
    units = list(units_of(iter(files), has_groups=True))
    assert [unit for units in units for unit in units][:3] == [Unit("large", 40 * MB, number, 3) for number in range(3)]
    assert {unit.path for units in units for unit in units} == {file.path for file in files}
    assert max(map(len, units)) == 64 and len(units) == 3
    assert units_from(read_batch(units_to_arrow(units[1]))) == units[1]
    assert [list(map(len, units_of(files, has_groups=False))), list(units_of([], True))] == [[1, 64, 37], []]


def shares(draw: random.Random, groups: list[FilePart], members: int, seed: int | None) -> list[list[FilePart]]:
    draw.shuffle(groups)  # subtasks send them in any order
    sent = [parts_to_arrow(groups[start : start + 5]) for start in range(0, len(groups), 5)]
    return [share_of(sent, member, members, seed) for member in range(members)]


def test_shares_are_equal_and_few_groups_are_cut() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        members, most = draw.randint(1, 7), draw.choice([3, 50, 1000])
        sizes = [draw.choice([draw.randint(0, most), most]) for _ in range(draw.randint(1, 30))]
        groups = [FilePart(f"{number // 4}.parquet", "parquet", number % 4, 0, size) for number, size in enumerate(sizes)]
        shuffled = draw.choice([None, seed])

        found = shares(draw, groups, members, shuffled)
        assert found == shares(draw, groups, members, shuffled), seed
        counts = [sum(part.rows for part in share) for share in found]
        assert max(counts) - min(counts) <= 1 and sum(counts) == sum(sizes), seed
        rows = [(part.path, part.group, part.first + row) for share in found for part in share for row in range(part.rows)]
        assert len(set(rows)) == len(rows) and all(part.rows for share in found for part in share)
        owners = [{(part.path, part.group) for part in share} for share in found]
        assert sum(map(len, owners)) - len(set().union(*owners)) < members, "a cut for each member but the last, at most"


def test_shares_go_by_path_in_turn_or_by_a_seed() -> None:
    groups = [FilePart(path, "parquet", group, 0, 10) for path in ("b", "a") for group in range(3)]
    sent = [parts_to_arrow(groups)]
    assert [(part.path, part.group) for part in share_of(sent, 0, 2)] == [("a", 0), ("a", 2), ("b", 1)]
    drawn = {tuple((part.path, part.group) for part in share_of(sent, 0, 1, seed)) for seed in range(20)}
    assert len(drawn) > 10
    assert share_of([], 0, 2) == []
