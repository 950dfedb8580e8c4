"""Lists of files: folders, patterns, storages and partitions, without holding all names."""

from __future__ import annotations

import json
import os
import pathlib
import tracemalloc

import fsspec
import pytest

from bridge.exceptions import ConfigurationError
from bridge.files import listing
from bridge.files.listing import FoundFile, list_files, partition_values, root_of
from bridge.files.publishing import file_system
from tests.support.own_process import in_own_process


def write(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * len(name))


def names(folder: pathlib.Path, *addresses: str) -> list[str]:
    return [
        os.path.relpath(file.path, folder)
        for file in list_files("Source", [str(folder / each) for each in addresses])
    ]


def test_local_files_are_listed_by_folder_and_pattern(tmp_path: pathlib.Path) -> None:
    write(
        tmp_path,
        "b",
        "a",
        "day=2/c",
        "day=1/d",
        "_SUCCESS",
        ".hidden",
        "x.part",
        "_temporary/e",
        "[1]/f",
    )
    assert names(tmp_path, "") == ["[1]/f", "a", "b", "day=1/d", "day=2/c"]
    assert names(tmp_path, "day=*") == ["day=1/d", "day=2/c"] and names(tmp_path, "**/[a-d]") == [
        "a",
        "b",
        "day=1/d",
        "day=2/c",
    ]
    # a name that exists is not a pattern
    assert names(tmp_path, "[1]", "a", "_SUCCESS") == ["[1]/f", "a", "_SUCCESS"]
    assert list(list_files("Source", [f"file://{tmp_path}/day=1"])) == [
        FoundFile(f"{tmp_path}/day=1/d", 7)
    ]


def test_missing_and_empty_addresses_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    for address, words in {
        "no": "there is no file .*/no",
        "empty": "empty is a folder without files",
        "*.x": "matches no files",
    }.items():
        with pytest.raises(ConfigurationError, match=f"^Source: parameter 'filePath': .*{words}"):
            names(tmp_path, address)
    with pytest.raises(ConfigurationError, match="memory://nowhere/x: there is no such file"):
        list(list_files("Source", ["memory://nowhere/x"]))
    assert list(list_files("Source", [str(tmp_path / "empty")], may_be_empty=True)) == []


def test_files_of_a_storage_are_listed_by_folder_and_pattern() -> None:
    system = fsspec.filesystem("memory")
    try:
        for name in ("/lake/day=1/a", "/lake/day=2/b", "/lake/_log/0", "/lake/c"):
            system.pipe(name, b"12")
        found = ["memory://lake/c", "memory://lake/day=1/a", "memory://lake/day=2/b"]
        assert [file.path for file in list_files("Source", ["memory://lake"])] == found
        assert list(list_files("Source", ["memory://lake/day=*/b"])) == [
            FoundFile("memory://lake/day=2/b", 2)
        ]
    finally:
        system.rm("/lake", recursive=True)


def test_files_of_a_folder_with_a_manifest_are_those_it_names(root: str) -> None:
    system, folder = file_system(root)
    for name in ("t/part-1", "t/part-2", "t/day=1/part-3", "other/part-4"):
        system.create_dir(f"{folder}/{name}".rpartition("/")[0])
        with system.open_output_stream(f"{folder}/{name}") as file:
            file.write(name.encode())

    def found(manifest: str) -> list[str]:
        with system.open_output_stream(f"{folder}/t/_manifest.json") as file:
            file.write(manifest.encode())
        files = [
            file for file in list_files("Source", [root]) if not file.path.endswith("other/part-4")
        ]
        assert all(file.size == len(file.path) - len(root) - 1 for file in files)
        return [file.path[len(root) + 3 :] for file in files]

    names = ["day=1/part-3", "part-2"]
    assert found('{"files": {"part-2": 7, "day=1/part-3": 8}}') == names
    # of another program
    assert sorted(found('{"entries": []}')) == ["day=1/part-3", "part-1", "part-2"]
    with pytest.raises(ConfigurationError, match="part-5"):
        found('{"files": {"part-5": 7}}')


@pytest.mark.fault(
    "security", "A manifest in a folder of data names no files outside of the folder"
)
def test_manifest_with_files_outside_its_folder_is_refused(root: str) -> None:
    system, folder = file_system(root)
    for path in ("secret/salaries.csv", "gift/rows.csv", "gift/inner/rows.csv"):
        system.create_dir(f"{folder}/{path}".rpartition("/")[0])
        with system.open_output_stream(f"{folder}/{path}") as file:
            file.write(b"name")
    names = [
        "../secret/salaries.csv",
        f"{folder}/secret/salaries.csv",
        "../secret",
        "inner/../../secret/salaries.csv",
    ]
    names += ["/dev/zero", "inner", "", ".", "a\0b", "missing"]
    if root.startswith("/"):
        os.symlink(f"{root}/secret", f"{root}/gift/link")
        names += ["link/salaries.csv", "link"]
    texts = [json.dumps({"files": {name: 1}}) for name in names]
    texts += [
        '{"files": [1]}',
        '{"files": [["a"]]}',
        '{"files": "ab"}',
        '{"files": null}',
        '{"files": {"a',
        "[" * 5000,
        "\0",
    ]
    for text in texts:
        with system.open_output_stream(f"{folder}/gift/_manifest.json") as file:
            file.write(text.encode())
        with pytest.raises(
            ConfigurationError, match=r"^Source: parameter 'filePath': .*gift/_manifest\.json "
        ):
            list(list_files("Source", [f"{root}/gift"]))
    with (
        pytest.MonkeyPatch.context() as patch,
        system.open_output_stream(f"{folder}/gift/_manifest.json") as file,
    ):
        patch.setenv("AKDL_TEXT_MB", "0.001")
        file.write(b" " * 2000)
        file.close()
        with pytest.raises(
            ConfigurationError, match=r"_manifest\.json .* more than 1048 bytes.* set AKDL_TEXT_MB"
        ):
            list(list_files("Source", [f"{root}/gift"]))


def test_partitions_are_names_of_folders_below_the_address(tmp_path: pathlib.Path) -> None:
    write(
        tmp_path,
        "run=7/t/day=2024-05-31/city=K%C3%B6ln/a",
        "run=7/t/day=__HIVE_DEFAULT_PARTITION__/a",
    )
    for address in ("run=7/t", "run=7/t/*", "run=7/t/*/city=*/a"):
        file = next(list_files("Source", [f"{tmp_path}/{address}"]))
        assert partition_values(file.path, [root_of(f"{tmp_path}/{address}")]) == {
            "day": "2024-05-31",
            "city": "Köln",
        }
    assert partition_values("/t/day=__HIVE_DEFAULT_PARTITION__/a", ["/t"]) == {"day": None}
    assert (
        partition_values("/t/day=1/a", ["/t/day=1/a"]) == {} == partition_values("/t/day=1/a", [])
    )


def make_files(root: str, names: list[str]) -> None:
    """Make files of one byte below an address."""
    system, folder = file_system(root)
    for name in names:
        system.create_dir(f"{folder}/{name}".rpartition("/")[0])
        with system.open_output_stream(f"{folder}/{name}") as file:
            file.write(b"x")


def _count_first_size_and_peak(folder: str) -> tuple[int, int, int]:
    listing._SORTED = 50
    tracemalloc.start()
    files = list_files("Source", [folder])
    first = next(files)
    tracemalloc.reset_peak()
    count = 1 + sum(1 for _ in files)
    return count, first.size, tracemalloc.get_traced_memory()[1]


def test_a_folder_of_many_files_is_listed_in_bounded_memory(tmp_path: pathlib.Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number:06}").touch()
    count, size, peak = in_own_process(_count_first_size_and_peak, str(tmp_path))
    assert count == 3000 and size == 0 and peak < 100_000, peak


@pytest.mark.fault("data", "Rows that a sink has not published yet are read by no source")
def test_unfinished_files_are_not_found_by_any_address(root: str) -> None:
    names = [
        "a",
        "p=1/a",
        "_temporary/a",
        "p=1/_temporary/a",
        "t.0badcafe.incomplete/a",
        "t.0badcafe.incomplete/p=1/a",
        "t.0badcafe.incomplete.old/a",
        "p=1.0badcafe.incomplete/a",
        "m.ak.0badcafe0badcafe.incomplete",
        "mine.incomplete",
    ]
    make_files(root, names)

    def found(address: str) -> list[str]:
        return sorted(file.path[len(root) :] for file in list_files("Source", [root + address]))

    assert found("") == found("/**") == found("/**/*") == ["/a", "/p=1/a"]
    assert found("/*/a") == found("/*=*") == found("/*/**/a") == ["/p=1/a"]
    named = ["/_temporary/a", "/p=1/_temporary/a"]
    assert found("/**/_temporary/a") == found("/**/_temporary/*") == named


def test_folders_named_by_a_value_are_partitions_and_not_hidden(root: str) -> None:
    shown = ["_year=2020/a", "p=.x/a", "p=_x/a", "p=a.part/a", ".c=1/_d=2/a"]
    names = [
        *shown,
        "_temporary/a",
        "=x.part/a",
        "p=1/_SUCCESS",
        "p=1/b=2.part",
        "_c=1",
        ".d=1",
    ]
    make_files(root, names)
    assert sorted(file.path[len(root) + 1 :] for file in list_files("Source", [root])) == sorted(
        shown
    )
    assert [file.path[len(root) + 1 :] for file in list_files("Source", [f"{root}/_*"])] == [
        "_year=2020/a"
    ]
    assert partition_values("/t/=x/_y=1/a", ["/t"]) == {"_y": "1"}
