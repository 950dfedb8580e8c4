"""Requirements in `pythonEnv`, in files, and in scripts."""

from __future__ import annotations

import pathlib

import pytest

from bridge.exceptions import ConfigurationError
from operators.prepare.requirements import Wanted, wanted_by, wanted_in

SCRIPT = b"""#!/usr/bin/env python
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "tensorflow==2.21.*",
#
#   "attrs; python_version < '4'",  # note
# ]
# ///

def main(config): ...
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("tensorflow==2.21.*", Wanted(("tensorflow==2.21.*",))),
        ("tensorflow[and-cuda]", Wanted(("tensorflow[and-cuda]",))),
        ("mine @ https://host/mine.whl", Wanted(("mine @ https://host/mine.whl",))),
        (["tensorflow", "python >=3.10, <3.12"], Wanted(("tensorflow",), "<3.12,>=3.10")),
        (["python-dateutil>=2"], Wanted(("python-dateutil>=2",))),
        ("tensorflow", None),  # a folder, or a mistyped one: it must not bring a package
        ("env.zip", None),
        ("/opt/envs/tf215", None),
        ("s3://bucket/env.zip", None),
        ("tensorflow=2.21", None),
    ],
)
def test_requirements_are_recognized_in_python_env(
    given: str | list[str], wanted: Wanted | None
) -> None:
    assert wanted_by(given) == wanted


def test_existing_path_is_no_requirement(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tensorflow==2.21").mkdir()
    assert wanted_by("tensorflow==2.21") is None


def test_requirements_are_read_from_files_without_logins(tmp_path: pathlib.Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(
        "# of ours\n--index-url https://me:hunter2@host/simple\na==1 \\\n  --hash=sha256:12\nb>2 # why\n\n"
    )
    wanted = wanted_by(str(listed))
    assert wanted == Wanted(
        ("--index-url https://me:hunter2@host/simple", "a==1    --hash=sha256:12", "b>2")
    )
    assert "hunter2" not in wanted.shown
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "x"\nrequires-python = ">=3.9"\ndependencies = ["a==1"]\n'
    )
    assert wanted_by(f"file://{project}") == Wanted(("a==1",), ">=3.9")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "requirements.txt",
            "-r other.txt",
            "expected a requirement such as .*, got '-r other.txt': write the requirements of",
        ),
        (
            "requirements.txt",
            "./mine.whl",
            r"requirements.txt: expected a requirement .*, got './mine.whl'",
        ),
        ("pyproject.toml", "[project", "pyproject.toml: Expected"),
        ("pyproject.toml", '[project]\ndynamic = ["dependencies"]', "its dependencies are dynamic"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["--index-url https://x"]',
            "got '--index-url https://x'",
        ),
        (
            "pyproject.toml",
            "[project]\ndependencies = 3",
            "expected `dependencies`, a list of strings",
        ),
        (
            "pyproject.toml",
            '[project]\nrequires-python = ">=x"',
            "got 'python>=x': Invalid specifier",
        ),
    ],
)
def test_files_with_unsupported_requirements_are_refused(
    tmp_path: pathlib.Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        wanted_by(str(tmp_path / name))
    with pytest.raises(ConfigurationError, match="No such file"):
        wanted_by(str(tmp_path / "other" / name))


@pytest.mark.parametrize(
    "line",
    [
        "a==1\n--index-url https://x",
        "x @ https://x/\r--no-index",
        "--index-url=https://x",
        "; rm -rf",
    ],
)
def test_a_requirement_is_no_option_and_no_second_line(line: str) -> None:
    with pytest.raises(ConfigurationError, match="^expected a requirement such as"):
        wanted_by([line])


@pytest.mark.parametrize(
    "line",
    [
        *(
            "-rother.txt",
            "--requirement=other.txt",
            "--requirement other.txt",
            "--req=other.txt",
            "-cother.txt",
            "-c other.txt",
        ),
        *(
            "--constraint=other.txt",
            "--const other.txt",
            "-e.",
            "-e .",
            "--editable=.",
            "--edit .",
            "-r\tother.txt",
        ),
        *(
            "--no-index -r other.txt",
            "--no-index -rother.txt",
            '--no-index "-r" other.txt',
            "--pre --requirement=other.txt",
        ),
        *(
            "--no-index \\\n  -r other.txt",
            "\ufeff-r other.txt",
            "a==1\x0b-r other.txt",
            " -r other.txt # ours",
        ),
    ],
)
def test_requirements_that_name_files_or_folders_are_refused(
    tmp_path: pathlib.Path, line: str
) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(f"a==1\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="expected a requirement such as"):
        wanted_by(str(listed))


@pytest.mark.parametrize(
    "line",
    [
        *(
            "--require-hashes",
            "--extra-index-url=https://x/a-c -f https://y",
            "--no-index",
            "-i https://x",
            "--pre",
        ),
        *("a==1 --config-settings=x=y", "a-r==1", "b @ https://x/b-r.whl"),
    ],
)
def test_options_about_package_indexes_are_kept(tmp_path: pathlib.Path, line: str) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(line)
    assert wanted_by(str(listed)) == Wanted((line,))


@pytest.mark.parametrize("line", ["akdl", "AKDL[flink,tf]>=0.1", "akdl==0.1; python_version > '3'"])
def test_akdl_is_never_fetched_from_a_package_index(line: str, tmp_path: pathlib.Path) -> None:
    message = "expected a requirement such as .*: akdl comes with the job and is in no package index: leave it out"
    with pytest.raises(ConfigurationError, match=message):
        wanted_by(["tensorflow", line])
    (tmp_path / "pyproject.toml").write_text(f'[project]\ndependencies = ["{line}"]')
    with pytest.raises(ConfigurationError, match=message):
        wanted_by(str(tmp_path / "pyproject.toml"))
    assert wanted_by(["akdl @ file:///src/akdl", "akdl-tools==1"]) is not None


def test_a_login_is_not_in_the_message() -> None:
    with pytest.raises(ConfigurationError) as raised:
        wanted_by(["a b @ https://me:hunter2@host/a.whl"])
    assert "hunter2" not in str(raised.value)


def test_metadata_block_of_a_script_names_its_requirements() -> None:
    wanted = Wanted(("tensorflow==2.21.*", "attrs; python_version < '4'"), ">=3.10")
    assert wanted_in(SCRIPT) == wanted == wanted_in(SCRIPT.replace(b"\n", b"\r\n"))
    assert wanted_in(b"# /// script is a comment\ndef main(config): ...\n") is None
    assert wanted_in(b"# /// script\n# never ends\n") is None
    with pytest.raises(ConfigurationError, match="expected one block `# /// script`, found 2"):
        wanted_in(SCRIPT + SCRIPT)
    with pytest.raises(ConfigurationError, match="^# /// script: .*line 1"):
        wanted_in(SCRIPT.replace(b"requires-python =", b"requires-python"))
