"""Access to files by address: local paths, `file://`, `http(s)://`, and the storages of fsspec.

These are, for example, s3, hdfs, oss and gs. A model may also be in a registry of MLflow, as in
`models:/name/1`. Files are always fetched again and streamed to disk. An address may end in
`#sha256=<64 hex digits>`, the required checksum. Every error names the address by `shown`, and
texts of libraries go through `masked`, because they may repeat a login or key.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import http.client
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from types import ModuleType
from typing import IO, Any, Dict, Iterator, Tuple

from akdl.masking import masked, shown
from akdl.storage.limits import DOWNLOAD, LimitError

# Seconds without a byte after which a connection counts as broken.
TIMEOUT_S = 30.0
# Bytes that a connection has to bring in SLOW_S; a slower one counts as a failed attempt.
LEAST_BYTES = 60 << 10
SLOW_S = 60.0
# Attempts in a row that bring at most LEAST_BYTES, before the download fails.
ATTEMPTS = 5
# Seconds after the first of these attempts, doubled after each.
PAUSE_S = 0.2
# Ending of a file that is being sent.
UNFINISHED = ".part"

_CUT = "the connection ended before the file did"
_CHECKSUM = "#sha256="
_COPY_BYTES = 1 << 20
# Statuses of HTTP for temporary failures, after which a request is sent again.
_AGAIN = {408, 429, 500, 502, 503, 504}
_REASONS = {
    401: "it asks for a login",
    403: "it refuses access",
    404: "it has no such file",
    410: "the file no longer exists",
}
_cut = (http.client.HTTPException, urllib.error.URLError, OSError)


FileStates = Dict[str, Tuple[int, int]]
"""Size and time of the last change of each file, by which a changed file is noticed."""


class FileError(ValueError):
    """A file cannot be fetched or read; the message names its address, without secrets, and the
    remedy.
    """


class MissingFileError(FileError):
    """There is no such file at an address that can be reached."""


def is_remote(address: str) -> bool:
    """Test for an address that is not a path on this host."""
    return ("://" in address and not address.startswith("file://")) or is_registered(address)


def is_registered(address: str) -> bool:
    """Test for the address of a model in a registry of MLflow: models:/NAME/VERSION or
    models:/NAME@ALIAS.
    """
    return address.startswith("models:/")


def local_path(address: str) -> str:
    if address.startswith("file://"):
        parts = urllib.parse.urlsplit(address)
        if parts.netloc not in ("", "localhost"):
            raise FileError(
                f"{shown(address)}: file:// needs three slashes before a path, as in"
                f" file:///{parts.netloc}/..."
            )
        address = address[len("file://") + len(parts.netloc) :].partition(_CHECKSUM)[0]
        # Alink's users write plain paths behind file://, where %xx may be a part of the name.
        unquoted = urllib.parse.unquote(address)
        address = unquoted if os.path.exists(unquoted) or not os.path.exists(address) else address
    return os.path.abspath(address)


def place_of(address: str) -> str:
    """Return the absolute path of a file on this host, or the unchanged address of any other."""
    return address if is_remote(address) else local_path(address)


def checked_place(address: str) -> str:
    """Check the checksum at the end of an address of a file on this host, and return `place_of`
    without it.
    """
    has_checksum = _CHECKSUM in address and not is_remote(address)
    return fetch(address, "") if has_checksum else place_of(address)


def name_of(address: str) -> str:
    """Return the file name in an address; it must not be a path, as a file here gets the name."""
    if not is_remote(address):
        return os.path.basename(local_path(address))
    try:
        parts = urllib.parse.urlsplit(address.partition(_CHECKSUM)[0])
    except ValueError:
        raise FileError(f"{shown(address)}: the address is not valid") from None
    name = (
        os.path.basename(urllib.parse.unquote(parts.path).rstrip("/"))
        or parts.netloc.rpartition("@")[2]
    )
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise FileError(f"{shown(address)}: expected an address that ends in a file name")
    return name


def fetch(address: str, folder: str) -> str:
    """Fetch a file, or a folder of fsspec, to `folder` and return its path; a local path is
    returned unchanged.
    """
    address, _, checksum = address.partition(_CHECKSUM)
    if not is_remote(address):
        path = local_path(address)
        if not os.path.exists(path):
            raise FileError(f"there is no file {path}")
    else:
        path = os.path.join(folder, name_of(address))
        if is_registered(address):
            with _mlflow(address) as mlflow:
                mlflow.artifacts.download_artifacts(artifact_uri=address, dst_path=path)
        elif urllib.parse.urlsplit(address).scheme.lower() in ("http", "https"):
            _Download(address, path).run()
        else:
            _fetch_with_fsspec(address, path)
    if checksum:
        _check(shown(address), path, checksum)
    return path


def version_of(address: str) -> str:
    """Address of the version that an alias in a registry of MLflow names now; any other address
    unchanged.
    """
    name, _, alias = address.partition("@")
    if not (alias and is_registered(address)):
        return address
    with _mlflow(address) as mlflow:
        found = mlflow.MlflowClient().get_model_version_by_alias(name[len("models:/") :], alias)
        return f"{name}/{found.version}"


@contextlib.contextmanager
def _mlflow(address: str) -> Iterator[ModuleType]:
    """Import MLflow, and turn any of its errors into a FileError."""
    try:
        import mlflow

        yield mlflow
    except Exception as error:
        raise FileError(
            f"{address}: MLflow, the extra mlflow of akdl, cannot fetch it from the registry at"
            f" MLFLOW_TRACKING_URI: {type(error).__name__}: {masked(str(error))}"
        ) from None


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(_COPY_BYTES), b""):
            digest.update(piece)
    return digest.hexdigest()


def _check(name: str, path: str, expected: str) -> None:
    if not re.fullmatch("[0-9a-fA-F]{64}", expected):
        raise FileError(f"{name}: expected 64 hex digits after #sha256=")
    if not os.path.isfile(path):
        raise FileError(f"{name} is a folder: only a file has a checksum")
    found = sha256_of(path)
    if found != expected.lower():
        raise FileError(f"{name}: expected the SHA-256 {expected.lower()}, got {found}")


class _Download:
    """A download over HTTP, which resumes after a broken connection.

    Attempts count only in a row without progress, so a large file may take any number of them. What
    a server refuses for good, such as a missing file, is not tried again.
    """

    def __init__(self, address: str, path: str) -> None:
        self._name = shown(address)
        self._path = path
        parts = urllib.parse.urlsplit(address)
        login, _, host = parts.netloc.rpartition("@")
        self._url = urllib.parse.urlunsplit(
            (parts.scheme, host, _quoted(parts.path or "/"), _quoted(parts.query), "")
        )
        # The login travels in a header, because urllib takes a login in the address for a part of
        # the host's name.
        self._login = base64.b64encode(urllib.parse.unquote(login).encode("utf-8")).decode("ascii")
        self._size: int | None = None
        # The version of the file, so that a resumed download never mixes two versions.
        self._version: str | None = None

    def run(self) -> None:
        failures = 0
        # The most bytes so far. Bytes that are fetched again after a restart do not count as
        # progress, or a server without ranges that always fails halfway would be asked
        # indefinitely.
        most = 0
        with open(self._path, "wb") as target:
            while True:
                reason = self._attempt(target)
                if reason is None:
                    return
                failures = failures + 1 if target.tell() <= most + LEAST_BYTES else 0
                most = max(most, target.tell())
                if failures == ATTEMPTS:
                    got = (
                        f" after {target.tell()} of {self._size} bytes"
                        if self._size and target.tell()
                        else ""
                    )
                    raise self._failure(
                        reason, f"it could not be fetched{got}, in {ATTEMPTS} attempts"
                    )
                time.sleep(PAUSE_S * 2 ** max(failures - 1, 0))

    def _attempt(self, target: IO[bytes]) -> str | None:
        """Fetch the missing part; return None when the file is complete, else the reason."""
        try:
            return self._go_on(target)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error, target)
        except FileError:
            raise
        except LimitError as error:
            raise FileError(f"{self._name}: {error}") from None
        # The texts of these errors repeat parts of the address, which may be secret, so they are
        # not shown.
        except (http.client.InvalidURL, ValueError):
            raise FileError(f"{self._name}: the address is not valid") from None
        except _cut as error:
            # A wrong certificate or name of a host stays wrong, so it is not tried again.
            reason = _reason(error)
            if isinstance(
                getattr(error, "reason", error), (ssl.SSLCertVerificationError, socket.gaierror)
            ):
                raise self._failure(reason, "it cannot be reached") from None
            return reason

    def _refused(self, error: urllib.error.HTTPError, target: IO[bytes]) -> str:
        # 416 means that the range begins behind the end: the file has become shorter since the last
        # attempt.
        if error.code == 416 and target.tell():
            self._restart(target)
        elif error.code not in _AGAIN:
            failure = self._failure(
                _REASONS.get(error.code, str(error.reason)), f"HTTP {error.code}"
            )
            raise (MissingFileError(failure) if error.code in (404, 410) else failure) from None
        return f"HTTP {error.code}: {error.reason}"

    def _go_on(self, target: IO[bytes]) -> str | None:
        """Request the file from the present position on; return None when it is complete.

        A server may ignore the range, or have another version of the file by now. Then the download
        starts again, since a mixture of two versions could have the right size.
        """
        start = target.tell()
        with _opener().open(self._request(start), timeout=TIMEOUT_S) as answer:
            if start and (answer.status != 206 or _range_of(answer)[0] != start):
                self._restart(target)
                start = 0
                if answer.status == 206:
                    return _CUT
            length = answer.headers.get("Content-Length")
            if start == 0:
                self._size = int(length) if length is not None and length.isdigit() else None
                self._version = _version_of(answer)
            else:
                self._size = _range_of(answer)[1] or self._size
            DOWNLOAD.check(self._size or 0)
            if not _copy(answer, target):
                return f"it sends less than {LEAST_BYTES >> 10} KB in {SLOW_S:g} s"
        if self._size is not None and target.tell() > self._size:
            self._restart(target)
            return _CUT
        return None if self._size is None or target.tell() == self._size else _CUT

    def _request(self, start: int) -> urllib.request.Request:
        # identity, because a range of compressed content could not be appended to the file.
        request = urllib.request.Request(
            self._url, headers={"Accept-Encoding": "identity", "User-Agent": "akdl"}
        )
        if self._login:
            # Unlike other headers, urllib does not repeat it for another host.
            request.add_unredirected_header("Authorization", f"Basic {self._login}")
        if start:
            request.add_header("Range", f"bytes={start}-")
            if self._version is not None:
                # With If-Range the server sends the whole file if it has another version by now.
                request.add_header("If-Range", self._version)
        return request

    def _restart(self, target: IO[bytes]) -> None:
        target.seek(0)
        target.truncate()

    def _failure(self, reason: str, what: str) -> FileError:
        return FileError(f"{self._name}: {what}: {reason}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https, and from http to http; others lose the encryption or lead to
    another kind of server.
    """

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        scheme = urllib.parse.urlsplit(newurl).scheme.lower()
        if scheme not in ("https", urllib.parse.urlsplit(req.full_url).scheme.lower()):
            fp.close()
            raise FileError(
                f"{shown(req.full_url)}: it redirects to {shown(newurl)}: only redirects to https"
                " are followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@functools.lru_cache(maxsize=None)
def _opener() -> urllib.request.OpenerDirector:
    # The handler replaces urllib's own one for redirects, and all other defaults stay, proxies
    # included.
    return urllib.request.build_opener(_Redirects)


def _copy(answer: Any, target: IO[bytes]) -> bool:
    """Append an answer to a file; return False if it is too slow.

    The timeout of the socket alone does not end a server that sends a byte from time to time.
    """
    began, before = time.monotonic(), target.tell()
    while True:
        # `read1` returns the available bytes, where `read` would wait for all of them and the time
        # could not be checked.
        data = answer.read1(_COPY_BYTES)
        if not data:
            return True
        target.write(data)
        DOWNLOAD.check(target.tell())
        if time.monotonic() - began >= SLOW_S:
            if target.tell() - before < LEAST_BYTES:
                return False
            began, before = time.monotonic(), target.tell()


def _quoted(text: str) -> str:
    """Escape characters that are not allowed in a request, and keep existing escapes."""
    return urllib.parse.quote(text, safe="/%:=&?~#+!$,;'@()*[]")


def _range_of(answer: Any) -> Any:
    """Start of a partial answer, and the size of the whole file if the server sends it."""
    found = re.match(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
    if found is None:
        return None, None
    return int(found.group(1)), None if found.group(2) == "*" else int(found.group(2))


def _version_of(answer: Any) -> str | None:
    """Return the value for If-Range, which must not be a weak tag: its bytes may differ."""
    tag = answer.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return str(tag)
    changed = answer.headers.get("Last-Modified")
    return None if changed is None else str(changed)


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", None)
    if isinstance(inner, BaseException):
        error = inner
    if isinstance(error, http.client.IncompleteRead):
        return _CUT
    return str(error) or type(error).__name__


@contextlib.contextmanager
def opened_with_fsspec(address: str) -> Iterator[tuple[Any, str]]:
    """Yield fsspec's file system of an address and the path in it; errors become a FileError
    without secrets.
    """
    name, scheme = shown(address), address.partition("://")[0]
    try:
        import fsspec
    except ImportError:
        raise FileError(
            f"{name}: {scheme}:// needs the package fsspec in the Python of this program: install"
            " the extra files of akdl, as you installed akdl, and the package of that storage,"
            " such as s3fs, ossfs or pyarrow"
        ) from None
    try:
        system, inside = fsspec.core.url_to_fs(address)
        yield system, inside.rstrip("/")
    except (FileError, LimitError) as error:
        raise FileError(f"{name}: {error}") from None
    except FileNotFoundError as error:
        # fsspec's HTTP reports every failed connection as a missing file. The cause shows which of
        # them it was.
        cause = error.__cause__
        if cause is None or isinstance(cause, FileNotFoundError):
            raise MissingFileError(f"{name}: there is no such file") from None
        raise FileError(f"{name}: it cannot be reached: {masked(str(cause), address)}") from None
    except ImportError as error:
        raise FileError(
            f"{name}: {scheme}:// needs another package in the Python of this program: {error}"
        ) from None
    except Exception as error:  # each storage has its own errors
        raise FileError(
            f"{name}: it cannot be reached: {type(error).__name__}: {masked(str(error), address)}"
        ) from None


def _fetch_with_fsspec(address: str, path: str) -> None:
    with opened_with_fsspec(address) as (system, inside):
        if not system.isdir(inside):
            _fetch_one(system, inside, path)
            return
        fetched, root = 0, system._strip_protocol(inside).rstrip("/")
        for name in names_in(system, root):
            target = os.path.join(path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            fetched += _fetch_one(system, f"{root}/{name}", target, fetched)


def names_in(system: Any, root: str) -> Iterator[str]:
    """Yield the files below a folder by their names in it.

    Raises:
        FileError: The storage lists a name that would lead out of a folder on this host.
    """
    for path in system.find(root):
        name = path[len(root) + 1 :] if path.startswith(f"{root}/") else ""
        # The names come from a server, which may be malicious.
        if not name or {"", ".", ".."} & set(name.split("/")):
            raise FileError(f"the folder lists {path!r}, which is not inside it")
        yield name


def put_whole(system: Any, path: str, target: str) -> None:
    """Copy a file to a storage under a temporary name, so that no reader finds a part of it."""
    system.makedirs(target.rpartition("/")[0], exist_ok=True)
    system.put_file(path, target + UNFINISHED)
    system.mv(target + UNFINISHED, target)


def file_states(folder: str) -> FileStates:
    """Return the size and the time in ns of each file below a folder, to notice changes."""
    states = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):  # renamed or removed by its writer meanwhile
                state = os.stat(path)
                states[os.path.relpath(path, folder)] = (state.st_size, state.st_mtime_ns)
    return states


def _fetch_one(system: Any, source: str, path: str, before: int = 0) -> int:
    size = system.info(source).get("size")
    with system.open(source, "rb") as stream, open(path, "wb") as target:
        for data in iter(lambda: stream.read(_COPY_BYTES), b""):
            target.write(data)
            DOWNLOAD.check(before + target.tell())
        if size is not None and target.tell() != size:
            raise FileError(f"expected {size} bytes, got {target.tell()}")
        return target.tell()
