"""Scripts that do harm, each a function; the user parameter `fault` names the one to run."""

from __future__ import annotations

import atexit
import hashlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np


def main(config: Any) -> None:
    globals()[config.user_params["fault"]](config)


def write_all(config: Any) -> None:
    config.output_writer.write_batch({"id": np.arange(config.dataset_length)})


class Silent(Exception):
    def __str__(self) -> None:
        raise ValueError("no text")

    __repr__ = __str__


def exits_at_once(config: Any) -> None:
    os._exit(7)


def crashes(config: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def aborts(config: Any) -> None:
    os.abort()


def is_killed(config: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_woken(config: Any) -> None:
    signal.alarm(1)
    threading.Event().wait()


def recurses(config: Any) -> None:
    recurses(config)


def has_no_memory(config: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
    bytearray(1 << 31)


def has_no_descriptors(config: Any) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    opened = [open(os.devnull) for _ in range(64)]
    print(len(opened))


def has_no_file_size(config: Any) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    write_all(config)
    print(config.dataset_file)


def raises_without_text(config: Any) -> None:
    raise Silent


def raises_surrogates(config: Any) -> None:
    raise ValueError("\udcff and \ud800")


def raises_the_error_of_a_thread(config: Any) -> None:
    raised = []

    def run() -> None:
        try:
            raise KeyError("in a thread that main waits for")
        except KeyError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]


def is_interrupted(config: Any) -> None:
    raise KeyboardInterrupt


def leaves_with_an_object(config: Any) -> None:
    sys.exit(Silent())


def closes_descriptors(config: Any) -> None:
    os.closerange(3, 1000)
    write_all(config)


def closes_descriptors_and_fails(config: Any) -> None:
    os.closerange(3, 1000)
    raise ValueError("no longer connected")


def closes_all_descriptors(config: Any) -> None:
    os.closerange(0, 1000)
    threading.Event().wait()


def writes_after_main(config: Any) -> None:
    main_thread = threading.current_thread()

    def write() -> None:
        main_thread.join(0.2)
        while True:  # until it is refused
            config.output_writer.write_batch({"id": [1]})
            time.sleep(0.01)

    threading.Thread(target=write).start()


def writes_at_exit(config: Any) -> None:
    atexit.register(lambda: config.output_writer.write_batch({"id": [1]}))


def closes_its_streams(config: Any) -> None:
    write_all(config)
    sys.stdout.close()
    sys.stderr.close()
    os.close(1)


def prints_no_text(config: Any) -> None:
    write_all(config)
    os.write(1, bytes(range(256)) * 10)


def floods_its_console(config: Any) -> None:
    write_all(config)
    for _ in range(100):
        os.write(1, b"x" * 79 + b"\n" + b"y" * 79 + b"\n" * 500)


def changes_its_folder(config: Any) -> None:
    os.chdir("/")
    write_all(config)


def deletes_its_folder(config: Any) -> None:
    write_all(config)
    shutil.rmtree(config.work_dir)


def forks(config: Any) -> None:
    if os.fork() == 0:
        os._exit(3)
    os.wait()
    write_all(config)


def takes_all_signals(config: Any) -> None:
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    write_all(config)


def has_no_umask(config: Any) -> None:
    os.umask(0o777)
    write_all(config)


def raises_at_exit(config: Any) -> None:
    atexit.register(lambda: 1 / 0)
    write_all(config)


def raises_in_a_thread(config: Any) -> None:
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    write_all(config)


def writes_from_threads(config: Any) -> None:
    rows = np.arange(config.dataset_length).reshape(10, -1)
    threads = [
        threading.Thread(target=lambda part=part: config.output_writer.write_batch({"id": part}))
        for part in rows
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def exits_with_zero(config: Any) -> None:
    write_all(config)
    sys.exit(0)


def leaves_daemon_threads(config: Any) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    write_all(config)


def replaces_its_streams(config: Any) -> None:
    sys.stdout = sys.stderr = None
    write_all(config)


def raises_megabytes(config: Any) -> None:
    raise ValueError("x" * (6 << 20))


def prints_without_line_ends(config: Any) -> None:
    for _ in range(200):
        os.write(1, b"z" * 100_000)
    raise KeyError("after")


def daemonizes(config: Any) -> None:
    write_all(config)
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os.wait()
        # else this script, and with it the daemon, may end before the daemon has said its number
        os.read(told, 1)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    with open(os.environ["PID_FILE"], "w") as file:
        file.write(str(os.getpid()))
    os.write(tell, b"1")
    time.sleep(600)
    os._exit(0)


def daemonizes_a_program(config: Any) -> None:
    write_all(config)
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(os.environ["PID_FILE"], "w") as file:
        file.write(str(child.pid))


def returns_early(config: Any) -> None:
    atexit.register(lambda: open(os.environ["EXIT_FILE"], "w").close())
    config.output_writer.write_batch({"id": np.arange(1000)})


def prints_letters(config: Any) -> None:
    print("grün")
    write_all(config)


def overlooks(config: Any) -> None:
    write_all(config)

    def reads() -> None:
        raise KeyError("scor")

    thread = threading.Thread(target=reads, name="reader")
    thread.start()
    thread.join()


def hangs_before_reading(config: Any) -> None:
    time.sleep(600)


def hangs_while_reading(config: Any) -> None:
    with open(config.dataset_file, "rb") as file:
        file.read(100)
        time.sleep(600)


def hangs_after_reading(config: Any) -> None:
    write_all(config)
    time.sleep(600)


def loops_in_python(config: Any) -> None:
    while True:
        pass


def loops_in_c(config: Any) -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


def loops_with_the_interpreter_lock(config: Any) -> None:
    sum(itertools.repeat(0))


def waits_for_two_locks(config: Any) -> None:
    first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def take(one: threading.Lock, other: threading.Lock) -> None:
        with one:
            both.wait()
            with other:
                pass

    threading.Thread(target=take, args=(first, second), daemon=True).start()
    take(second, first)


def works_without_words(config: Any) -> None:
    end = time.monotonic() + config.user_params["seconds"]
    while time.monotonic() < end:
        numbers = np.random.default_rng(1).random(100_000)
        sorted(numbers.tolist())
        np.sort(numbers).sum()
        sum(float(number) for number in numbers)  # looks find it in other places
    write_all(config)
