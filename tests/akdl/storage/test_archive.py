"""Unpacking: what comes out, and what must never come out."""

from __future__ import annotations

import io
import os
import pathlib
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from akdl.storage.archive import ArchiveError, Limits, is_archive, unpack_archive

Entry = tuple[str, bytes, int, str]  # name, content, mode with the kind, link target


def tar_of(*entries: Entry, compression: str = "gz") -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for name, content, mode, target in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.size, info.linkname = stat.S_IMODE(mode), len(content), target
            info.type = {
                stat.S_IFLNK: tarfile.SYMTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFIFO: tarfile.FIFOTYPE,
                stat.S_IFSOCK: tarfile.LNKTYPE,
            }.get(stat.S_IFMT(mode), tarfile.REGTYPE)  # fmt: skip
            archive.addfile(info, io.BytesIO(content))
    return file


def zip_of(*entries: Entry) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content, mode, target in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, target.encode() if stat.S_ISLNK(mode) else content)
    return file


def file(name: str, content: bytes = b"x", mode: int = 0o644) -> Entry:
    return name, content, stat.S_IFREG | mode, ""


def link(name: str, target: str) -> Entry:
    return name, b"", stat.S_IFLNK | 0o777, target


def hard_link(name: str, of: str) -> Entry:
    return name, b"", stat.S_IFSOCK, of


BOTH = pytest.mark.parametrize("pack", [tar_of, zip_of])


@pytest.mark.parametrize(
    "pack",
    [
        tar_of,
        lambda *e: tar_of(*e, compression="xz"),
        lambda *e: tar_of(*e, compression=""),
        zip_of,
    ],
)
def test_unpacked_files_and_folders_keep_their_executable_bits(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    archive = pack(
        file("bin/run", b"#!", 0o4755),
        ("empty/", b"", stat.S_IFDIR | 0o755, ""),
        file("a/b/c", b"deep"),
    )
    assert unpack_archive(archive, str(tmp_path), copy=lambda s, t: t.write(s.read())) == {
        "bin/run": 2,
        "a/b/c": 4,
    }
    assert (tmp_path / "a/b/c").read_bytes() == b"deep" and (tmp_path / "empty").is_dir()
    assert stat.S_IMODE((tmp_path / "bin/run").stat().st_mode) & 0o7111 == 0o111, (
        "executable, but no set-user-id"
    )
    assert not os.access(tmp_path / "a/b/c", os.X_OK)


def test_tar_file_that_ends_with_a_zip_file_is_no_zip_file(tmp_path: pathlib.Path) -> None:
    inner = zip_of(file("inside")).getvalue()
    assert list(
        unpack_archive(tar_of(file("a"), file("b.npz", inner), compression=""), str(tmp_path))
    ) == ["a", "b.npz"]
    assert (tmp_path / "b.npz").read_bytes() == inner


@BOTH
def test_links_within_the_archive_are_unpacked(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    unpack_archive(
        pack(
            link("bin/python", "python3"), link("lib64", "lib"), file("bin/python3"), file("lib/x")
        ),
        str(tmp_path),
        links=True,
    )
    assert (tmp_path / "bin/python").read_bytes() == b"x" and (tmp_path / "lib64/x").exists()


def test_hard_links_to_earlier_files_are_unpacked(tmp_path: pathlib.Path) -> None:
    unpack_archive(tar_of(file("./a", b"1"), hard_link("./b", "./a")), str(tmp_path), links=True)
    assert (tmp_path / "b").read_bytes() == b"1"


@BOTH
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([file("../evil")], "would leave its folder: '../evil'"),
        ([file("/etc/evil")], "would leave its folder"),
        ([file("a\\..\\evil")], "would leave its folder"),
        ([link("out", "/etc")], "link 'out' leaves its folder: it leads to '/etc'"),
        ([link("a/out", "../../evil")], "link 'a/out' leaves its folder"),
        ([link("here", "."), link("deep/out", "../here/..")], "leaves its folder"),
        ([link("up", ".."), file("up/evil")], "damaged"),
        ([link("up", "sub"), link("up/evil", "..")], "'up/evil' lies behind a link"),
        ([file("a"), file("a/b")], "damaged"),
        ([("pipe", b"", stat.S_IFIFO | 0o644, "")], "not a regular file: 'pipe'"),
    ],
)  # fmt: skip
@pytest.mark.fault("security", "An archive entry that would leave the folder is refused")
def test_entries_that_would_leave_the_folder_are_refused(
    tmp_path: pathlib.Path,
    pack: Callable[..., io.BytesIO],
    entries: list[tuple[str, bytes, int, str]],
    message: str,
) -> None:
    folder = tmp_path / "parent" / "folder"
    folder.mkdir(parents=True)
    with pytest.raises(ArchiveError, match=message):
        unpack_archive(pack(*entries), str(folder), links=True)
    assert os.listdir(tmp_path) == ["parent"] and os.listdir(folder.parent) == ["folder"]


@BOTH
def test_links_are_refused_unless_asked_for(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    with pytest.raises(ArchiveError, match="not a regular file: 'here'"):
        unpack_archive(pack(link("here", ".")), str(tmp_path))


def test_hard_link_to_a_file_outside_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ArchiveError,
        match="'a' is a link to '/etc/passwd', which is not an earlier file of the archive",
    ):
        unpack_archive(tar_of(hard_link("a", "/etc/passwd")), str(tmp_path), links=True)


@BOTH
@pytest.mark.fault("security", "A damaged archive is an error")
def test_truncated_archive_is_refused_as_damaged(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    whole = pack(file("a", os.urandom(100_000))).getvalue()
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_archive(io.BytesIO(whole[:50_000]), str(tmp_path))


def test_archives_are_known_by_their_names() -> None:
    assert [
        name for name in ("a.zip", "a.tar.gz", "a.TGZ", "a.gz", "a.tar", "zip") if is_archive(name)
    ] == [
        "a.zip",
        "a.tar.gz",
        "a.TGZ",
    ]


@BOTH
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(members=2), "more than 2 entries; if you trust it, set AKDL_ARCHIVE_MEMBERS"),
        (
            Limits(bytes=1 << 20),
            "unpack to more than 1048576 bytes; if you trust it, set AKDL_ARCHIVE_GB",
        ),
        (Limits(ratio=2, free_bytes=10), "set AKDL_ARCHIVE_RATIO"),
    ],
)
@pytest.mark.fault(
    "security", "An archive that would fill the disk is an error that names the limit"
)
def test_archive_that_would_fill_the_disk_is_refused(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO], limits: Any, expected: str
) -> None:
    entries = [file(str(number), bytes(1 << 20)) for number in range(3)]
    archive = pack(*entries) if pack is tar_of else deflated(*entries)
    with pytest.raises(ArchiveError, match=expected):
        unpack_archive(archive, str(tmp_path), limits=limits)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) <= 2 << 20
    unpacked = tmp_path / "all"
    unpacked.mkdir()
    assert len(unpack_archive(archive, str(unpacked))) == 3, "the default limits are wide"


def deflated(*entries: Any) -> io.BytesIO:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, _, _ in entries:
            archive.writestr(name, content)
    return packed


def test_limits_are_read_from_variables() -> None:
    variables = {"AKDL_ARCHIVE_MEMBERS": "5", "AKDL_ARCHIVE_GB": "0.5", "AKDL_ARCHIVE_RATIO": "7"}
    assert Limits.of(variables)[:3] == (5, 1 << 29, 7.0)
    assert Limits.of({}) == Limits()
    with pytest.raises(ArchiveError, match="AKDL_ARCHIVE_"):
        Limits.of({"AKDL_ARCHIVE_GB": "much"})
    with pytest.raises(ArchiveError, match="a variable AKDL_ARCHIVE_"):
        Limits.of({"AKDL_ARCHIVE_GB": "inf"})


@BOTH
@pytest.mark.fault("security", "An archive entry with an impossible name is an error")
def test_entry_name_too_long_for_a_file_system_is_refused(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    with pytest.raises(ArchiveError, match="name is longer than 255 bytes: 'xxxx"):
        unpack_archive(pack(file("x" * 300)), str(tmp_path))


@BOTH
@pytest.mark.parametrize(
    "name", ["/".join(["x" * 200] * 25), "/".join(["x"] * 2040)], ids=["long", "deep"]
)
@pytest.mark.fault("security", "An archive entry with too long a path is an error")
def test_entry_path_too_long_for_a_file_system_is_refused(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO], name: str
) -> None:
    with pytest.raises(ArchiveError, match="path is longer than 4096 bytes: 'x"):
        unpack_archive(pack(file(name)), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@BOTH
@pytest.mark.fault("security", "A link of megabytes in an archive takes no memory")
def test_a_link_of_megabytes_takes_no_memory(
    tmp_path: pathlib.Path, pack: Callable[..., io.BytesIO]
) -> None:
    tracemalloc.start()
    try:
        archive = pack(link("link", "x" * (64 << 20)))
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        with pytest.raises(ArchiveError):
            unpack_archive(archive, str(tmp_path), links=True)
        assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("says", [struct.pack("<HHI", 2, 0, 0), struct.pack("<HHI", 0, 0, 0)])
@pytest.mark.fault("security", "A zip file that claims to be empty is an error")
def test_zip_file_that_claims_to_be_empty_is_refused(says: bytes, tmp_path: pathlib.Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "x")
        archive.writestr("b", "y")
    data = bytearray(file.getvalue())
    place = data.rfind(b"PK\5\6") + 8
    data[place : place + 8] = says
    with pytest.raises(ArchiveError, match="it lists no entries but has content"):
        unpack_archive(io.BytesIO(data), str(tmp_path))


@pytest.mark.fault("security", "A truncated tar file is an error, even between two entries")
def test_tar_file_cut_between_two_entries_is_refused(tmp_path: pathlib.Path) -> None:
    whole = tar_of(file("a"), file("b"), compression="").getvalue()
    with pytest.raises(ArchiveError, match="damaged, or cut off: .* at byte 1024"):
        unpack_archive(io.BytesIO(whole[:1024]), str(tmp_path))


@pytest.mark.fault("security", "A tar file with a damaged entry is an error that says where")
def test_damaged_entry_of_a_tar_file_is_named_by_its_place(tmp_path: pathlib.Path) -> None:
    whole = bytearray(tar_of(file("a"), file("b"), file("c"), compression="").getvalue())
    whole[1030] ^= 1  # in the name of the second
    with pytest.raises(ArchiveError, match="damaged, or cut off: bad checksum at byte 1024"):
        unpack_archive(io.BytesIO(whole), str(tmp_path))


@pytest.mark.fault("security", "A compressed tar file with a wrong checksum is an error")
def test_compressed_tar_file_with_a_wrong_checksum_is_refused(tmp_path: pathlib.Path) -> None:
    whole = bytearray(tar_of(file("a", b"content")).getvalue())
    whole[-8] ^= 1
    with pytest.raises(ArchiveError, match="it is damaged: CRC check failed"):
        unpack_archive(io.BytesIO(whole), str(tmp_path))
