"""How the user's files are found, laid out and checked, before anything runs."""

from __future__ import annotations

import logging
import pathlib
import shutil
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.work_folder import WorkFolder
from operators.errors import summary
from operators.errors.summary import source_path
from operators.params.function_script import script_of
from operators.prepare.user_files import LARGE_BYTES, read_files
from tests.support.http import served


# which is a function as users have them, too
def paths(files: list[Any], main: str = "main.py") -> list[Any]:
    return sorted(file.path for file in read_files("Op", files, main)[0])


def test_files_and_folders_keep_their_paths(folder: pathlib.Path) -> None:
    files, main = read_files("Op", ["words.txt", "lib"], "main.py")
    assert {file.path: file.content for file in files} == {
        "words.txt": "żółć".encode(),
        "lib/data.bin": b"\0",
        "lib/deep/helper.py": b"X = 1\n",
        "main.py": b"def main(config): pass\n",
    }
    assert main == "main.py"


def test_errors_know_where_files_lie(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_sources", {})
    read_files("Op", ["lib"], "main.py")
    assert source_path("lib/deep/helper.py") == str(folder / "lib" / "deep" / "helper.py")


@pytest.mark.parametrize(
    "main", ["main.py", "lib/../main.py", "{folder}/main.py", "file://{folder}/main.py"]
)
def test_the_main_script_is_found_among_the_files(folder: pathlib.Path, main: str) -> None:
    files, path = read_files("Op", ["main.py", "main.py"], main.format(folder=folder))
    assert [file.path for file in files] == ["main.py"] and path == "main.py"


def test_the_main_script_may_be_a_function(folder: pathlib.Path) -> None:
    script = script_of(paths)
    files, path = read_files("Op", ["words.txt"], script)
    assert path == "paths_function.py" and [file.path for file in files] == ["words.txt", path]
    assert files[1].content.decode() == script.text and script.text.endswith("main = paths\n")


def test_an_equal_copy_of_the_main_script_is_the_same(folder: pathlib.Path) -> None:
    (folder / "copy" / "main.py").write_bytes((folder / "main.py").read_bytes())
    assert read_files("Op", ["copy/main.py"], "main.py")[1] == "main.py"
    archive = shutil.make_archive(str(folder / "packed"), "zip", folder / "copy")
    assert paths([archive]) == ["data.csv", "main.py"]


def test_the_main_script_may_lie_in_a_folder(folder: pathlib.Path) -> None:
    files, path = read_files("Op", ["other"], "other/main.py")
    assert [file.path for file in files] == ["other/main.py"] and path == "other/main.py"
    assert read_files("Op", [str(folder / "lib")], "helper.py")[1] == "lib/deep/helper.py"


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_archives_of_user_files_are_unpacked(folder: pathlib.Path, kind: str) -> None:
    archive = shutil.make_archive(str(folder / "packed"), kind, folder / "lib")
    assert paths([archive]) == ["data.bin", "deep/helper.py", "main.py"]
    assert read_files("Op", [archive], "deep/helper.py")[1] == "deep/helper.py"
    (folder / "main.py").unlink()
    assert read_files("Op", [archive], "helper.py")[1] == "deep/helper.py"


def test_files_of_one_name_are_kept_apart_by_their_folders(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert paths(["train/data.csv", "test/data.csv"]) == [
        "main.py",
        "test/data.csv",
        "train/data.csv",
    ]
    assert "2 files data.csv; for the script they are train/data.csv, test/data.csv" in caplog.text
    caplog.clear()
    assert paths(["train/data.csv", "copy/data.csv"]) == ["data.csv", "main.py"], (
        "equal files are one"
    )
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_content_is_read_when_the_job_is_built(folder: pathlib.Path) -> None:
    files, _ = read_files("Op", [], "main.py")
    (folder / "main.py").write_text("changed = 1")
    assert files[0].content == b"def main(config): pass\n"
    assert read_files("Op", [], "main.py")[0][0].content == b"changed = 1"


def test_large_files_are_kept_on_disk(folder: pathlib.Path) -> None:
    (folder / "lib" / "big").write_bytes(bytes(LARGE_BYTES + 1))
    files = {file.path: file for file in read_files("Op", ["lib"], "main.py")[0]}
    assert files["lib/big"].content == b"" and files["lib/data.bin"].shipped == ""
    (folder / "lib" / "big").write_bytes(b"changed")
    work = WorkFolder(tuple(files.values()))
    try:
        assert pathlib.Path(work.path, "lib", "big").read_bytes() == bytes(LARGE_BYTES + 1)
    finally:
        work.remove()


def test_user_files_are_fetched_from_addresses_once(folder: pathlib.Path) -> None:
    script = (folder / "main.py").read_bytes()
    packed = pathlib.Path(shutil.make_archive(str(folder / "packed"), "zip", folder / "lib"))
    content = {
        "/a/train.py": script,
        "/lib.zip": packed.read_bytes(),
        "/x/data.csv": b"1",
        "/y/data.csv": b"2",
    }
    with served(files=content) as site:
        addresses = [f"{site.url}{path}?token=secret" for path in content]
        files, main = read_files("Op", addresses, addresses[0])
        assert {file.path for file in files} == {
            "train.py",
            "data.bin",
            "deep/helper.py",
            "x/data.csv",
            "y/data.csv",
        }
        assert main == "train.py" and len(site.requests) == 4, "each is fetched once"
        content["/a/train.py"] = b"x = 2"
        assert read_files("Op", [], addresses[0])[0][0].content == b"x = 2", (
            "and anew for another job"
        )
        content["/a/train.py"] = b"x = (\n"
        with pytest.raises(ConfigurationError) as raised:
            read_files("Op", [], addresses[0])
        assert str(raised.value).startswith(f"Op: {site.url}/a/train.py?..., line 1: ")
        with pytest.raises(ConfigurationError) as raised:
            read_files("Op", [f"{site.url}/nope?token=secret"], "main.py")
        assert (
            str(raised.value)
            == f"Op: userFiles: {site.url}/nope?...: HTTP 404: it has no such file"
        )


@pytest.mark.parametrize(
    ("files", "main", "message"),
    [
        (["nope.py"], "main.py", "Op: userFiles 'nope.py': there is no file {folder}/nope.py"),
        ([], "nope.py", "Op: mainScriptFile 'nope.py': there is no file {folder}/nope.py"),
        ([], "lib", "Op: mainScriptFile lib is not a file"),
        ([], "broken.py", "Op: {folder}/broken.py, line 2: "),
        (["broken.py"], "main.py", "Op: {folder}/broken.py, line 2: "),
        (["words.zip"], "main.py", "Op: userFiles: the archive words.zip: it is damaged, or neither a zip nor a tar file"),
        (["main.py"], "other/main.py", "Op: there are two main scripts: mainScriptFile is {folder}/other/main.py, and another main.py"),
        (["lib", "up/lib"], "main.py", "Op: two user files would both have the path 'lib/data.bin': {folder}/lib/data.bin and {folder}/up/lib/"),
        (["json.py"], "main.py", "Op: the script and TensorFlow would find {folder}/json.py when they import the module 'json'"),
        ([], "tensorflow.py", "Op: the script and TensorFlow would find {folder}/tensorflow.py when they import"),
        (["akdl.py"], "main.py", "Op: the script and TensorFlow would find {folder}/akdl.py when they import the module 'akdl'"),
        (["numpy"], "main.py", "Op: the script and TensorFlow would find {folder}/numpy/__init__.py when they import"),
        (["other", "up/other"], "other/typing.py", "Op: the script and TensorFlow would find {folder}/up/other/typing.py when"),
    ],
)  # fmt: skip
def test_missing_broken_and_shadowing_files_are_refused(
    folder: pathlib.Path, files: list[str], main: str, message: str
) -> None:
    for name in (
        "json.py",
        "akdl.py",
        "tensorflow.py",
        "numpy/__init__.py",
        "up/lib/data.bin",
        "up/other/typing.py",
        "words.zip",
    ):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_text("x = 1")
    with pytest.raises(ConfigurationError) as raised:
        read_files("Op", files, main)
    assert str(raised.value).startswith(message.format(folder=folder)), str(raised.value)


def test_user_files_that_shadow_no_module_are_accepted(folder: pathlib.Path) -> None:
    for name in (
        "pkg/__init__.py",
        "pkg/json.py",
        "pkg/main2.py",
        "json/rows.json",
        "test.py",
        "lib/logging.py",
        "bridge.py",
        "operators.py",
    ):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_text("")
    # Processes of scripts import neither of our packages of Flink's side.
    assert (
        read_files(
            "Op", ["pkg", "json", "test.py", "lib", "bridge.py", "operators.py"], "pkg/main2.py"
        )[1]
        == "pkg/main2.py"
    )


def test_warnings_about_the_script_are_left_to_the_script(folder: pathlib.Path) -> None:
    assert read_files("Op", [], "odd_escape.py")[1] == "odd_escape.py"


def test_relative_paths_are_resolved_when_files_are_read(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "other")
    files, _ = read_files("Op", [], "main.py")
    assert files[0].content == b"def main(config): return 1\n"
