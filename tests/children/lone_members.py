"""Forks members of groups on demand: each in a process of its own, as in Flink's Python workers,
perhaps on a host of its own.

A line of standard input is the arguments of `_start`, answered with the process id of the new
member.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import traceback
from typing import Any

import pyarrow as pa

from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import TaskError
from bridge.group import diagnosis, state_store
from bridge.group.addresses import Address
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile

INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL"), Schema.parse("rows BIGINT")
EXTRA = Schema.parse("text STRING")
# Flink brings chunks of about this size
MEGABYTE = pa.record_batch([pa.array(["x" * 10_000] * 100)], names=["text"])


def serve() -> None:
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    for line in sys.stdin:
        print(_start(**json.loads(line)), flush=True)


def _start(namespace: str | None, log: str, outcome: str, **member: Any) -> int:
    """Fork a member.

    Args:
        namespace: Name of a network namespace; None for that of this process.
        log: File for what it prints.
        outcome: File for how it ends, JSON: the rows that its script wrote, or {"error": text}.
        member: Arguments of `be_member`.
    """
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for path, flags, descriptors in (
            (os.devnull, os.O_RDONLY, [0]),
            (log, os.O_WRONLY | os.O_CREAT, [1, 2]),
        ):
            for descriptor in descriptors:
                os.dup2(os.open(path, flags), descriptor)
        try:
            if namespace is not None:
                _enter(namespace)
            found = be_member(**member)
            with open(f"{outcome}.new", "w") as file:
                json.dump(found, file)
            os.rename(f"{outcome}.new", outcome)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return pid


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    opened = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(opened, 0):
        raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")


def be_member(
    script: str,
    index: int,
    addresses: list[Any],
    rows: int,
    lost_s: float,
    extra: int = 0,
    **changes: Any,
) -> Any:
    state_store.LOST_S = diagnosis.LOST_S = lost_s
    settings = GroupSettings(
        operator="TestOp", token="secret", kind="batch", num_workers=len(addresses), num_ps=0, input_schema=INPUT, output_schema=OUTPUT,
        main_script="script.py", user_files=(UserFile("script.py", script.encode()),),
        extra_schemas=(EXTRA,) if extra else (), **changes,
    )  # fmt: skip
    member = Member(settings, "group", index, 0, lambda: None)
    try:
        member.set_cluster([Address(*each) for each in addresses])
        for _ in range(0 if index else extra):
            list(member.feed(MEGABYTE, extra_input=1))
        batches = (
            [pa.record_batch([pa.array(range(rows), pa.int64())], names=["id"])] if rows else []
        )
        messages = [message for batch in batches for message in member.feed(batch)] + list(
            member.finish()
        )
    except TaskError as error:
        return {"error": str(error)}
    finally:
        member.stop()
    decoder = ColumnDecoder(OUTPUT)
    return [row for message in messages for row in decoder.decode(message.take())[0].to_pylist()]


if __name__ == "__main__":
    serve()
