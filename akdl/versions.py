"""Releases that akdl supports. `setup.py`, the doctor, the pages and the tests of versions read
them here.

A new Flink is one more entry of `FLINKS`, and entries of `operators/errors/missing_jars.py` for
connectors that have releases for it alone; CONTRIBUTING.md has the commands that do the rest. This
module imports nothing, because it is read where none of akdl's requirements are installed, and by a
Python that is perhaps too old.
"""

FLINKS = ("1.20", "2.0", "2.1", "2.2", "2.3")
# Pythons of programs and of Flink's Python workers, with the newest Flink.
FLINK_PYTHONS = ("3.9", "3.10", "3.11", "3.12")
# The Beam that Flink 1.20 requires has no packages for newer Pythons.
FLINK_120_PYTHONS = ("3.9", "3.10", "3.11")
# Pythons of scripts and models, which run in environments of their own. TensorFlow 1.15 needs 3.7.
PYTHONS = ("3.7", "3.8", *FLINK_PYTHONS, "3.13")
# The tests of versions run each TensorFlow with the Python next to it, since no Python has packages
# of all of them. A star stands for the newest patch.
TRIED_TENSORFLOWS = (
    ("1.15.5", "3.7"),
    ("2.3.*", "3.8"),
    ("2.13.1", "3.8"),
    ("2.16.*", "3.11"),
    ("2.18.*", "3.12"),
    ("2.20.*", "3.13"),
    ("2.21.*", "3.13"),
)
