"""Units of files, which are made before the files are opened."""

from __future__ import annotations

from bridge.codec.ipc import read_batch
from bridge.files.listing import FoundFile
from bridge.files.parts import Unit, units_from, units_of, units_to_arrow

MB = 1 << 20


def test_large_files_are_split_and_small_ones_gathered() -> None:
    files = [FoundFile("large", 40 * MB), *(FoundFile(f"small {number}", 10) for number in range(100)), FoundFile("empty", 0)]
    units = list(units_of(iter(files), has_groups=True))
    assert [unit for units in units for unit in units][:3] == [Unit("large", 40 * MB, number, 3) for number in range(3)]
    assert {unit.path for units in units for unit in units} == {file.path for file in files}
    assert max(map(len, units)) == 64 and len(units) == 3
    assert units_from(read_batch(units_to_arrow(units[1]))) == units[1]
    assert [list(map(len, units_of(files, has_groups=False))), list(units_of([], True))] == [[1, 64, 37], []]
