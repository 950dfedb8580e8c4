"""A storage that speaks S3, on this machine: moto's server, which keeps objects in memory."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.exceptions import BridgeError
from operators.flink.jars import paths_of
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.ports import free_ports

KEY, SECRET = "AKIDTESTOFAKDL", "b3BlbiBzZXNhbWU1cGxlYXNl"


@dataclass(frozen=True)
class ObjectStorage:
    """The storage, of which tests use a bucket `shop`.

    Args:
        address: Its host and port.
        log: A file with a line for each request.
    """

    address: str
    log: pathlib.Path

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which s3fs finds it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip

    @property
    def of_flink(self) -> dict[str, Any]:
        """The settings by which Flink finds it."""
        return {
            "jars": ["s3"], "s3.endpoint": f"http://{self.address}", "s3.path.style.access": True, "s3.access-key": KEY,
            "s3.secret-key": SECRET, "s3.endpoint.region": "us-east-1",
        }  # fmt: skip

    def files(self) -> Any:
        """Return fsspec's view of it, without a memory of what it saw before."""
        import s3fs

        return s3fs.S3FileSystem(
            key=KEY,
            secret=SECRET,
            endpoint_url=f"http://{self.address}",
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def clear(self) -> None:
        """Leave nothing but an empty bucket `shop`."""
        files = self.files()
        for bucket in files.ls(""):
            files.rm(bucket, recursive=True)
        files.mkdir("shop")


@contextmanager
def object_storage(folder: pathlib.Path) -> Iterator[ObjectStorage]:
    """Yield a storage, with Flink's plugin in the cache; skip the test where one of them cannot be
    had.
    """
    for module in ("moto", "flask", "s3fs"):
        pytest.importorskip(module)
    try:
        paths_of(["s3"])
    except BridgeError as error:
        pytest.skip(f"Flink's plugin for S3 cannot be had: {error}")
    (port,), log = free_ports(1), folder / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=output
        )
    try:

        def answers() -> bool:
            assert server.poll() is None, log.read_text()[-3000:]
            return "Running on" in log.read_text()

        wait_until(answers, "the storage answers", 4 * DEADLINE_S)
        yield ObjectStorage(f"127.0.0.1:{port}", log)
    finally:
        server.terminate()
        server.wait(2 * DEADLINE_S)
