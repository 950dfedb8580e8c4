"""A program in an empty folder, with nothing but our wheel, on a cluster whose hosts have Flink's
side and the oldest Java.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from tests.support.environment import ENVIRONMENT
from tests.support.environments import make_environment, pack
from tests.support.flink_cluster import flink_cluster
from tests.support.installs import make_driver, make_flink_side
from tests.support.javas import oldest_java
from tests.support.leftovers import DEADLINE_S

pytestmark = [pytest.mark.cluster, pytest.mark.tf, pytest.mark.own_processes]

JOB = """
import sys
import operators
from operators import *

port, python_env = sys.argv[1:]
env = useRemoteEnv("localhost", int(port), 3)
numbers = BatchOperator.fromTable(env.btenv.sql_query("SELECT * FROM (VALUES (1), (2), (3), (4), (5), (6)) AS numbers (x)"))
result = numbers.link(TensorFlow2BatchOp(
    userFiles=["total.py"], mainScriptFile="total.py", pythonEnv=python_env, numWorkers=3, numPSs=0,
    outputSchemaStr="x BIGINT, workers INT, akdl STRING, env STRING",
)).collectToDataframe()
print(operators.__file__)
print(sorted(result.x), set(result.workers))
print(len(set(result.akdl)), *set(result.akdl), *set(result.env), sep="\\n")
"""

SCRIPT = """
import os
import akdl
import tensorflow as tf

def main(config):
    dataset = tf.data.TFRecordDataset(config.dataset_file).batch(100)
    x = [int(x) for batch in dataset for x in tf.io.parse_example(batch, {"x": tf.io.FixedLenFeature([], tf.int64)})["x"] * 10]
    config.output_writer.write_batch({
        "x": x, "workers": [config.num_workers] * len(x), "akdl": [akdl.__file__] * len(x),
        "env": [os.environ["TESTED_ENV"]] * len(x),
    })
"""


@pytest.mark.long
def test_driver_with_only_our_wheel_runs_a_job_on_a_cluster(tmp_path: pathlib.Path) -> None:
    """The operators in the JVM are compiled by the cluster's Java."""
    java_home = oldest_java()
    driver, host = make_driver(tmp_path / "driver"), make_flink_side(tmp_path / "host")
    for name in ("empty", "cluster"):
        (tmp_path / name).mkdir()
    (tmp_path / "empty" / "job.py").write_text(JOB)
    (tmp_path / "empty" / "total.py").write_text(SCRIPT)
    archive = pack(make_environment(tmp_path / "made"), str(tmp_path / "env.tar.gz"), inside="env")
    with flink_cluster(
        tmp_path / "cluster", task_managers=1, slots=3, python=host, java_home=java_home
    ) as cluster:
        executable = os.readlink(f"/proc/{cluster.task_manager_pids[0]}/exe")
        assert executable.startswith(os.path.realpath(java_home))
        done = subprocess.run(
            [driver, "job.py", str(cluster.rest_port), archive], cwd=tmp_path / "empty", capture_output=True, text=True,
            env={name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}, timeout=5 * DEADLINE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    imported, rows, places, *paths = done.stdout.splitlines()
    assert pathlib.Path(imported).is_relative_to(tmp_path / "driver")
    assert rows == "[10, 20, 30, 40, 50, 60] {3}"
    assert places == str(len(paths) - 1)
    *packages, env = paths
    assert all(path.endswith("/.akdl/lib/akdl/__init__.py") for path in packages), (
        "akdl came with the job"
    )
    assert f"/akdl_envs_{os.geteuid()}/" in env, "and so did TensorFlow's side"
