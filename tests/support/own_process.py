"""A function in a Python of its own: threads of other tests are at work in this one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_own_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a new process, and return its result or raise its error.

    Processor time and traced memory are those of all threads of a process.
    """
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawned) as processes:
        return processes.submit(function, *args, **kwargs).result()
