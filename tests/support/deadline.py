"""How long tests wait for what comes late on a busy machine."""

import os

DEADLINE_S = 30.0 * float(os.environ.get("AKDL_TEST_TIME_FACTOR", "1"))
