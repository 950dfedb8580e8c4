"""The most resident memory that a process has had, as the kernel counts it. Linux only."""


def peak_mb(pid: int) -> float:
    """Return VmHWM of a process in MB; StopIteration or OSError when it has just ended."""
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
