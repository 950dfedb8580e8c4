"""Stands for a Python that has imported TensorFlow or PyFlink: lets the process of `python_forks`
fork, and ends as the fork does.

It is the program behind `tests.support.warm_python`, which writes it beside the socket. `-m MODULE`,
a script or `akdl.process.preflight.RUN_MODULE`, and their arguments, run in a fork; whatever else a
Python can be asked for is left to a real one.
"""

import json
import os
import signal
import socket
import struct
import sys

NAMESPACES = ("mnt", "uts", "net")  # of hosts, see tests/support/network.py; the one of files first
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Run once."""
    first, second = [*sys.argv[1:3], "", ""][:2]
    runs_module = first == "-m" or (first == "-c" and "runpy.run_module(sys.argv[0]" in second)
    if not (runs_module or first.endswith(".py")):
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    program = os.path.abspath(sys.argv[0])
    inherited = [int(name) for name in os.listdir("/proc/self/fd") if _is_inherited(int(name))]
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
    request = {
        "executable": program, "arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(), "numbers": inherited,
    }  # fmt: skip
    text = json.dumps(request).encode()
    # until they can be sent on: the fork may be faster than this process
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.path.join(os.path.dirname(program), "socket"))
    socket.send_fds(line, [struct.pack("!I", len(text))], namespaces + inherited)
    line.sendall(text)
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: line.send(bytes([number])))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    for descriptor in inherited:  # whoever waits for their end waits for that of the fork
        os.close(descriptor)
    told = line.recv(16)
    status = int(told) if told else -signal.SIGKILL
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _is_inherited(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # of the folder that was just listed
        return False


if __name__ == "__main__":
    main()
