"""A remote environment runs jobs on a real cluster, with Flink's Python library and our packages
sent along.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from operators import (
    BatchOperator,
    CsvSinkBatchOp,
    RandomTableSourceBatchOp,
    resetEnv,
    useRemoteEnv,
)
from tests.support.flink_cluster import flink_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.own_processes]


def test_jobs_on_a_cluster_use_sent_packages_and_run_once(tmp_path: pathlib.Path) -> None:
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    @udf(result_type=DataTypes.STRING(), func_type="pandas")
    def where_it_runs(ids: Any) -> Any:
        import os

        import pandas as pd

        import akdl
        import bridge
        import operators

        return pd.Series(
            [" ".join([str(os.getppid()), akdl.__file__, bridge.__file__, operators.__file__])]
            * len(ids)
        )

    frames: list[object] = []
    with flink_cluster(tmp_path, task_managers=1, slots=2, python_library=False) as cluster:
        env = useRemoteEnv(cluster.host, cluster.rest_port, 2)
        try:
            env.btenv.create_temporary_function("where_it_runs", where_it_runs)
            source = RandomTableSourceBatchOp(numRows=10, numCols=1, idCol="id")
            found = source.select("id, where_it_runs(id) AS place").collectToDataframe()
            source.firstN(3).lazyCollectToDataframe(frames.append)
            source.select("id").link(CsvSinkBatchOp(filePath=str(tmp_path / "ids.csv")))
            BatchOperator.execute("two results")
            env.btenv.execute_sql(
                "CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'blackhole')"
            )
            source.select("id").insertInto("ids")
            source.firstN(3).lazyCollectToDataframe(frames.append)
            source.select("id").insertInto("ids")
        finally:
            resetEnv()
        jobs = cluster.rest("/jobs/overview")["jobs"]
    assert sorted(found.id) == list(range(10))
    places = [place.split() for place in found.place.unique()]
    assert {int(place[0]) for place in places}.isdisjoint({os.getpid()})
    for place in places:
        assert all(file.startswith(str(tmp_path)) for file in place[1:]), (
            "the packages that were sent are used"
        )
    assert [(job["state"], job["jobType"]) for job in jobs] == [("FINISHED", "BATCH")] * 4
    names = [job["name"] for job in jobs]
    assert "two results" in names, "one job for both"
    assert names.count("insert into ids") == 2, "alone, and together with what was put off"
    assert len(frames[0]) == 3 and sorted(
        map(int, (tmp_path / "ids.csv").read_text().split())
    ) == list(range(10))
