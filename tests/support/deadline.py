"""How long tests wait for what comes late on a busy machine."""

import os

# By how much limits that a test sets itself are stretched too.
SLOWER = float(os.environ.get("AKDL_TEST_TIME_FACTOR", "1"))
DEADLINE_S = 30.0 * SLOWER
