"""One child process: started, watched, stopped.

Scripts, checks of interpreters and unpacking all run as such a child, so that nothing of them stays
behind, however this process ends. Shutdown rules:
- A process is always the leader of its own session, so it can be killed together with all processes
  that its script starts.
- It ends when its script ends, and gets `patience_s` for that; then SIGTERM to the group, then
  SIGKILL.
- When the leader has exited, the rest of its group is killed before the leader is reaped. Until
  then the system cannot give the group's number to another group. Processes that have left the
  group, such as daemons, are found by a variable and killed.
- It holds one end of a pipe; when this process dies, even by SIGKILL, the child sees the end of the
  pipe and exits.
- `stop` may be called at any time, twice, from any thread; when it returns, no process of the group
  is alive.

Its output becomes lines as a terminal finally shows them. A progress bar of Keras rewrites its line
hundreds of times with carriage returns or backspaces. A log gets its last form, and one in between
every five seconds, to show that the process works.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import secrets
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psutil

TERM_GRACE_S = 2.0
STACKS_S = 2.0
STACKS_LIMIT = 20_000  # characters
NOT_REACHED = "(the process has not reached its script yet)"
_READ_BYTES = 1 << 16
_LOOK_S = 0.5
# A busy host may not have read the last lines yet, and they have the reason of a failure. With one
# second in this place, errors sometimes lacked it.
_LAST_LINES_S = 10.0
# The variable by which daemons of a script are found. Its name lacks the prefix of the variables
# that our processes remove from their environment.
_MARK = "_AKDL_CHILD"
_FRAMES = 3  # of a place
# Processes that have left the group may fork while they are killed, so they are listed again and
# again, but not endlessly.
_LOOKS = 10

_MEANINGS = {
    signal.SIGKILL: "often because the host or the container has too little memory",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGABRT: "native code aborted, often after a failed check in TensorFlow",
    signal.SIGBUS: "often a full disk or a full /dev/shm",
    signal.SIGILL: "native code built for another processor",
}

OnLine = Callable[[str], None]
OnExit = Callable[[], None]


class ChildProcess:
    """A running child, from the start of the object to `on_exit`.

    Two threads belong to it: one reads the output, and one waits for the exit.

    Args:
        command: Program and arguments.
        environment: All variables of the child; none of this process is added but our own.
        folder: Current folder of the child.
        on_line: Called for each line of output, by the thread that reads.
        on_exit: Called once all processes of the group are gone, by the thread that waits.
        kept_lines: Number of last lines to keep for errors.
        pass_fds: Descriptors that the child inherits, such as locks.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        on_line: OnLine,
        on_exit: OnExit,
        kept_lines: int,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.program = command[0]
        self._lines: deque[str] = deque(maxlen=kept_lines)
        self._on_line = on_line
        self._on_exit = on_exit
        self._exited = threading.Event()
        self._has_all_lines = threading.Event()
        self._mark = secrets.token_hex(16)
        # Nothing is ever written into this pipe. The kernel closes our end when this process ends,
        # also by SIGKILL, and the child exits when it sees the end of the pipe.
        child_end, self._life_line = os.pipe()
        try:
            # There is neither a preexec_fn nor a fork of our own: both are unsafe in a process that
            # runs gRPC threads.
            self._process = subprocess.Popen(
                command,
                env={**environment, "AKDL_PARENT_FD": str(child_end), _MARK: self._mark},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[child_end, *pass_fds],
                start_new_session=True,
            )
        except BaseException:
            os.close(self._life_line)
            raise
        finally:
            os.close(child_end)
        self.pid = self._process.pid
        threading.Thread(target=self._read_lines, name="akdl-log", daemon=True).start()
        threading.Thread(target=self._reap, name="akdl-reap", daemon=True).start()

    def pass_on(self, on_line: OnLine, on_exit: OnExit) -> None:
        """Call other functions from now on, as a spare process gets a member only later.

        `on_line` is called for the lines that were read already too, such as warnings of an import.
        """
        self._on_line = on_line
        self._on_exit = on_exit
        for line in self.last_lines:
            on_line(line)

    def place_of_abort(self) -> str:
        """End it by SIGABRT, at which Python prints its stacks, and return the sentence of
        `place_in`.
        """
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGABRT)
        self.wait(STACKS_S)
        return place_in("\n".join(self._lines))

    @property
    def exit_status(self) -> int | None:
        """None while it runs, else as subprocess.Popen.returncode: negative for a signal.

        The status appears only after the group is gone and the last lines have been read.
        """
        return self._process.returncode if self._exited.is_set() else None

    @property
    def last_lines(self) -> list[str]:
        return list(self._lines)

    @property
    def cpu_times(self) -> tuple[float, float]:
        """Seconds of the process itself, and of its children."""
        own_s = 0.0
        with suppress(psutil.Error):
            own_s = sum(psutil.Process(self.pid).cpu_times()[:2])
        return own_s, max(self._sum(lambda process: sum(process.cpu_times()[:4])) - own_s, 0.0)

    @property
    def memory_bytes(self) -> int:
        return int(self._sum(lambda process: process.memory_info().rss))

    def _sum(self, number: Callable[[psutil.Process], float]) -> float:
        """Add up a number of the child and its descendants, which may end at any moment."""
        total = 0.0
        with suppress(psutil.Error):
            leader = psutil.Process(self.pid)
            for process in [leader, *leader.children(recursive=True)]:
                with suppress(psutil.Error):
                    total += number(process)
        return total

    def wait(self, timeout_s: float) -> bool:
        return self._exited.wait(timeout_s)

    def stop(self, patience_s: float) -> None:
        """End it: wait `patience_s` seconds, then SIGTERM, then SIGKILL. Returns when it and its
        group are gone.
        """
        if not self.wait(patience_s):
            self._signal_group(signal.SIGTERM)
            if not self.wait(TERM_GRACE_S):
                self._signal_group(signal.SIGKILL)
                self._exited.wait()

    def __repr__(self) -> str:
        return f"<ChildProcess {self.pid}: {describe_exit(self.exit_status)}>"

    def _read_lines(self) -> None:
        """Read the output until the pipe ends, or is empty after the child has exited."""
        assert self._process.stdout is not None
        lines = Lines(time.monotonic())
        with self._process.stdout as stream:
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            while True:
                # This is read before the pipe, because lines may arrive until the child has exited.
                has_ended = self._process.returncode is not None
                if poll.poll(_LOOK_S * 1000):
                    printed = os.read(stream.fileno(), _READ_BYTES)
                    if not printed:
                        break
                    self._pass_on(lines.feed(printed, time.monotonic()))
                # A process in another session may hold the empty pipe open, so its end may never
                # come. The reading goes on, as that process may print something.
                elif has_ended:
                    self._has_all_lines.set()
        self._pass_on(lines.end())
        self._has_all_lines.set()

    def _pass_on(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._lines.append(line)
            try:
                self._on_line(line)
            # A broken console must not stop the reading: the child would block on a full pipe.
            except Exception:
                logging.getLogger(__name__).exception(
                    "cannot pass on a line of process %d", self.pid
                )

    def _reap(self) -> None:
        """Wait for the child in a thread of its own, and end all that it leaves behind."""
        # WNOWAIT leaves the leader a zombie, so the number of its group cannot belong to others
        # while the rest of the group is killed.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._signal_group(signal.SIGKILL)
        _kill_escaped(self._mark)
        self._process.wait()
        # The last lines may still be in the pipe.
        self._has_all_lines.wait(_LAST_LINES_S)
        os.close(self._life_line)
        self._exited.set()
        self._on_exit()

    def _signal_group(self, number: int) -> None:
        if not self._exited.is_set():
            # macOS raises PermissionError if a group has only zombies.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _kill_escaped(mark: str) -> None:
    """Kill processes that have left the group of a child; they have its mark among their variables.

    One that is found may have started another one since the list of processes was made, so this
    looks again until nothing is found.
    """
    for _ in range(_LOOKS):
        # A daemon has lost its parent, so it is not among the descendants of the child, and all
        # processes of the host are asked.
        found = (_marked(pid, mark) for pid in psutil.pids())
        escaped = [process for process in found if process is not None]
        if not escaped:
            return
        for process in escaped:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(escaped, timeout=_LOOK_S)


def _marked(pid: int, mark: str) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if process.environ().get(_MARK) == mark else None
    # The process is gone, or belongs to another user, whose variables cannot be read.
    except (psutil.Error, OSError):
        return None


def place_in(printed: str) -> str:
    """Sentence about the innermost frames of the stack that Python printed at SIGABRT; "" without a
    stack.
    """
    frames = re.findall(r"^  (File \".*)", printed.rpartition("Current thread ")[2], re.MULTILINE)
    return f". It stood at {' < '.join(frames[:_FRAMES])}" if frames else ""


def stacks_of(pid: int, path: str) -> str:
    """Stacks of the threads of a process, which `faulthandler` appends to `path` at SIGUSR2.

    Only for a process that will be ended anyway: `faulthandler` doesn't take the interpreter lock,
    so other threads may change the frames that it walks, and it rarely crashes the process.

    The signal ends a process without a handler. There is none before `path` exists, nor in a shell
    script that runs Python.
    """
    if not os.path.exists(path):
        return NOT_REACHED
    before = _size(path)
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        receiver = next(
            filter(_catches_sigusr2, [process, *process.children(recursive=True)]), None
        )
        if receiver is not None:
            receiver.send_signal(signal.SIGUSR2)
    sizes = [before] * 3
    deadline = time.monotonic() + STACKS_S
    # faulthandler does not report that it has finished: the stacks are complete when the file has
    # grown, and then has the same size three times, as a busy host may interrupt it.
    while time.monotonic() < deadline:
        sizes = [*sizes[1:], _size(path)]
        if before < min(sizes) == max(sizes):
            break
        time.sleep(0.1)
    with open(path, encoding="utf-8", errors="replace") as file:
        file.seek(before)
        return file.read(STACKS_LIMIT)


def _catches_sigusr2(process: psutil.Process) -> bool:
    """Return True if the signal does not end a process. Only Linux shows the handlers of others.

    `pythonEnv` may name a shell script, whose shell has no handler and Python as its child.
    """
    if not psutil.LINUX:
        return True
    with open(f"/proc/{process.pid}/status", encoding="utf-8", errors="replace") as file:
        caught = re.search(r"^SigCgt:\s*(\w+)", file.read(), re.MULTILINE)
    return caught is not None and bool(int(caught.group(1), 16) >> signal.SIGUSR2 - 1 & 1)


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def describe_exit(status: int | None) -> str:
    """Words for an exit status, with the usual meaning of a signal; None means that it runs."""
    if status is None:
        return "running"
    if status >= 0:
        return f"exited with status {status}"
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"killed by signal {-status}"
    meaning = _MEANINGS.get(number)
    return f"killed by signal {-status} ({number.name}{': ' + meaning if meaning else ''})"


# A script may print endlessly without an end of line, and Beam keeps up to 10,000 lines that Flink
# has not taken, so the length of a line is a bound of memory.
LINE_CHARACTERS = 1 << 13
# This is the time between two shown versions of a line that is overwritten.
EVERY_S = 5.0

_MOVES = re.compile(r"(\n|\r\n|\r|\x08+)")


class Lines:
    """Decoder of one output: `feed` takes bytes as they are read, `end` gives the last line.

    Args:
        now: Monotonic seconds, as for `feed`.
    """

    def __init__(self, now: float) -> None:
        # A read may end in the middle of a character, so the decoder has to keep its bytes.
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line = ""
        # The next character is written at this place of the line.
        self._place = 0
        # This is true once the line has been overwritten since it was last shown.
        self._is_overwritten = False
        self._shown_at = now

    def feed(self, printed: bytes, now: float) -> list[str]:
        """Return the complete lines of the output so far; parts of lines longer than
        `LINE_CHARACTERS`.
        """
        text = self._decode(printed)
        # Most scripts print no progress bars, and their output is split in one step.
        if not self._is_overwritten and "\r" not in text and "\x08" not in text:
            *lines, rest = (self._line + text).split("\n")
            self._shown_at = now if lines else self._shown_at
            self._line = rest
            self._place = len(rest)
        else:
            lines = []
            for part in _MOVES.split(text):
                self._take(part, lines, now)
        return [cut for line in lines for cut in _cut(line)] + self._cut_off()

    def end(self) -> list[str]:
        """Return the last line if it has no end, with a mark for an incomplete character."""
        rest = self._line + self._decode(b"", True)
        self._line = ""
        self._place = 0
        return list(_cut(rest)) if rest else []

    def _take(self, part: str, lines: list[str], now: float) -> None:
        if not part:
            return
        if part in ("\n", "\r\n"):
            # A shorter version of a progress bar covers the end of a longer one with spaces.
            lines.append(self._line.rstrip(" ") if self._is_overwritten else self._line)
            self._line = ""
            self._place = 0
            self._is_overwritten = False
            self._shown_at = now
        elif part[0] in "\r\x08":
            if self._place and now - self._shown_at >= EVERY_S:
                self._shown_at = now
                lines.append(self._line.rstrip(" "))
            self._place = 0 if part == "\r" else max(self._place - len(part), 0)
            self._is_overwritten = True
        else:
            end = self._place + len(part)
            self._line = self._line[: self._place] + part + self._line[end:]
            self._place = end

    def _cut_off(self) -> list[str]:
        *cut, self._line = _cut(self._line)
        self._place = max(self._place - sum(map(len, cut)), 0)
        return cut


def _cut(line: str) -> list[str]:
    return [
        line[start : start + LINE_CHARACTERS] for start in range(0, len(line), LINE_CHARACTERS)
    ] or [""]
