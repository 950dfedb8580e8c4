"""Files from everywhere, with real connections that are cut, and without secrets in messages."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import random
import socket
import sys
import tracemalloc
import urllib.request
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from akdl.storage import files
from akdl.storage.files import (
    FileError,
    MissingFileError,
    _Redirects,
    fetch,
    is_remote,
    local_path,
    name_of,
    opened_with_fsspec,
)
from tests.support.http import served

CONTENT = random.Random(1).randbytes(3_000_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _without_pauses_and_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PAUSE_S", 0.001)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_a_local_file_stays_where_it_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a b%20c.txt"
    path.write_text("x")
    for address in (str(path), f"file://{path}", path.as_uri()):
        assert fetch(address, "/nowhere") == str(path)
    monkeypatch.chdir(tmp_path)
    assert fetch(path.name, "/nowhere") == str(path)
    with pytest.raises(FileError, match="there is no file /nowhere/x"):
        fetch("/nowhere/x", str(tmp_path))
    with pytest.raises(FileError, match="file:// needs three slashes"):
        local_path("file://data/x")
    good = hashlib.sha256(b"x").hexdigest()
    assert fetch(f"{path}#sha256={good.upper()}", "/nowhere") == str(path)
    with pytest.raises(FileError, match=f"expected the SHA-256 {'0' * 64}, got {good}"):
        fetch(f"{path}#sha256={'0' * 64}", "/nowhere")
    with pytest.raises(FileError, match="is a folder: only a file has a checksum"):
        fetch(f"{tmp_path}#sha256={good}", "/nowhere")


def test_file_names_are_taken_from_addresses_without_query_and_login() -> None:
    address = "https://me:pass@host:80/a/b%20c.zip?token=t#sha256=0"
    assert is_remote(address) and not is_remote("file:///a") and not is_remote("a")
    assert (
        name_of(address) == "b c.zip"
        and name_of("s3://bucket/folder/") == "folder"
        and name_of("/a/b") == "b"
    )
    with pytest.raises(FileError, match="expected an address that ends in a file name"):
        name_of("https://host/a/%2e%2e")


@pytest.mark.parametrize("tells_size", [True, False])
def test_download_fetches_the_current_content_and_checks_it(
    tmp_path: pathlib.Path, tells_size: bool
) -> None:
    with served(files={"/a%20b/x.bin": CONTENT}, tells_size=tells_size) as site:
        assert read(fetch(f"{site.url}/a%20b/x.bin?v=1#sha256={SHA}", str(tmp_path))) == CONTENT
        assert site.requests[0][":path"] == "/a%20b/x.bin?v=1"
        site.files["/a%20b/x.bin"] = b"changed"
        assert read(fetch(f"{site.url}/a b/x.bin", str(tmp_path))) == b"changed", (
            "no copy of before is used"
        )


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.fault("network", "A download that is cut resumes")
def test_download_that_is_cut_resumes(tmp_path: pathlib.Path, ranges: bool) -> None:
    with served(files={"/x": CONTENT}, cut_after=1_000_000, cuts=2, ranges=ranges) as site:
        assert read(fetch(f"{site.url}/x", str(tmp_path))) == CONTENT
        ranges_asked = [request.get("range") for request in site.requests]
    assert ranges_asked == [
        None,
        "bytes=1000000-",
        "bytes=2000000-" if ranges else "bytes=1000000-",
    ]


@pytest.mark.fault("network", "A file that changes while it is downloaded is downloaded again")
def test_file_that_changes_during_the_download_is_downloaded_again(tmp_path: pathlib.Path) -> None:
    with served(files={"/x": CONTENT}, cut_after=1_000_000, cuts=1) as site:
        kept = site.files["/x"]

        class Changing(dict):  # the second request finds another file
            def get(self, name: str, default: Any = None) -> bytes:
                return kept if not site.requests[1:] else b"other"

        site.files = Changing()
        assert read(fetch(f"{site.url}/x", str(tmp_path))) == b"other"


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.fault("network", "A download that is cut each time is an error after 5 attempts")
def test_download_that_is_always_cut_is_given_up(tmp_path: pathlib.Path, ranges: bool) -> None:
    cut = 0 if ranges else 1000
    with served(files={"/x": CONTENT}, cut_after=cut, ranges=ranges) as site:
        with pytest.raises(
            FileError,
            match=r"/x.*: it could not be fetched.*, in 5 attempts: the connection ended before the file did",
        ):
            fetch(f"{site.url}/x?token=secret", str(tmp_path))
        assert len(site.requests) == 5, "some bytes of each attempt are no progress"


@pytest.mark.fault("security", "A download from a server that hardly sends is given up")
def test_download_from_a_very_slow_server_is_given_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akdl.storage.files.SLOW_S", 0.2)
    monkeypatch.setattr("akdl.storage.files.ATTEMPTS", 2)
    with served(files={"/x": CONTENT}, trickles=True) as site:
        with pytest.raises(
            FileError, match=r"/x: .*, in 2 attempts: it sends less than 60 KB in 0.2 s"
        ):
            fetch(f"{site.url}/x", str(tmp_path))


@pytest.mark.parametrize("tells_size", [True, False])
@pytest.mark.fault("security", "A download without an end is an error that names AKDL_DOWNLOAD_GB")
def test_download_beyond_the_limit_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tells_size: bool
) -> None:
    monkeypatch.setenv("AKDL_DOWNLOAD_GB", str(1 / 1024))
    with served(files={"/x": CONTENT}, tells_size=tells_size) as site:
        with pytest.raises(
            FileError,
            match=r"/x: it has more than 1048576 bytes; .* set AKDL_DOWNLOAD_GB to a higher number",
        ):
            fetch(f"{site.url}/x", str(tmp_path))
        assert len(site.requests) == 1
    assert os.path.getsize(tmp_path / "x") < 3 << 20


def test_files_of_a_storage_beyond_the_limit_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKDL_DOWNLOAD_GB", str(1 / 1024))
    system = fsspec.filesystem("memory")
    for name in ("a", "b"):
        system.pipe_file(f"/large/{name}", bytes(1 << 20))
    assert os.path.getsize(fetch("memory://large/a", str(tmp_path))) == 1 << 20
    with pytest.raises(FileError, match="memory://large: it has more than 1048576 bytes"):
        fetch("memory://large", str(tmp_path))


@pytest.mark.parametrize(
    ("target", "is_followed"),
    [
        ("https://localhost:9/x", True),
        ("ftp://localhost:9/x", False),
        ("http://127.0.0.1:9/x", True),
    ],
)
@pytest.mark.fault("security")
def test_redirects_lead_to_https_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, target: str, is_followed: bool
) -> None:
    monkeypatch.setattr("akdl.storage.files.ATTEMPTS", 1)
    with served(redirects={"/x": f"{target}?sig=secret"}) as site:
        with pytest.raises(FileError) as raised:
            fetch(f"{site.url}/x?sig=secret", str(tmp_path))
    assert (
        "only redirects to https are followed" not in str(raised.value)
    ) is is_followed and "secret" not in str(raised.value)


def test_a_redirect_never_leaves_https() -> None:
    request = urllib.request.Request("https://nowhere.invalid/x")
    with pytest.raises(
        FileError, match=r"nowhere.invalid/x: it redirects to http://nowhere.invalid/y\?...: only"
    ):
        _Redirects().redirect_request(
            request, io.BytesIO(), 302, "Found", {}, "http://nowhere.invalid/y?sig=1"
        )


@pytest.mark.parametrize(
    ("status", "message", "requests"),
    [
        (404, "HTTP 404: it has no such file", 1),
        (410, "HTTP 410: the file no longer exists", 1),
        (403, "HTTP 403: it refuses access", 1),
        (503, "it could not be fetched, in 5 attempts: HTTP 503: Service Unavailable", 5),
    ],
)
@pytest.mark.fault("security", "Errors of downloads hide secrets of their addresses")
def test_http_errors_hide_the_secrets_of_the_address(
    tmp_path: pathlib.Path, status: int, message: str, requests: int
) -> None:
    with served(status={"/x": status}) as site:
        with pytest.raises(FileError) as raised:
            fetch(f"{site.url.replace('//', '//me:secret@')}/x?token=secret", str(tmp_path))
        assert (
            str(raised.value) == f"{site.url}/x?...: {message}" and len(site.requests) == requests
        )
        assert isinstance(raised.value, MissingFileError) == (status in (404, 410))


@pytest.mark.fault("security")
def test_a_login_is_sent_to_its_host_alone(tmp_path: pathlib.Path) -> None:
    login = "Basic " + base64.b64encode(b"me:p@ss").decode()
    with served(files={"/x": b"1"}) as other:
        with served(files={"/x": b"1"}, login=login, redirects={"/away": f"{other.url}/x"}) as site:
            with_login = site.url.replace("//", "//me:p%40ss@")
            assert read(fetch(f"{with_login}/x", str(tmp_path))) == b"1"
            with pytest.raises(FileError, match="HTTP 401: it asks for a login"):
                fetch(f"{site.url}/x", str(tmp_path))
            fetch(f"{with_login}/away", str(tmp_path))
        assert "authorization" not in other.requests[0]


def test_unreachable_hosts_are_errors_after_the_attempts(tmp_path: pathlib.Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FileError, match="it could not be fetched, in 5 attempts: .*refused"):
        fetch(f"http://127.0.0.1:{port}/x", str(tmp_path))
    with pytest.raises(FileError, match="no-such-host.invalid/x: it cannot be reached"):
        fetch("http://no-such-host.invalid/x", str(tmp_path))


@pytest.mark.parametrize("checksum", ["0" * 64, "12"])
def test_wrong_checksum_of_a_download_is_refused(tmp_path: pathlib.Path, checksum: str) -> None:
    with served(files={"/x": b"1"}) as site:
        with pytest.raises(
            FileError, match="expected the SHA-256 000|expected 64 hex digits after"
        ):
            fetch(f"{site.url}/x#sha256={checksum}", str(tmp_path))


@pytest.mark.parametrize("address", ["http://me:s3cret/x@127.0.0.1/y", "http://me:s3cret@[x/y"])
def test_invalid_address_is_refused_without_showing_its_secrets(
    tmp_path: pathlib.Path, address: str
) -> None:
    with pytest.raises(FileError, match="the address is not valid") as raised:
        fetch(address, str(tmp_path))
    assert "s3cret" not in str(raised.value)


def test_download_needs_little_memory(tmp_path: pathlib.Path) -> None:
    content = bytes(60_000_000)
    with served(files={"/x": content}) as site:
        tracemalloc.start()
        try:
            fetch(f"{site.url}/x", str(tmp_path))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 10_000_000


@pytest.fixture
def memory() -> Iterator[Any]:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe(
        {
            "/akdl/model/saved_model.pb": b"graph",
            "/akdl/model/variables/x": b"1",
            "/akdl/x.bin": CONTENT,
        }
    )
    yield system
    system.rm("/akdl", recursive=True)


def test_files_and_folders_of_a_storage_are_fetched(tmp_path: pathlib.Path, memory: Any) -> None:
    assert read(fetch(f"memory://akdl/x.bin#sha256={SHA}", str(tmp_path))) == CONTENT
    folder = fetch("memory://akdl/model", str(tmp_path))
    assert read(os.path.join(folder, "saved_model.pb")) == b"graph"
    assert read(os.path.join(folder, "variables", "x")) == b"1"


def test_missing_file_and_unknown_protocol_of_a_storage_are_errors(
    tmp_path: pathlib.Path, memory: Any
) -> None:
    with pytest.raises(FileError, match="^memory://akdl/nope: there is no such file$"):
        fetch("memory://akdl/nope", str(tmp_path))
    with pytest.raises(
        FileError,
        match="^nosuch://bucket/x.*: it cannot be reached: ValueError: Protocol not known: nosuch",
    ):
        fetch("nosuch://key:secret@bucket/x", str(tmp_path))


def test_missing_fsspec_is_an_error_that_names_the_extra(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        FileError,
        match=r"^s3://bucket/x: s3:// needs the package fsspec.*install the extra files of akdl, as you",
    ):
        fetch("s3://key:secret@bucket/x", str(tmp_path))


def test_errors_of_a_storage_hide_the_secrets_of_the_address(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")

    def fails(address: Any) -> None:
        raise OSError(f"no access to {address}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fails)
    with pytest.raises(FileError) as raised:
        fetch("oss://key:s3cret@bucket/x?security_token=t0ken", str(tmp_path))
    assert "OSError: no access to" in str(raised.value)
    assert not any(secret in str(raised.value) for secret in ("s3cret", "t0ken"))


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (
            OSError("Cannot connect to me:s3cret@host"),
            "it cannot be reached: Cannot connect to ***@host",
        ),
        (FileNotFoundError("https://host/x"), "there is no such file"),
        (None, "there is no such file"),
    ],
)
def test_a_connection_of_fsspec_that_failed_is_no_missing_file(
    cause: Exception | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")

    def fails(address: Any) -> None:
        raise FileNotFoundError(address) from cause

    monkeypatch.setattr(fsspec.core, "url_to_fs", fails)
    with pytest.raises(FileError) as raised, opened_with_fsspec("https://me:s3cret@host/x"):
        pass
    assert str(raised.value) == f"https://host/x: {told}"
    assert isinstance(raised.value, MissingFileError) == (told == "there is no such file")
