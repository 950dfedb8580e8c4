"""A warning about Python workers that block on a cluster before code of ours runs there, found by the states of their tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridge.host.console import warn
from bridge.table_env import groups_in
from operators.flink.rest import Rest
from operators.progress.state import Shown

logger = logging.getLogger(__name__)

LOOK_S = 10.0


@contextmanager
def late_starts_told(rest: Rest, operators: Mapping[str, Shown]) -> Iterator[None]:
    """Warn once, while the block runs, if a task of the operators still starts its Python worker after `startTimeout`."""
    over, limit_s = threading.Event(), max(each.start_timeout_s for each in operators.values())

    def run() -> None:
        wait_s, text = limit_s, ""
        while not text and not over.wait(wait_s):
            wait_s = LOOK_S
            try:
                text = _late(rest, operators, limit_s)
            except Exception as error:  # a look must not fail a job
                logger.debug("cannot look for late starts: %s: %s", type(error).__name__, error)
        if text:
            warn(text)

    thread = threading.Thread(target=run, name="akdl-late-starts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _late(rest: Rest, operators: Mapping[str, Shown], limit_s: float) -> str:
    for job in rest.jobs():
        details = rest.get(f"/jobs/{job['jid']}")
        ours = [node["id"] for node in details["plan"].get("nodes", ()) if groups_in({"nodes": [node]}) & operators.keys()]
        for vertex in details["vertices"]:
            starts_s = (details["now"] - vertex["start-time"]) / 1000
            if vertex["id"] in ours and vertex["tasks"].get("INITIALIZING") and starts_s > limit_s:
                tasks = rest.get(f"/jobs/{job['jid']}/vertices/{vertex['id']}")["subtasks"]
                places = sorted({each["endpoint"] for each in tasks if each["status"] == "INITIALIZING"})
                return (
                    f"{vertex['name']}: Flink's Python workers still start after {limit_s:g} s (startTimeout) on "
                    f"{', '.join(places)}, and the job waits for them. A .pth file, sitecustomize or an import may block them: "
                    "look there at the processes beam_boot, and at the TaskManager's log"
                )
    return ""
