"""A script filters rows and writes the remaining ones back; its output is shown with role and index
in front.

    python examples/filter_rows/job.py

prints

    [TensorFlow2BatchOp, chief 0] kept 2 of 4
       id   name  squared
    0   2    two     6.25
    1   4  vier…    16.00
"""

import pathlib

from operators import MemSourceBatchOp, TensorFlow2BatchOp, useLocalEnv

script = str(pathlib.Path(__file__).with_name("keep_large.py"))

useLocalEnv(1, config={"debug_mode": True})
rows = [(1, "one", 0.5), (2, "two", 2.5), (3, None, 1.0), (4, "vier…", 4.0)]
MemSourceBatchOp(rows, "id LONG, name STRING, score DOUBLE").filter(
    "name IS NOT NULL OR score < 2"
).link(
    TensorFlow2BatchOp()
    .setUserFiles([script])
    .setMainScriptFile(script)
    .setUserParams({"threshold": 2})
    .setOutputSchemaStr("id LONG, name STRING, squared DOUBLE")
    .setNumWorkers(1)
    .setNumPSs(0)
).print()
