"""Run `akdl estimator` for each list of arguments in a JSON text; write exit codes and errors as
JSON into a file.
"""

import contextlib
import io
import json
import sys

from akdl.runner_commands import estimator as main

found = []
for arguments in json.loads(sys.argv[1]):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = main(arguments)
    found.append([code, err.getvalue()])
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
