"""Where rows are kept."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from bridge.host.places import places, socket_address


@pytest.fixture
def folders(tmp_path: pathlib.Path) -> list[str]:
    made = [tmp_path / "a", tmp_path / "b"]
    for folder in made:
        folder.mkdir()
    return [str(folder) for folder in made]


@pytest.mark.parametrize("text", ["io.tmp.dirs: {}\n", "io:\n  tmp:\n    dirs: {}\n"])
def test_temporary_places_are_those_of_the_cluster_configuration(
    text: str, folders: list[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "config.yaml").write_text(text.format(",".join([*folders, "/no/such/folder"])))
    assert places({"FLINK_CONF_DIR": str(tmp_path)}) == folders


def test_temporary_places_of_the_job_come_first_and_of_the_system_last(
    folders: list[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "config.yaml").write_text("parallelism.default: 1\n")
    environment = {"FLINK_CONF_DIR": str(tmp_path), "LOCAL_DIRS": folders[1]}
    assert places(environment, ":".join(folders)) == folders
    assert places(environment) == folders[1:]
    assert places({"FLINK_CONF_DIR": "/no/such/folder"}) == [tempfile.gettempdir()]


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/tmp/model.sock", "unix:/tmp/model.sock"),
        ("/" + 99 * "x", "unix:/" + 99 * "x"),
        ("/" + 100 * "x", None),
        ("/tmp/ü", None),
        ("/tmp/%41", None),
    ],
)
def test_socket_address_is_none_for_too_long_a_path(path: str, address: str | None) -> None:
    assert socket_address(path) == address
