"""Fixtures of all tests."""

from __future__ import annotations

import ast
import functools
import gc
import os
import pathlib
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from akdl.tf_version import LAST_WITH_ESTIMATOR, tf_version
from tests.support import durations
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT  # noqa: F401  read before any job runs
from tests.support.leftovers import nothing_left_behind
from tests.support.warm_python import choose_python, choose_workers

ROOT = pathlib.Path(__file__).parents[1]

pytest_configure = durations.pytest_configure
pytest_fixture_setup = durations.pytest_fixture_setup
pytest_runtest_makereport = durations.pytest_runtest_makereport


# TensorFlow's objects, which stay, would be looked through again and again.
gc.set_threshold(50_000, 20, 50)


def _one_at_a_time(parse: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.RLock()

    @functools.wraps(parse)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return parse(*args, **kwargs)

    return locked


if sys.version_info < (3, 13):
    # Threads share the depth that CPython counts while it makes a syntax tree
    # (python/cpython#106905), and PyFlink makes one for every cell that it collects: "SystemError:
    # AST constructor recursion depth mismatch".
    ast.parse = _one_at_a_time(ast.parse)


_NEEDS_ESTIMATOR = re.compile(
    r"module 'tensorflow\S*' has no attribute 'estimator'|optimizers\.legacy|LegacyOptimizer|'DenseFeatures'"
    r"|module 'keras\.utils' has no attribute 'experimental'"
)
_REFUSED = re.compile(r"needs tf\.estimator, which|Keras 3 does not train with")

# A seed, of which each gives another order of files and of the tests in them.
ORDER = os.environ.get("AKDL_TEST_ORDER")


@functools.cache
def _has_estimator() -> bool:
    return tf_version()[:2] <= LAST_WITH_ESTIMATOR


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Put files, and the tests inside each, in an order that depends on the seed alone: all
    processes of xdist need the same.
    """
    draw = random.Random(seed)  # random numbers of tests stay as they are
    given = {item: place for place, item in enumerate(items)}
    files = list(dict.fromkeys(item.path for item in items))
    draw.shuffle(files)
    draw.shuffle(items)
    items.sort(
        key=lambda item: (
            files.index(item.path),
            given[item] if item.get_closest_marker("in_order") else 0,
        )
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stretch limits by the time factor. Put files that took long in earlier runs first, so that no
    process is left with one of them at the end; or shuffle them.
    """
    for item in items:
        own = item.get_closest_marker("timeout")
        limit_s = float(own.args[0] if own else item.config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit_s * DEADLINE_S / 30), append=False)
    if ORDER is not None:
        shuffle(items, ORDER)
        return
    seconds = durations.seconds_of_files()
    # the order inside a file stays
    items.sort(key=lambda item: -seconds.get(item.path.relative_to(ROOT).as_posix(), 0.0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let jobs have processes that start at once, and local ones share mini clusters, from the
    first test on that may run one.
    """
    marks = {mark.name for mark in item.iter_markers()}
    if not marks.isdisjoint({"flink", "cluster"}):
        choose_python("own_processes" not in marks, "tf" in marks)
        choose_workers("own_processes" not in marks)
    if "flink" in marks:
        from operators.flink import env
        from tests.support.mini_clusters import share_mini_clusters

        env.start_java = share_mini_clusters


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip what fails for want of an Estimator, where TensorFlow has none; the tests are written
    for 2.15, the last one with it.

    akdl's own refusals are expected only of tests with the mark `estimator`: elsewhere they may be
    wrong.
    """
    yield from _skipped_without_estimator(item)


@pytest.hookimpl(hookwrapper=True, specname="pytest_runtest_setup")
def pytest_setup_of_fixtures(item: pytest.Item) -> Iterator[None]:
    yield from _skipped_without_estimator(item)


def _skipped_without_estimator(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    failed = outcome.excinfo  # type: ignore[attr-defined]
    if failed is None or _has_estimator():
        return
    error = str(failed[1])
    is_refused = _REFUSED.search(error) and item.get_closest_marker("estimator")
    if _NEEDS_ESTIMATOR.search(error) or is_refused:
        outcome.force_exception(
            pytest.skip.Exception("this TensorFlow has no Estimator and no Keras 2")
        )  # type: ignore[attr-defined]


def pytest_sessionfinish() -> None:
    """End the shared mini clusters, and save what `make coverage` has measured: xdist kills
    processes that end slowly.
    """
    if "coverage" in sys.modules:
        from coverage import Coverage

        if measured := Coverage.current():
            measured.save()
    if "tests.support.mini_clusters" in sys.modules:
        from tests.support.mini_clusters import close_mini_clusters

        close_mini_clusters()


# Names of modules that are no scripts: to look at thousands of modules after each test took a
# quarter of the units' time.
_kept: set[str] = set()
# How many there were at the last look, and the last one: a module that is imported comes behind it.
_looked_at: tuple[int, str] = 0, ""


@pytest.fixture(autouse=True)
def _forgets_scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds a script under its name that another one has imported, and perhaps changed."""
    global _looked_at
    yield
    if _looked_at == (len(sys.modules), next(reversed(sys.modules))):
        return
    _kept.intersection_update(sys.modules)
    new = sys.modules.keys() - _kept
    folders = (tmp_path_factory.getbasetemp(), *ROOT.glob("tests/*/scripts"), ROOT / "examples")
    for name in new:
        # asked for itself, a lazy module would load
        file = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.startswith(tuple(f"{folder}/" for folder in folders)):
            sys.modules.pop(name, None)
        else:
            _kept.add(name)
    _looked_at = len(sys.modules), next(reversed(sys.modules))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker of Kafka, which the tests of a process share."""
    from tests.support.kafka import broker_in

    with broker_in(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def _postgresql() -> Iterator[Any]:
    """A server of PostgreSQL, which the tests of a process share."""
    from tests.support.postgresql import database

    with database() as found:
        yield found


@pytest.fixture
def postgresql(_postgresql: Any) -> Any:
    """A database of PostgreSQL without tables."""
    _postgresql.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")
    return _postgresql


@pytest.fixture(scope="session")
def _s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A storage that speaks S3, which the tests of a process share."""
    from tests.support.s3 import object_storage

    with object_storage(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def s3(_s3: Any) -> Any:
    """A storage that speaks S3, with nothing but an empty bucket `shop`."""
    _s3.clear()
    return _s3


@pytest.fixture(autouse=True)
def _groups_that_hang_say_so(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the job of a group that hangs fail with the stacks of its processes, before its test
    fails without them.
    """
    # What a test patches itself has to be undone before the look at what it has left behind, so
    # this is a patch of its own.
    with pytest.MonkeyPatch.context() as patch:
        if any(request.node.get_closest_marker(name) for name in ("flink", "cluster")):
            from operators.params.catalog import STALL_TIMEOUT

            patch.setitem(vars(STALL_TIMEOUT), "default", 12 * DEADLINE_S)
        yield


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if any(request.node.get_closest_marker(name) for name in ("process", "flink", "cluster")):
        with nothing_left_behind():
            yield
    else:
        yield
