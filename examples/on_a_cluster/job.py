"""One program for all ways to run a job: in this process, on a cluster, or started by Flink; see
docs/clusters.md.

    python examples/on_a_cluster/job.py --wait /tmp/doubled

writes the numbers 0 to 9 and their doubles to that folder, as CSV files.
"""

import argparse
import pathlib

from operators import BatchOperator, TensorFlow2BatchOp, getMLEnv, useRemoteEnv

parser = argparse.ArgumentParser()
parser.add_argument("result", help="folder for the result, which all hosts share")
parser.add_argument(
    "--cluster",
    help="HOST:PORT of the REST endpoint; default: as Flink is configured, or this process",
)
parser.add_argument(
    "--python-env", default="", help="environment with TensorFlow, such as a packed environment"
)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--wait", action="store_true", help="wait until the job has ended")
options = parser.parse_args()

if options.cluster:
    host, port = options.cluster.rsplit(":", 1)
    useRemoteEnv(host, int(port), options.workers)

table_env = getMLEnv().btenv
table_env.execute_sql(
    "CREATE TEMPORARY TABLE doubled (x BIGINT, twice BIGINT) "
    f"WITH ('connector' = 'filesystem', 'path' = '{options.result}', 'format' = 'csv')"
)
numbers = table_env.from_elements([(x,) for x in range(10)], ["x"])
# absolute: applications run in another folder
script = str(pathlib.Path(__file__).resolve().with_name("double.py"))
doubled = BatchOperator.fromTable(numbers).link(
    TensorFlow2BatchOp()
    .setUserFiles([script])
    .setMainScriptFile(script)
    .setOutputSchemaStr("x LONG, twice LONG")
    .setPythonEnv(options.python_env)
    .setNumWorkers(options.workers)
    .setNumPSs(0)
)
job = doubled.getOutputTable().execute_insert("doubled")
if options.wait:
    job.wait()
