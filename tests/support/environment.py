"""The environment of this program as it was before its first job.

A local job of PyFlink changes it, so that programs started from there cannot run jobs of their own.
"""

import atexit
import os
import shutil
import signal
import tempfile

from tests.support.class_archive import SHORT_LIVED, archive_options

# tests beside these must not see their files, and find what is left behind
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(
        prefix=os.environ["PYTEST_XDIST_WORKER"]
    )
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)

# Clusters of tests check Flink's own classes, see tests/support/flink_cluster.py; the JVM of a
# program need not do it too. Mini clusters that tests share keep their network buffers, beside
# which others must have room.
_UNCHECKED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
os.environ.setdefault(
    "JVM_ARGS",
    " ".join([*SHORT_LIVED, "-XX:MaxDirectMemorySize=3g", *_UNCHECKED, *archive_options()]),
)

# Other processes need the other processors; more threads would only wait for each other.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# tests that look at what is printed want nothing beside it
os.environ.setdefault("AKDL_PROGRESS", "0")

# a process that waits for the next script would be left behind by each test
os.environ.setdefault("AKDL_SPARE", "0")

ENVIRONMENT = dict(os.environ)

# a shell lets programs in its background ignore it, and so theirs too
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
