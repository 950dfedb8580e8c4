"""Streams are predicted as tables are, and newer models take over while rows flow."""

from __future__ import annotations

import gc
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
from apache_beam.runners.worker.sdk_worker import SdkHarness

from akdl.serving.model_stream import publish
from akdl.storage.model_archive import pack
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    StreamOperator,
    TFSavedModelPredictor,
    TFSavedModelPredictStreamOp,
    TFTableModelPredictStreamOp,
    getMLEnv,
    useLocalEnv,
)
from tests.akdl.serving import models
from tests.e2e.stream_jobs import SentModels, all_rows, check_switches, running
from tests.e2e.streams import counting
from tests.support.leftovers import task_processes, wait_until

pytestmark = [pytest.mark.flink, pytest.mark.tf]

FEATURES = "id, ARRAY[CAST(SIN(id) AS FLOAT), CAST(COS(id) AS FLOAT), CAST(MOD(id, 7) AS FLOAT)] AS x, MOD(id, 5) AS k"
ONES = (
    "id, ARRAY[CAST(1 AS FLOAT), CAST(1 AS FLOAT), CAST(1 AS FLOAT)] AS x, CAST(0 AS BIGINT) AS k"
)
FED = {"selectedCols": ["x", "k"], "reservedCols": ["id"]}


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


@pytest.fixture
def log() -> Iterator[list[tuple[int, str]]]:
    """The lines that the bridge logs about model processes, as (level, text)."""
    lines: list[tuple[int, str]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.levelno, record.getMessage()))

    logger, keep = logging.getLogger("bridge"), Keep()
    logger.addHandler(keep)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(keep)


def workers() -> list[SdkHarness]:
    """Beam's workers of jobs that run in this program."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, SdkHarness) and getattr(each, "_alive", False)
    ]


def logged(lines: list[tuple[int, str]], level: int, *parts: str) -> list[str]:
    return [text for of, text in lines if of == level and all(part in text for part in parts)]


def model_table(folder: str) -> BatchOperator:
    return MemSourceBatchOp(list(pack(folder)), "model_id BIGINT, model_info STRING")


SIGNATURES = [("serving_default", "logits")] * 2 + [
    ("predict", "probabilities"),
    ("serving_default", "logits"),
]


@pytest.mark.long
def test_stream_predictions_equal_those_of_tensorflow() -> None:
    """Four models in one job, one after the other."""
    import tensorflow as tf

    count = 2001
    folders = [model() for model in models.ALL]
    stream: StreamOperator = counting(getMLEnv().stenv, count).select(FEATURES)
    for number, (folder, (signature, output)) in enumerate(zip(folders, SIGNATURES)):
        op = TFSavedModelPredictStreamOp(
            modelPath=folder, outputSchemaStr=f"y{number} ARRAY<FLOAT>", outputSignatureDefs=[output],
            signatureDefKey=signature, selectedCols=["x", "k"],
        )  # fmt: skip
        stream = stream.link(op)
    assert stream.getColNames() == ["id", "x", "k", "y0", "y1", "y2", "y3"]
    rows = sorted(all_rows(stream))
    assert [row[0] for row in rows] == list(range(count))
    given = {"x": np.array([row[1] for row in rows], "f4"), "k": np.array([row[2] for row in rows])}
    for number, (folder, (signature, output)) in enumerate(zip(folders, SIGNATURES)):
        loaded = tf.saved_model.load(folder)
        wanted = loaded.signatures[signature](
            **{name: tf.constant(values) for name, values in given.items()}
        )[output].numpy()
        assert wanted.shape == (count, 2)
        np.testing.assert_allclose(
            np.array([row[3 + number] for row in rows]), wanted, rtol=1e-5, atol=1e-6
        )


def test_a_model_table_predicts_a_stream_and_so_does_a_stage_of_a_pipeline() -> None:
    op = TFTableModelPredictStreamOp(
        model_table(models.module()), outputSchemaStr="p DOUBLE", **FED
    )
    stage = TFSavedModelPredictor(
        modelPath=models.scaled(2.0),
        outputSchemaStr="q DOUBLE",
        outputSignatureDefs=["p"],
        selectedCols=["x", "k"],
    )
    predicted = counting(getMLEnv().stenv, 300).select(FEATURES).link(op)
    stream = stage.transform(
        predicted.select(
            "id, p, ARRAY[CAST(p AS FLOAT), CAST(1 AS FLOAT), CAST(1 AS FLOAT)] AS x, id AS k"
        )
    )
    assert isinstance(stream, StreamOperator)
    rows = sorted(all_rows(stream.select("id, p, q")))
    assert rows == [(number, number % 5, 2.0 * (number % 5 + 2)) for number in range(300)]


def test_a_row_is_predicted_at_once_though_flinks_bundles_last_for_minutes() -> None:
    table_env = useLocalEnv(1, config={"python.fn-execution.bundle.time": "600000"}).stenv
    op = TFSavedModelPredictStreamOp(
        modelPath=models.scaled(1.0), outputSchemaStr="p DOUBLE", **FED
    ).linkFrom(counting(table_env, 1_000_000, per_second=5).select(ONES))
    try:
        with op.getOutputTable().execute().collect() as rows:
            assert [next(rows)[0] for _ in range(3)] == [0, 1, 2]
    finally:
        useLocalEnv(2)


@pytest.mark.fault("jobs", "A model process ends when its Python workers lose their connections")
def test_workers_that_lose_their_connection_release_the_model_process(
    tmp_path: pathlib.Path,
) -> None:
    """Beam's workers close no function then, and live in this program, which goes on; PyFlink runs
    the job, not we.
    """
    sent = SentModels(tmp_path / "sent")
    op = TFTableModelPredictStreamOp(
        model_table(models.scaled(1.0)), outputSchemaStr="p DOUBLE", chunkRows=50, **FED,
    ).linkFrom(
        counting(getMLEnv().stenv, 1_000_000, per_second=20).select(ONES), sent.stream()
    )  # fmt: skip
    others, processes = set(workers()), task_processes()
    with op.getOutputTable().execute().collect() as rows:
        assert next(iter(rows))[1] == 3.0
        sent.send(list(pack(models.scaled(2.0))))
        assert next(row for row in rows if row[1] == 6.0), "all functions are open"
        for worker in set(workers()) - others:
            worker._control_channel.close()
    wait_until(lambda: task_processes() == processes, "the process of the model has ended")


@pytest.mark.slow
def test_newer_models_of_a_folder_take_over_and_no_row_is_lost(
    tmp_path: pathlib.Path, log: list[tuple[int, str]]
) -> None:
    published = tmp_path / "models"
    published.mkdir()
    old = published / "1500000000"
    shutil.copytree(models.scaled(9.0), old)
    op = TFSavedModelPredictStreamOp(
        modelPath=models.scaled(1.0), outputSchemaStr="p DOUBLE", modelStreamFilePath=f"file://{published}",
        modelStreamScanInterval=0.2, chunkRows=50, **FED,
    )  # fmt: skip
    with running(counting(getMLEnv().stenv, 1_000_000, per_second=20).select(ONES).link(op)) as job:
        job.wait_for(
            lambda: job.predicts(3.0),
            "the first model predicts, not the one that was there before the job",
        )
        # What does not fit, is broken or is not complete leaves the job as it is.
        misfit = publish(models.scaled(7.0, output="other"), str(published))
        job.wait_for(
            lambda: logged(log, logging.ERROR, misfit, "is refused", "no output 'p'"),
            "the misfit is refused",
        )
        broken = publish(models.scaled(7.0), str(tmp_path / "aside"))
        os.remove(os.path.join(broken, "variables", "variables.index"))
        os.rename(broken, published / os.path.basename(broken))
        half = published / "unfinished.zip"
        half.write_bytes(b"PK\x03\x04half")
        job.wait_for(
            lambda: logged(log, logging.WARNING, str(half), "cannot be used"),
            "half an archive is no model",
        )
        assert job.predicts(3.0)
        first = os.path.basename(publish(models.scaled(2.0), str(published)))
        job.wait_for(lambda: job.predicts(6.0), "a newer model has taken over")
        archive = shutil.make_archive(str(tmp_path / "m"), "gztar", models.scaled(4.0))
        second = f"{int(first) + 1}.tar.gz"
        os.rename(archive, published / second)
        job.wait_for(lambda: job.predicts(12.0), "an archive has taken over")
    check_switches(job.rows, [3.0, 6.0, 12.0])
    for model in (first, second):
        assert len(logged(log, logging.INFO, f"the model {model} took over from the model ")) == 1


@pytest.mark.long
def test_models_of_a_second_stream_take_over(
    tmp_path: pathlib.Path, log: list[tuple[int, str]]
) -> None:
    sent = SentModels(tmp_path / "sent")
    op = TFTableModelPredictStreamOp(
        model_table(models.scaled(1.0)), outputSchemaStr="p DOUBLE", **FED,
    ).linkFrom(
        counting(getMLEnv().stenv, 1_000_000, per_second=20).select(ONES), sent.stream()
    )  # fmt: skip
    assert op.getColNames() == ["id", "p"]
    with running(op) as job:
        job.wait_for(lambda: job.predicts(3.0), "the first model predicts")
        sent.send(list(pack(models.scaled(2.0)))[::-1])
        job.wait_for(lambda: job.predicts(6.0), "the second model has taken over")
        rows = list(pack(models.scaled(3.0)))
        sent.send([rows[0], (1, rows[1][1][:100] + "!" + rows[1][1][100:])])
        damaged = "a model of the stream is rejected: ", "is damaged: model_id 1 has "
        job.wait_for(lambda: logged(log, logging.ERROR, *damaged), "a damaged one is refused")
        sent.send(list(pack(models.scaled(7.0, output="other"))))
        job.wait_for(lambda: logged(log, logging.ERROR, "no output 'p'"), "the misfit is refused")
        assert job.predicts(6.0)
        sent.send(list(pack(models.scaled(4.0))))
        job.wait_for(lambda: job.predicts(12.0), "the next one has taken over")
    check_switches(job.rows, [3.0, 6.0, 12.0])
    lines = logged(log, logging.INFO, " took over from the model ")
    assert (
        len(lines) == 2
        and "the model number 1 of the stream took over from the model akdl_model_" in lines[0]
    )
