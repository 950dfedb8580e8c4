"""Another user plants links and folders where others may write, at the names that we use: nothing
behind them is touched.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from akdl.process.channel import ChannelError
from akdl.rows.extra_files import ExtraFiles
from akdl.storage import locked_folder
from bridge.exceptions import ConfigurationError
from bridge.host import gpus
from bridge.host.places import environment_place, model_place
from bridge.host.program_folder import program_folder, sweep
from bridge.host.work_folder import WorkFolder
from bridge.member.status import StatusFile
from bridge.schema import Schema, table_columns
from operators import PipelineModel, TFSavedModelPredictor
from operators.data.sinks import _AkFile
from tests.support.deadline import DEADLINE_S
from tests.support.statuses import status_of

COLUMNS = [table_columns(Schema.parse("x BIGINT"))]


def files_in(folder: str) -> None:
    ExtraFiles(os.path.dirname(folder), COLUMNS, False).complete(
        lambda path, chunks, columns: None, folder
    )


USED: dict[str, Callable[[str], object]] = {
    f"akdl_models_{os.geteuid()}": lambda place: model_place(),
    f"akdl_envs_{os.geteuid()}": lambda place: environment_place(),
    f"akdl_gpus_{os.geteuid()}": lambda place: gpus._lock_folder(
        os.path.join(place, f"akdl_gpus_{os.geteuid()}")
    ),
    "akdl-extra-group-0": lambda place: files_in(os.path.join(place, "akdl-extra-group-0")),
}
ELSEWHERE = [f"akdl_models_{os.geteuid()}", f"akdl_envs_{os.geteuid()}"]


@pytest.fixture
def shared(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The place for temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture
def precious(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of this user with a file, and with what folders of ours have in them."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("mine")
    return folder


@pytest.mark.parametrize("name", USED)
@pytest.mark.fault(
    "security", "A link that another user plants at the name of a folder is refused, or avoided"
)
def test_a_link_at_a_name_of_ours_is_not_followed(
    name: str, shared: pathlib.Path, precious: pathlib.Path
) -> None:
    (shared / name).symlink_to(precious)
    if name in ELSEWHERE:
        assert (
            USED[name](str(shared)) == f"{shared.parent}/cache/akdl/{name}_{socket.gethostname()}"
        )
    else:
        with pytest.raises(
            (ConfigurationError, ChannelError),
            match=f"{name}.* only this user can access: it is a link. Remove it",
        ):
            USED[name](str(shared))
    sweep()
    assert os.listdir(precious) == ["file"]


@pytest.mark.fault("security", "Removing old folders never follows a link")
def test_sweep_never_follows_a_link(shared: pathlib.Path, precious: pathlib.Path) -> None:
    for name in (*locked_folder.PREFIXES, "akdl-extra-group-"):
        (shared / f"{name}0123456789ab").symlink_to(precious)
    (precious / locked_folder.LOCK).write_text(socket.gethostname())  # a folder as those that go
    before = sorted(os.listdir(shared))
    sweep()
    locked_folder.remove_unused(str(shared / "akdl-extra-group-0123456789ab"))
    assert (precious / "file").read_text() == "mine" and sorted(os.listdir(shared)) == before


def test_work_folders_are_always_new_folders(shared: pathlib.Path, precious: pathlib.Path) -> None:
    """So a link is in the way of none; it would have to guess a name of 48 random bits."""
    (shared / "akdl-").symlink_to(precious)
    folder = WorkFolder(())
    try:
        assert (
            os.path.dirname(folder.path) == str(shared)
            and os.lstat(folder.path).st_mode & 0o777 == 0o700
        )
    finally:
        folder.remove()
    assert os.listdir(precious) == ["file"]


@pytest.mark.fault("security", "A link that replaces a folder during the check is refused")
def test_a_link_that_takes_the_place_of_a_folder_just_now_is_refused(
    shared: pathlib.Path, precious: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a stranger goes as it is looked at, and a link comes."""
    path = shared / "akdl-extra-group-0"
    path.mkdir()
    check = locked_folder.is_private_folder

    def swap_and_check(folder: str) -> bool:
        monkeypatch.setattr(locked_folder, "is_private_folder", check)
        path.rmdir()
        try:
            return check(folder)
        finally:
            path.symlink_to(precious)

    monkeypatch.setattr(locked_folder, "is_private_folder", swap_and_check)
    with pytest.raises(ChannelError, match="is not a folder that only this user can access"):
        files_in(str(path))
    assert os.listdir(precious) == ["file"]


STRANGER = "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second user")


def as_stranger(*command: str) -> None:
    """Run a program of the system as a second user of this host."""
    subprocess.run(command, user=STRANGER, check=True, timeout=DEADLINE_S)


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder that both users may write to, and that is the place for temporary files."""
    program_folder()  # is made once for all tests, and not in a folder that goes
    place = pathlib.Path(tempfile.mkdtemp(prefix="common-", dir="/tmp"))
    place.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield place
    shutil.rmtree(place)


def status(path: str) -> None:
    StatusFile(os.path.basename(path)[len("akdl-") : -len(".status")], 0.0).write(
        status_of("g", 0, "chief 0"), 0.0
    )


def pipeline(path: str) -> None:
    with zipfile.ZipFile(f"{path}.model.zip", "w") as file:
        file.writestr("saved_model.pb", "")
    PipelineModel(
        TFSavedModelPredictor(modelPath=f"{path}.model.zip", outputSchemaStr="y FLOAT")
    ).save(path)


def sink(path: str) -> None:
    schema = Schema.parse("x BIGINT")
    receiver = _AkFile(path, schema, datetime.timezone.utc)
    receiver.take(pa.RecordBatch.from_pydict({"x": [1]}))
    receiver.finish()


# what writes a file, and what was once in the way
WRITTEN: dict[str, tuple[Callable[[str], None], list[str]]] = {
    "rows.ak": (sink, ["rows.ak.incomplete"]),
    "pipeline.akdl": (pipeline, ["pipeline.akdl.incomplete"]),
    "akdl-g-chief-0-0.status": (status, ["akdl-g-chief-0-0.status.new"]),
}


@as_root
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.fault(
    "security",
    "Links that another user plants beside sinks and checkpoints are replaced, never followed",
)
def test_links_planted_by_another_user_are_never_followed(
    name: str, common: pathlib.Path, precious: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(common))
    write, once = WRITTEN[name]
    for planted in (name, *once):
        as_stranger("ln", "-s", str(precious / "file"), str(common / planted))
    write(str(common / name))
    assert (precious / "file").read_text() == "mine"
    assert (
        (common / name).is_file()
        and not (common / name).is_symlink()
        and (common / name).stat().st_uid == 0
    )


@as_root
@pytest.mark.parametrize("name", [name for name in USED if name.endswith(f"_{os.geteuid()}")])
@pytest.mark.fault(
    "security",
    "A folder name that another user has taken is an error that names the user, or avoided",
)
def test_folder_name_taken_by_another_user_is_avoided_or_an_error(
    name: str, common: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_stranger("mkdir", str(common / name))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError) as raised:
        USED[name](str(common))
    assert f"only this user can access: it belongs to user {STRANGER} (" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    if name in ELSEWHERE:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert USED[name](str(common)) == f"{tmp_path}/akdl/{name}_{socket.gethostname()}"
    assert os.listdir(common / name) == []
