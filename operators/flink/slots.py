"""Slots of a Flink cluster, checked before a job starts.

Flink's own error comes after minutes and does not name workers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from bridge.exceptions import ConfigurationError
from operators.flink.rest import Rest

logger = logging.getLogger(__name__)

# The slots of a job that had just ended were free again after 0.2 s on two busy cores, so a program
# that runs one job after the other must wait a little.
WAIT_S = 5.0
_POLL_S = 0.1
_SCHEDULER = "jobmanager.scheduler"
_SLOTS = "taskmanager.numberOfTaskSlots"
# Of a configuration, only the method `get` is used, which `table_env.get_config()` has too.
FlinkConfiguration = Mapping[str, str]
# Programs choose the names of their jobs, which may be long, so errors show this many characters.
_NAME_LENGTH = 60


class Need(NamedTuple):
    """Slots that `who` needs at once. A job needs as many as the largest of its needs: its
    operators share slots.
    """

    slots: int
    who: str
    why: str
    remedy: str

    @staticmethod
    def of_group(operator: str, num_workers: int, num_ps: int) -> Need:
        why = _count(num_workers, "worker") + (
            f" and {_count(num_ps, 'parameter server')}" if num_ps else ""
        )
        return Need(
            num_workers + num_ps,
            operator,
            why,
            "lower numWorkers or numPSs" if num_ps else "lower numWorkers",
        )

    @staticmethod
    def of_parallelism(parallelism: int) -> Need:
        return Need(
            parallelism, "the job", f"its parallelism is {parallelism}", "lower the parallelism"
        )


def check_slots(
    config: FlinkConfiguration, needs: Sequence[Need], only_total: bool = False
) -> None:
    """Refuse a job for which the cluster has too few slots.

    Args:
        config: Configuration of the environment.
        needs: Needs of the job, of which the largest counts.
        only_total: Count slots in use too, for a job that starts later.
    """
    if not needs:
        return
    need = max(needs, key=lambda each: each.slots)
    if config.get("execution.target", "") == "local":
        slots = _slots_of_mini_cluster(config)
        if slots is not None and slots < need.slots:
            raise ConfigurationError(
                f"{_needs(need)}, but the local environment has {slots}:"
                f" taskmanager.numberOfTaskSlots is set to {config.get(_SLOTS, '')}. Leave it"
                f" unset, raise it, or {need.remedy}."
            )
        return
    rest = rest_of(config)
    if rest is not None:
        try:
            _check_cluster(rest, need, only_total)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            # A check must not stop a job that could run. If the cluster is really gone, Flink
            # reports that when the job is sent.
            logger.info(
                "the slots of the Flink cluster at %s are not checked: %s: %s",
                rest.address,
                type(error).__name__,
                error,
            )


def free_slots(config: FlinkConfiguration) -> int | None:
    """Free slots of a cluster or of a local environment; None where Flink makes as many as a job
    asks for.
    """
    rest = rest_of(config)
    if rest is None:
        return _slots_of_mini_cluster(config)
    return None if grows(rest) else int(rest.get("/overview")["slots-available"])


def check_scheduler(config: FlinkConfiguration, operator: str) -> None:
    """Refuse Flink's adaptive scheduler, also in reactive mode: `operator` needs the number of
    tasks that is planned.
    """
    rest = rest_of(config)
    where = ""
    if rest is not None:
        # As in `check_slots`, a cluster that does not answer is reported when the job is sent.
        with suppress(OSError, ValueError, KeyError, TypeError):
            # The scheduler is that of the cluster, whatever the configuration of a job says.
            config = {entry["key"]: entry["value"] for entry in rest.get("/jobmanager/config")}
            where = f" in the configuration of the Flink cluster at {rest.address}"
    found = {config.get(key, "").lower() for key in (_SCHEDULER, "scheduler-mode")}
    if found & {"adaptive", "reactive"}:
        raise ConfigurationError(
            f"{operator} needs all of its tasks, but Flink's adaptive scheduler starts fewer where"
            f" slots are missing. Set {_SCHEDULER} to default{where}"
        )


def rest_of(config: FlinkConfiguration) -> Rest | None:
    """REST endpoint of the cluster that jobs run on; with high availability, that of the JobManager
    which was named.
    """
    if config.get("execution.target", "") != "remote":
        return None
    tls = any(
        config.get(key, "false").lower() == "true"
        for key in ("security.ssl.rest.enabled", "security.ssl.enabled")
    )
    host = config.get("rest.address", "") or config.get("jobmanager.rpc.address", "")
    return Rest(
        f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{config.get('rest.port', '8081')}"  # noqa: E501
    )


def _slots_of_mini_cluster(config: FlinkConfiguration) -> int | None:
    """Slots that were chosen; None where the mini cluster makes as many as the job needs, or Flink
    says what is wrong.
    """
    with suppress(ValueError):
        return int(config.get(_SLOTS, "")) * int(
            config.get("minicluster.number-of-taskmanagers", "1")
        )
    return None


def _check_cluster(rest: Rest, need: Need, only_total: bool) -> None:
    deadline = time.monotonic() + WAIT_S
    # Most jobs find enough slots at once, so the cluster is asked only if they don't, and once.
    is_fixed = False
    while True:
        overview = rest.get("/overview")
        total = int(overview["slots-total"])
        free = int(overview["slots-available"])
        if (total if only_total else free) >= need.slots:
            return
        if not is_fixed and grows(rest):
            return
        is_fixed = True
        if total < need.slots:
            raise ConfigurationError(
                f"{_needs(need)}, but the Flink cluster at {rest.address} has {total} in all"
                f" ({_count(int(overview['taskmanagers']), 'TaskManager')}). Start more"
                f" TaskManagers, raise taskmanager.numberOfTaskSlots, or {need.remedy}."
            )
        if time.monotonic() >= deadline:
            raise ConfigurationError(
                f"{_needs(need)}, but of the {total} of the Flink cluster at {rest.address}"
                f" {free or 'none'} {'is' if free < 2 else 'are'} free; {_holders(rest)} the"
                " others. Wait until they are free, cancel what has them, start more TaskManagers,"
                f" or {need.remedy}."
            )
        time.sleep(_POLL_S)


def grows(rest: Rest) -> bool:
    """Return True if Flink starts TaskManagers on demand.

    The number of free slots says nothing about the largest job then.
    """
    keys = [str(entry["key"]) for entry in rest.get("/jobmanager/config")]
    return any(key == "kubernetes.cluster-id" or "yarn." in key for key in keys)


def _holders(rest: Rest) -> str:
    """Jobs that have the other slots, as text for an error."""
    jobs = rest.jobs()
    names = " and ".join(f"'{_short(job['name'])}' ({job['jid']}, {job['state']})" for job in jobs)
    return (
        f"{names or 'a job that is just starting or ending'} {'have' if len(jobs) > 1 else 'has'}"
    )


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _NAME_LENGTH else line[:_NAME_LENGTH] + "..."


def _needs(need: Need) -> str:
    return f"{need.who} needs {_count(need.slots, 'slot')} at once ({need.why})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
