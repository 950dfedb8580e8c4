"""Growing files, and the error for a full disk."""

from __future__ import annotations

import errno
import io
import os
import pathlib
from typing import Any

import pytest

from akdl.storage import local_files
from akdl.storage.local_files import free_bytes, no_room, write_all, write_at


class Slow(io.RawIOBase):
    """A file that takes three bytes at a time."""

    def __init__(self) -> None:
        self.got = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.got += bytes(data[:3])
        return min(3, len(data))


def test_write_all_repeats_partial_writes() -> None:
    with Slow() as file:
        write_all(file, b"12345678")
        assert file.got == b"12345678"


def test_write_at_cuts_the_file_behind_the_written_bytes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    for place, data, content in (
        (0, b"abc", b"abc"),
        (3, b"defg", b"abcdefg"),
        (5, b"XY", b"abcdeXY"),
        (0, b"1", b"1"),
    ):
        write_at(str(path), place, data)
        assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_with_its_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "held").write_bytes(bytes(1_500_000))

    def fail(file: Any, data: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local_files, "write_all", fail)
    with pytest.raises(
        OSError, match=rf"{tmp_path} holds 1\.5 MB, .* MB are free, and the next rows need 2\.0 MB"
    ) as caught:
        write_at(str(tmp_path / "rows"), 0, bytes(2_000_000))
    assert caught.value.errno == number and "io.tmp.dirs (else TMPDIR)" in str(caught.value)


def test_errors_other_than_a_full_disk_are_not_changed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_at(str(tmp_path / "none" / "rows"), 0, b"x")


def test_no_room_has_the_errno_of_a_full_disk(tmp_path: pathlib.Path) -> None:
    assert 0 < free_bytes(str(tmp_path)) < 2**60
    assert no_room(OSError(errno.ENOSPC, "full"), str(tmp_path), 0).errno == errno.ENOSPC


def test_a_full_disk_is_named_while_a_file_of_the_folder_cannot_be_found(
    tmp_path: pathlib.Path,
) -> None:
    # As a file that another thread removes between the listing and the look at its size.
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "held").write_bytes(bytes(1_500_000))
    error = no_room(OSError(errno.ENOSPC, "full"), str(tmp_path), 0)
    assert error.errno == errno.ENOSPC and f"{tmp_path} holds 1.5 MB" in str(error)
