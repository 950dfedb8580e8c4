"""The environment of this program as it was before its first job.

A local job of PyFlink changes it, so that programs started from there cannot run jobs of their own.
"""

import os

ENVIRONMENT = dict(os.environ)
