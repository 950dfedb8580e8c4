"""REST endpoint of a Flink cluster, for all requests to clusters.

Errors and logs show neither headers nor logins, because logs are shared more widely than passwords.
An answer is bounded in time and size, since any server can stand behind an address.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from akdl.storage.limits import TEXT, LimitError
from bridge.exceptions import ConfigurationError
from bridge.group.addresses import own_addresses
from bridge.table_env import groups_in

if TYPE_CHECKING:
    import requests

HEADERS = "FLINK_REST_CLIENT_HEADERS"
ANSWER_S = 5.0
# The timeout of requests is for one read, so an answer that arrives in small parts would have no
# limit.
_WHOLE_S = 60.0
_PART_BYTES = 1 << 16
# Tasks in these states have no slot yet.
_WITHOUT_SLOT = ("CREATED", "SCHEDULED")
# This is the endpoint's answer to /jobs/ID.
JobDetails = dict[str, Any]
_ENDED = {"FINISHED", "CANCELED", "FAILED", "SUSPENDED"}


class RestError(OSError):
    """The endpoint did not answer, or not as Flink does."""


class Rest:
    """REST endpoint at a host and port, or at a URL. `verify` is False, True, or a file with
    trusted certificates.
    """

    def __init__(self, address: str, verify: bool | str = True, proxies: bool = False) -> None:
        self.address, self._url, self._login = _taken_apart(address)
        self._headers = headers_of(os.environ.get(HEADERS, ""))
        self._verify = verify
        self._proxies = proxies and urlsplit(self._url).hostname not in (
            "localhost",
            socket.gethostname(),
            *own_addresses(),
        )

    def __repr__(self) -> str:
        return f"Rest({self.address!r})"

    def get(self, path: str) -> Any:
        """Return the JSON of an answer."""
        try:
            return json.loads(self.content(path))
        except RecursionError:
            raise ValueError(
                f"{self.address}{path}: the JSON of the answer is nested too deeply"
            ) from None

    def jobs(self) -> list[dict[str, str]]:
        """Jobs that have not ended, with their `jid`, `name` and `state`."""
        return [job for job in self.get("/jobs/overview")["jobs"] if job["state"] not in _ENDED]

    def jobs_of(self, groups: Collection[str]) -> Iterator[JobDetails]:
        """Yield the details of the jobs that have not ended and run some of these groups."""
        for job in self.jobs():
            details = self.get(f"/jobs/{job['jid']}")
            if not groups_in(details["plan"]).isdisjoint(groups):
                yield details

    def cancel(self, job: str) -> None:
        """Request that a job is cancelled, without waiting for its end."""
        self.content(f"/jobs/{job}", "PATCH")

    def content(self, path: str, method: str = "GET") -> bytes:
        """Send a request and return the bytes of the answer.

        Raises:
            RestError: The endpoint does not answer, refuses the login, or answers with an error.
        """
        # This import takes a tenth of a second, which programs that ask no cluster do not pay.
        import requests

        with requests.Session() as session:
            session.trust_env = self._proxies
            session.headers.update(self._headers)
            session.auth = self._login
            # requests takes an empty path for False and would check no certificate, so an empty
            # variable counts as unset. Without `trust_env` requests does not read the variable
            # itself.
            verify = (
                self._verify
                if self._verify not in (True, "")
                else os.environ.get("REQUESTS_CA_BUNDLE") or True
            )
            try:
                # A redirect would lead to the login page of a gateway in front of Flink, and
                # following it would hide that credentials are missing.
                answer = session.request(
                    method,
                    self._url + path,
                    timeout=ANSWER_S,
                    verify=verify,
                    allow_redirects=False,
                    stream=True,
                )
                content = self._content_of(answer)
            except requests.exceptions.SSLError as error:
                what = f"TLS failed ({_cause(error)}); does it speak https?"
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    what = (
                        "its certificate is not trusted; set REQUESTS_CA_BUNDLE to a file with the"
                        " certificate of its issuer"
                    )
                raise RestError(f"{self.address}: {what}") from None
            except requests.exceptions.ProxyError:
                raise RestError(
                    f"{self.address}: the proxy in the environment rejects the request; set"
                    " no_proxy"
                ) from None
            except requests.exceptions.Timeout:
                raise RestError(f"{self.address}: no answer within {ANSWER_S:g} s") from None
            except requests.exceptions.RequestException as error:
                raise RestError(f"{self.address}: {_cause(error)}") from None
        if answer.status_code in (401, 403):
            raise RestError(
                f"{self.address}: credentials are missing or wrong (HTTP {answer.status_code}); set"
                f" a header in {HEADERS}, such as 'Authorization:Bearer TOKEN', or a login in the"
                " address"
            )
        if 300 <= answer.status_code < 400:
            raise RestError(
                f"{self.address}: leads to another page (HTTP {answer.status_code}): on YARN, the"
                " application has ended; elsewhere, a gateway may want a login"
            )
        # Flink answers a request to cancel a job with 202.
        if answer.status_code not in (200, 202):
            raise RestError(f"{self.address}{path}: HTTP {answer.status_code}, {answer.reason}")
        return content

    def _content_of(self, answer: requests.Response) -> bytes:
        parts = []
        length = 0
        began = time.monotonic()
        for part in answer.iter_content(_PART_BYTES):
            parts.append(part)
            length += len(part)
            try:
                TEXT.check(length)
            except LimitError as error:
                raise RestError(f"{self.address}: its answer is too long: {error}") from None
            if time.monotonic() - began > _WHOLE_S:
                raise RestError(f"{self.address}: the answer did not end within {_WHOLE_S:g} s")
        return b"".join(parts)


def waits_for_slots(details: JobDetails) -> bool:
    """Return True if a task of a job has no slot yet."""
    return any(
        vertex["tasks"].get(state) for vertex in details["vertices"] for state in _WITHOUT_SLOT
    )


def headers_of(text: str) -> dict[str, str]:
    """Headers in `FLINK_REST_CLIENT_HEADERS`, a line `Name:value` for each; errors name a line by
    its number, not its text.
    """
    headers = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip() or not value.strip():
            raise ConfigurationError(
                f"{HEADERS}: line {number}: expected Name:value, got a line of {len(line)}"
                " characters"
            )
        headers[name.strip()] = value.strip()
    return headers


def _taken_apart(address: str) -> tuple[str, str, tuple[str, str] | None]:
    """Split an address into its text for messages, its URL without a login, and the login."""
    with_scheme = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(with_scheme)
        port = parts.port
    except ValueError:
        parts = urlsplit("")
        port = None
    # The error does not quote the address, which may hold a password.
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            "the address of Flink's REST: expected HOST:PORT or https://HOST:PORT, got another text"
        )
    # `hostname` has no brackets, which an IPv6 address needs in a URL.
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host + (f":{port}" if port else "") + parts.path.rstrip("/")
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return (
        (place if parts.scheme == "http" else f"https://{place}"),
        f"{parts.scheme}://{place}",
        login,
    )


def _cause(error: BaseException) -> str:
    """Innermost cause, because the outer errors of requests contain the address with its login."""
    inner = error
    while True:
        reason = getattr(inner, "reason", None) or next(
            (each for each in inner.args if isinstance(each, BaseException)), None
        )
        if not isinstance(reason, BaseException):
            break
        inner = reason
    # urllib3 puts the object or the host in front of the reason.
    text = str(inner).rpartition(": ")[2] or "no answer"
    return f"{type(inner).__name__}: {text}"
