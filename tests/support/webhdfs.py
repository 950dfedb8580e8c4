"""A storage that hosts reach over the network: as much of WebHDFS as fsspec's webhdfs:// needs to
write and read files.
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Storage:
    """The storage.

    Args:
        folder: Where its files lie.
        readers: The address of the host of each download, in order; a large file takes several.
        url: Its address for fsspec, without a slash at the end.
    """

    folder: pathlib.Path
    readers: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def webhdfs(folder: pathlib.Path, address: str = "127.0.0.1") -> Iterator[Storage]:
    """Serve a folder while the block runs.

    Args:
        folder: An empty folder.
        address: Of this program, as the hosts see it.
    """
    storage = Storage(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            query, path = self._asked()
            if query["op"] == "MKDIRS":
                path.mkdir(parents=True, exist_ok=True)
            elif query["op"] == "RENAME":
                os.replace(path, self._inside(query["destination"]))
            elif "there" not in query:
                return self._send_elsewhere()
            else:
                path.write_bytes(self._body())
            return self._answer({"boolean": True})

        def do_POST(self) -> None:
            query, path = self._asked()
            if "there" not in query:
                return self._send_elsewhere()
            with open(path, "ab") as file:
                file.write(self._body())
            return self._answer({})

        def do_GET(self) -> None:
            query, path = self._asked()
            if not path.exists():
                self._answer(
                    {
                        "RemoteException": {
                            "exception": "FileNotFoundException",
                            "message": self.path,
                        }
                    },
                    404,
                )
            elif query["op"] == "OPEN" and "there" not in query:
                self._send_elsewhere()
            elif query["op"] == "OPEN":
                storage.readers.append(self.client_address[0])
                with open(path, "rb") as file:
                    file.seek(int(query.get("offset", 0)))
                    self._send(200, file.read(int(query["length"])))
            else:
                size, kind = path.stat().st_size, "DIRECTORY" if path.is_dir() else "FILE"
                self._answer({"FileStatus": {"type": kind, "length": size, "pathSuffix": ""}})

        def _asked(self) -> tuple[dict[str, str], pathlib.Path]:
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            return {**query, "op": query["op"].upper()}, self._inside(
                url.path.removeprefix("/webhdfs/v1")
            )

        def _inside(self, path: str) -> pathlib.Path:
            return storage.folder / urllib.parse.unquote(path).strip("/")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _send_elsewhere(self) -> None:
            self._body()
            self._send(307, b"", Location=f"http://{self.headers['Host']}{self.path}&there=true")

        def _answer(self, content: object, status: int = 200) -> None:
            self._send(status, json.dumps(content).encode())

        def _send(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer((address, 0), Handler) as server:
        server.daemon_threads = True
        storage.url = f"webhdfs://{address}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield storage
        finally:
            server.shutdown()
            thread.join()
