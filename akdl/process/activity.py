"""Activity of a script at a moment, and the processor time in which it works.

The activity is found from the main thread's calls and all threads' states. Each report of progress
carries it. The bridge splits the seconds of a member by it, which gives the last line of a job that
says where the time went, and the group finds out by it who waits for whom.

Work is what a process does as opposed to waiting in a loop. The group needs the difference when no
member makes progress: the script of one member may be in an endless loop, while the others poll for
it in a collective and use the processor as well.
"""

from __future__ import annotations

import gc
import glob
import itertools
import os
import random
import sys
import threading
import time
import traceback
from contextlib import suppress
from types import FrameType
from typing import Callable, Iterator

from akdl.wire import AWAITING, CALLING, IMPORTING, READING, STILL, WORKING, Activity

LOOK_S = 0.5
_AKDL, *_FRAMEWORKS = (
    os.path.join(os.sep, name, "") for name in ("akdl", "tensorflow", "torch", "jax")
)
_ROWS, _ARRIVAL = (os.path.join(_AKDL, "rows", name) for name in ("", "arriving_rows.py"))
_IMPORT = "<frozen importlib._bootstrap>"
_ITERATOR = os.path.join("data", "ops", "iterator_ops.py")
# Threads of ours that look at others. They are found in other places at each look, so with them a
# script in an endless loop counted as working.
_WATCHES = {"akdl-activity", "akdl-parent", "akdl-progress"}
# Stacks of 15 threads with 30 calls each take 0.3 ms, and are taken twice a second.
_MOST_THREADS = 20
_MOST_CALLS = 40


class ActivityWatch:
    """The last `activity` and `place`, sampled by a daemon thread until the process ends.

    Samples are at irregular times, so that they meet each part of a periodic script.
    """

    def __init__(self, folder: str, waits_for_rows: Callable[[], bool]) -> None:
        self.now = (IMPORTING, "")
        self._folder, self._waits_for_rows = folder, waits_for_rows
        threading.Thread(target=self._run, name="akdl-activity", daemon=True).start()

    def _run(self) -> None:
        # The global generator belongs to the script, which may have set its seed: each number taken
        # from it would change the numbers of the script.
        chance = random.Random()
        while True:
            self.now = activity(self._folder, self._waits_for_rows())
            time.sleep(LOOK_S * chance.uniform(0.5, 1.5))


def activity(folder: str, waits_for_rows: bool) -> tuple[Activity, str]:
    """Return the activity, and the function in `folder` that the main thread is in.

    The function looks like "parse (train.py)"; it is "" where the main thread is in no function of
    the script. Outer calls of the script are not looked at, since the innermost one says what runs.
    """
    # `called` gets the files of the innermost frames, up to the first one of the script, or of akdl
    # outside `rows`. They show what that code has called, for example TensorFlow or PyTorch.
    called, place, is_called = [], "", True
    for frame, _ in main_calls():
        path, function = frame.f_code.co_filename, frame.f_code.co_name
        # The script is imported, or it imports a package: the script's own modules may train when
        # they are imported.
        if (function == "find_main" and path.endswith("entry.py")) or (
            path == _IMPORT and not place
        ):
            return IMPORTING, ""
        # A copy of akdl may be below the work folder, so its frames are recognized before those
        # below the folder count as functions of the script.
        # Only the part below the work folder counts, which may be below a folder named akdl itself.
        is_ours = _AKDL in (path[len(folder) :] if path.startswith(folder) else path)
        if not place and not is_ours and path.startswith(folder):
            place = f"{function} ({os.path.basename(path)})"
        is_called = is_called and not place and (not is_ours or _ROWS in path)
        if is_called:
            called.append(path)
    runs = _runs()
    # A reader may wait for rows in a thread of TensorFlow's that reads ahead, while another thread
    # trains. So a waiting reader counts only where nothing runs or the main thread itself waits.
    if waits_for_rows and (not runs or any(path.endswith(_ARRIVAL) for path in called)):
        return AWAITING, place
    if any(_ROWS in path or path.endswith(_ITERATOR) for path in called):
        return READING, place
    if not any(name in path for path in called for name in _FRAMEWORKS):
        return WORKING, place
    # A GPU may compute what the framework waits for.
    has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
    return CALLING if runs or has_gpu else STILL, place


def _runs() -> bool:
    """Test if another thread of this process runs, could run, or reads a disk; True where the
    system has no such list.
    """
    # The thread that reads the list runs itself, so a second running thread is needed. Without any
    # the list does not exist, as on macOS.
    running = 0
    for path in glob.iglob("/proc/self/task/*/stat"):
        # A thread may have ended since it was listed. The name of a thread, in brackets, may
        # contain any characters, so the state is what follows the last bracket.
        with suppress(OSError), open(path, "rb") as file:
            running += file.read().rpartition(b")")[2][1:2] in (b"R", b"D")
        if running > 1:
            return True
    return running == 0


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


def current_frames() -> dict[int, FrameType]:
    """Innermost frame of each thread.

    `sys._current_frames` makes objects while it holds a lock of the interpreter. If a collection of
    garbage begins there, and finds a `threading.local`, it waits for the same lock, and the process
    stands still (CPython's issue gh-106883; Python 3.11 is not fixed).
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if is_enabled:
            gc.enable()


def main_calls() -> Iterator[tuple[FrameType, int]]:
    """Frames of the main thread with their lines, the innermost one first.

    Called from other threads: the frames change while they are walked, so callers only read them.
    """
    return traceback.walk_stack(current_frames().get(threading.main_thread().ident or 0))


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
    frames = current_frames()
    del frames[threading.get_ident()]
    return frames


def _instructions(frame: FrameType | None) -> Iterator[int]:
    while frame is not None:
        yield id(frame.f_code)
        # The index of the last instruction tells calls from different places of one function apart,
        # also on one line.
        yield frame.f_lasti
        frame = frame.f_back
