"""Processor time in which a process works, as opposed to waiting in a loop.

The group needs the difference when no member makes progress: the script of one member may be in an
endless loop, while the others poll for it in a collective and use the processor as well.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Iterator

# Threads of ours that look at others. They are found in other places at each look, so with them a
# script in an endless loop counted as working.
_WATCHES = {"akdl-activity", "akdl-parent", "akdl-progress"}
# Stacks of 15 threads with 30 calls each take 0.3 ms, and are taken twice a second.
_MOST_THREADS = 20
_MOST_CALLS = 40


class WorkClock:
    """Seconds of processor time between looks that found the threads of this process in other
    places.

    A collective that polls for its peers, an endless loop and a call that never returns use the
    processor too, but each look finds them at the same instruction. While a call holds the
    interpreter lock, the clock cannot look, and nothing counts.
    """

    def __init__(self) -> None:
        self.worked_s = 0.0
        self._cpu_s, self._places = time.process_time(), _places()

    def look(self) -> float:
        # The time of the processor covers all threads, but not children of the script.
        cpu_s, places = time.process_time(), _places()
        if places != self._places:
            self.worked_s += cpu_s - self._cpu_s
        self._cpu_s, self._places = cpu_s, places
        return self.worked_s


def script_stacks() -> str:
    """Stacks of the main thread and of threads of the script, innermost calls last.

    They show all threads because the holder of a lock is often another one than the thread that
    waits. Lines of source would have to be read from files while the script runs.
    """
    frames = _frames_of_others()
    named = {
        each.ident or 0: each.name
        for each in threading.enumerate()
        if not each.name.startswith("akdl-")
    }
    lines = []
    for ident in list(filter(frames.__contains__, named))[:_MOST_THREADS]:
        calls = [
            f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
            for frame, line in itertools.islice(traceback.walk_stack(frames[ident]), _MOST_CALLS)
        ]
        lines += [f"Thread {named[ident]}:", *reversed(calls)]
    return "\n".join(lines)


def main_calls() -> Iterator[tuple[FrameType, int]]:
    """Frames of the main thread with their lines, the innermost one first.

    Called from other threads: the frames change while they are walked, so callers only read them.
    """
    return traceback.walk_stack(sys._current_frames().get(threading.main_thread().ident or 0))


def _places() -> frozenset[int]:
    """Return a number for the stack of each other thread, made of its functions and
    instructions.
    """
    watches = {each.ident for each in threading.enumerate() if each.name in _WATCHES}
    frames = _frames_of_others()
    # A hash is enough to see a difference, and holds no frames, whose variables would stay alive
    # until the next look.
    return frozenset(
        hash((thread, *_instructions(frames[thread]))) for thread in frames.keys() - watches
    )


def _frames_of_others() -> dict[int, FrameType]:
    """Innermost frame of each other thread; with the own one, a cycle would keep the variables of
    all.
    """
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    return frames


def _instructions(frame: FrameType | None) -> Iterator[int]:
    while frame is not None:
        yield id(frame.f_code)
        # The index of the last instruction tells calls from different places of one function apart,
        # also on one line.
        yield frame.f_lasti
        frame = frame.f_back
