"""An archive of Flink's classes, from which JVMs of tests take them, in place of reading and
checking them one by one.

It saves each JVM a second of processor time (Java's class data sharing). `make test` makes it by
running this module. A JVM for which it does not fit, or without one, starts as ever.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
ARCHIVE = ROOT / ".venv" / "flink.jsa"
# Most JVMs of tests live for seconds: a better compiler and threads that collect garbage would take
# half of their processor time. An archive serves JVMs with the garbage collector that it was made
# with. Room for classes from the start saves full collections while they load; nobody reads the
# counters of these JVMs; and two timers of Flink's RPC system, in each JVM, would wake up every 10
# ms. With this compiler alone a JVM keeps 48 MB of compiled code, which hundreds of jobs fill, so that
# it would drop code that it needs again.
SHORT_LIVED = (
    "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MetaspaceSize=256m", "-XX:-UsePerfData",
    "-XX:ReservedCodeCacheSize=160m", "-Dpekko.scheduler.tick-duration=50ms",
)  # fmt: skip
# programs of tests print nothing of an archive that does not fit
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive_options() -> tuple[str, ...]:
    """Return the options of a JVM that takes classes from the archive; none where there is no
    archive.
    """
    made = ARCHIVE.exists() and ARCHIVE.stat().st_size
    return (f"-XX:SharedArchiveFile={ARCHIVE}", *_QUIET) if made else ()


def make_archive() -> None:
    """Make the archive, of the classes that a job needs; an empty one where Java cannot make it."""
    new = ARCHIVE.with_suffix(".new")
    options = " ".join([*SHORT_LIVED, *_QUIET, f"-XX:ArchiveClassesAtExit={new}"])
    job = [sys.executable, str(ROOT / "examples" / "filter_rows" / "job.py")]
    # The JVM, which ends after the program, writes the archive then; it has the other end of the
    # pipe.
    done = subprocess.run(
        job, env={**os.environ, "JVM_ARGS": options}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    new.touch()
    new.replace(ARCHIVE)


if __name__ == "__main__":
    make_archive()
