"""`akdl top` and `akdl stacks`: what the processes of running scripts do, and where they stand."""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
from google.protobuf.message import DecodeError
from rich.console import Console
from rich.table import Table

from akdl.masking import masked
from akdl.wire.status_pb2 import MemberStatus
from bridge.exceptions import BridgeError, ConfigurationError
from bridge.group.states import awaited
from bridge.host.process import NOT_REACHED
from bridge.host.work_folder import PRIVATE_FOLDER
from bridge.member.status import ENDED, STARTING, SUFFIX
from bridge.table_env import groups_in
from operators.flink.rest import Rest
from operators.progress.status_sources import RestSource
from operators.tools.passwords import REMEDY_OF_CLUSTER, refuse_password, with_password

# A rate is the difference of two readings. Members write their status each second, so after this
# time both differ.
_BETWEEN_S = 1.2
# A member without progress for this many seconds is said to wait.
_STILL_S = 3.0
# Output that goes to no terminal, such as a pipe, has this many columns.
_WIDTH = 120
_WHERE = (
    "the process id of a program on this host, or a cluster's REST endpoint: host:port, or"
    " https://[USER@]HOST:PORT"
)
_JOB = "a script, or id or name of a job of the cluster (default: all)"


class Program:
    """A program on this host, or one script of it; the scripts below it write their status into
    their own folders.
    """

    def __init__(self, pid: int, script: str | None) -> None:
        self._script = script
        # Processes that a script starts inherit its variable, so a folder may be found repeatedly.
        self._folders: dict[str, None] = {}
        for process in psutil.Process(pid).children(recursive=True):
            # The process may belong to another user, or may have just ended.
            with suppress(psutil.Error):
                if folder := process.environ().get("AKDL_WORK_DIR"):
                    self._folders[f"{folder}/{PRIVATE_FOLDER}"] = None

    def read(self) -> list[MemberStatus]:
        found = []
        for folder in self._folders:
            for path in pathlib.Path(folder).glob(f"akdl-*{SUFFIX}"):
                # The member may end just now, and its file is gone or incomplete.
                with suppress(OSError, DecodeError):
                    status = MemberStatus.FromString(path.read_bytes())
                    if _is_of(status, self._script):
                        found.append(status)
        return found

    def stacks(self) -> list[tuple[MemberStatus, str]]:
        # The script takes them with the interpreter lock. faulthandler, at a signal, doesn't, and
        # crashed one script in 2,000.
        return [(status, status.stack or NOT_REACHED) for status in self.read()]


class Cluster:
    """Jobs of a cluster with this id or name, or all, or one script in all of them; a member's
    status holds its stacks.
    """

    def __init__(self, rest: Rest, job: str | None) -> None:
        self._running = rest.jobs()
        named = [each for each in self._running if job in (each["jid"], each["name"])]
        self._script = None if named else job
        plans = [rest.get(f"/jobs/{each['jid']}")["plan"] for each in named or self._running]
        self._source = RestSource(rest, {group for plan in plans for group in groups_in(plan)})

    def read(self) -> list[MemberStatus]:
        # A killed member of an earlier attempt may have left its status, so the last attempt wins.
        in_order = sorted(self._source.read(), key=lambda status: status.attempt)
        last = {(status.group, status.index): status for status in in_order}.values()
        return [status for status in last if status.phase != ENDED and _is_of(status, self._script)]

    def __str__(self) -> str:
        return ", ".join(f"{each['jid']} ({each['name']})" for each in self._running) or "none"

    def stacks(self) -> list[tuple[MemberStatus, str]]:
        return [(status, status.stack) for status in self.read() if status.stack]


def top(arguments: Sequence[str]) -> int:
    """Print a table of the members of each script: phase, rows, step, processors, memory, and who
    waits for whom.
    """
    return _run(
        "akdl top", "Show what the processes of running scripts do.", arguments, _print_tables
    )


def stacks(arguments: Sequence[str]) -> int:
    """Print where each thread of the scripts stands."""
    return _run(
        "akdl stacks",
        "Show where the processes of running scripts stand.",
        arguments,
        _print_stacks,
    )


def _run(
    command: str, what: str, arguments: Sequence[str], show: Callable[[Program | Cluster], bool]
) -> int:
    parser = argparse.ArgumentParser(prog=command, description=what)
    parser.add_argument("where", metavar="PROGRAM|CLUSTER", help=_WHERE)
    parser.add_argument("job", metavar="JOB", nargs="?", help=_JOB)
    parser.add_argument(
        "--ca-file", metavar="FILE", help="certificates (PEM) to check that of the cluster with"
    )
    given = parser.parse_args(arguments)
    refuse_password(parser, "CLUSTER", given.where, REMEDY_OF_CLUSTER)
    given.where = with_password(given.where)
    try:
        if given.where.isdigit():
            job: Program | Cluster = Program(int(given.where), given.job)
            advice = "For the jobs of a cluster, give its REST endpoint"
        else:
            job = Cluster(Rest(given.where, given.ca_file or True, proxies=True), given.job)
            advice = f"Running jobs: {job}"
        if not show(job):
            raise ConfigurationError(
                f"no script{f' {given.job!r}' * bool(given.job)} runs in {given.where}. {advice}"
            )
    except (BridgeError, OSError, ValueError, psutil.Error) as error:
        sys.stderr.write(f"{command}: {masked(str(error), given.where)}\n")
        return 1
    return 0


def _print_tables(job: Program | Cluster) -> bool:
    before = {_key(status): status for status in job.read()}
    time.sleep(_BETWEEN_S)
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    members = sorted(job.read(), key=lambda status: (status.group, status.index))
    for _, each in itertools.groupby(members, lambda status: status.group):
        group = list(each)
        names = ["", "phase", "rows in", "rows/s", "rows out", "step", "processors", "memory", ""]
        table = Table(
            *names,
            title=group[0].operator or "predictor",
            title_justify="left",
            box=None,
            pad_edge=False,
        )
        for status in group:
            earlier = before.get(_key(status), status)
            passed_s = status.age_s - earlier.age_s
            # The age of the member measures the time, because its status may be older than this
            # reading.
            speed = (status.rows_in - earlier.rows_in) / passed_s if passed_s > 0 else 0.0
            processors = status.cpu_s / status.age_s if status.age_s else 0.0
            table.add_row(
                status.label,
                status.phase,
                f"{status.rows_in:,}",
                f"{speed:,.0f}",
                f"{status.rows_out:,}",
                f"{status.step:,}",
                f"{processors:.1f}",
                f"{status.memory_bytes >> 20:,} MB",
                doing(status, group),
            )
        console.print(table)
    return bool(members)


def doing(status: MemberStatus, group: Sequence[MemberStatus]) -> str:
    """The rows or the member of its group that a member waits for."""
    if status.phase == STARTING:
        return "starts"
    if status.waiting:
        return "waits for rows"
    if status.idle_s < _STILL_S:
        return ""
    still = [
        each
        for each in group
        if each.idle_s >= _STILL_S and not each.waiting and each.phase != STARTING
    ]
    starting = [each.label for each in group if each.phase == STARTING]
    moving = [each.label for each in group if each not in still and not each.waiting]
    spins = ", uses the processor" if status.spinning else ""
    # Members that still start are the likeliest cause. Otherwise it is one that moves, and if all
    # stand still, the one that the error for a stalled group would name.
    others = starting or moving or [awaited(still).label]
    waits = "" if others == [status.label] else f", waits for {', '.join(others)}"
    return f"no progress for {status.idle_s:.0f} s{spins}{waits}"


def _print_stacks(job: Program | Cluster) -> bool:
    found = job.stacks()
    for status, stack in found:
        idle = f", no progress for {status.idle_s:.0f} s" if status.idle_s >= _STILL_S else ""
        sys.stdout.write(
            f"--- {status.operator}, {status.label}: {status.phase}{idle} ---\n{stack.rstrip()}\n"
        )
    return bool(found)


def _key(status: MemberStatus) -> tuple[str, str, int]:
    return status.group, status.label, status.attempt


def _is_of(status: MemberStatus, script: str | None) -> bool:
    return script is None or os.path.basename(script) in status.operator.split(", ")
