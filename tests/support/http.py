"""A web server on this machine that can be told to misbehave."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Site:
    """What the server has, and how it behaves.

    Args:
        files: Content by path.
        cut_after: How many bytes of an answer are sent before the connection is cut; None for all.
        cuts: How many answers are cut.
        ranges: Whether it can go on in the middle of a file.
        tells_size: Whether it says how long an answer is.
        status: Errors by path.
        trickles: Whether it sends a byte at a time.
        login: What the Authorization header has to be.
        requests: The headers of all requests, with the path as ":path".
    """

    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    cuts: int = 1000
    ranges: bool = True
    tells_size: bool = True
    status: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    login: str | None = None
    trickles: bool = False
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def served(**settings: object) -> Iterator[Site]:
    """Serve a site while the block runs."""
    site = Site(**settings)  # type: ignore[arg-type]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append(
                {
                    **{name.lower(): value for name, value in self.headers.items()},
                    ":path": self.path,
                }
            )
            path = self.path.partition("?")[0]
            content = site.files.get(path)
            status = site.status.get(path, 404 if content is None else 200)
            if path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[path])
                self.end_headers()
                return
            if site.login is not None and self.headers.get("Authorization") != site.login:
                status = 401
            if status != 200 or content is None:
                self.send_error(status)
                return
            start, tag = 0, f'"{hash(content)}"'
            asked = self.headers.get("Range", "")
            if asked and site.ranges and self.headers.get("If-Range", tag) == tag:
                start = int(asked[len("bytes=") : -1])
                status = 206
            self.send_response(status)
            self.send_header("ETag", tag)
            if status == 206:
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"
                )
            if site.tells_size:
                self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            rest = content[start:]
            if site.cut_after is not None and site.cuts > 0:
                site.cuts -= 1
                rest = rest[: site.cut_after]
            with contextlib.suppress(ConnectionError):
                for byte in rest if site.trickles else ():
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.02)
                self.wfile.write(rest)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
