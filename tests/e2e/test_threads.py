"""Several threads of one driver build and run jobs at once, in one environment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from operators import BatchOperator, MemSourceBatchOp, getMLEnv, useLocalEnv
from tests.e2e.jobs import script_op, sequence
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.flink


@pytest.fixture(autouse=True, scope="module")
def _environment() -> None:
    useLocalEnv(1)


def at_once(*jobs: Callable[[], object]) -> list[object]:
    """Run each in a thread, all begun at the same moment, and return what they return, or raise."""
    results: list[object] = [None] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def run(place: int) -> None:
        barrier.wait()
        try:
            results[place] = jobs[place]()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.fault("jobs")
def test_threads_build_and_run_jobs_at_once() -> None:
    def job(rows: int) -> object:
        shaped = MemSourceBatchOp(
            [(i, float(i)) for i in range(rows)], "id BIGINT, x DOUBLE"
        ).select("id * 2 AS id, x")
        return sorted(shaped.filter("id >= 0").collectToDataframe().id)

    sizes = range(5, 11)
    assert at_once(*(lambda rows=rows: job(rows) for rows in sizes)) == [
        [2 * i for i in range(rows)] for rows in sizes
    ]


@pytest.mark.fault("jobs", "Threads run scripts at once and leave no thread of PyFlink")
def test_threads_run_scripts_at_once_and_leave_no_flusher() -> None:
    def flushers() -> set[threading.Thread]:
        return {
            thread for thread in threading.enumerate() if type(thread).__name__ == "PeriodicThread"
        }

    def job(ids: BatchOperator) -> object:
        return sorted(
            ids.link(script_op("echo_ids.py", "worker INT, id BIGINT")).collectToDataframe().id
        )

    before = flushers()  # of jobs that failed in other tests, or went on
    # by PyFlink's own calls, which know no threads
    tables = [sequence(getMLEnv().btenv, rows) for rows in (11, 12, 13)]
    assert at_once(*(lambda ids=ids: job(ids) for ids in tables)) == [
        list(range(rows)) for rows in (11, 12, 13)
    ]

    wait_until(lambda: flushers() <= before, "PyFlink's threads have ended with the jobs")
