"""A process that predicts, over a real socket, ended by closing its pipe."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import json_format

from akdl.serving.model_server import ModelServer
from akdl.serving.model_stream import publish
from akdl.storage.locked_folder import locked
from akdl.wire import Description, Empty, Notices, Offer, Prediction, Serving, TableColumn
from akdl.wire.columns import decode_columns, encode_columns
from akdl.wire.service import PREDICT_SERVICE
from akdl.wire.token import TOKEN
from tests.akdl.serving import models
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.strangers import strangers
from tests.support.warm_python import warm_python

pytestmark = [
    pytest.mark.tf,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
INPUTS = [TableColumn(name="x", type="ARRAY<FLOAT>"), TableColumn(name="k", type="BIGINT")]
OUTPUTS = [TableColumn(name="logits", type="ARRAY<DOUBLE>"), TableColumn(name="p", type="FLOAT")]
ROOT = pathlib.Path(__file__).parents[3]


class Server:
    """A server and its pipe."""

    def __init__(self, serving: Serving, folder: str, python: str = "", **variables: str) -> None:
        self.folder = folder
        self.address = f"unix:{folder}/model.sock"
        end, self.pipe = os.pipe()
        serving_file = pathlib.Path(folder) / "serving.json"
        serving_file.write_text(json_format.MessageToJson(serving))
        self.process = subprocess.Popen(
            [python or warm_python(), "-m", "akdl.serving.model_server"],
            cwd=ROOT,
            pass_fds=[end],
            env={
                **os.environ,
                "AKDL_PARENT_FD": str(end),
                "AKDL_ADDRESS": self.address,
                "AKDL_TOKEN": "secret",
                "AKDL_SERVING": str(serving_file),
                "TMPDIR": folder,
                "CUDA_VISIBLE_DEVICES": "",
                **variables,
            },
        )
        os.close(end)

    def hang_up(self) -> int:
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None
        return self.process.wait(DEADLINE_S)


class Client:
    def __init__(self, address: str, token: str = "secret") -> None:
        self.channel = grpc.insecure_channel(address)
        self.token = token

    def call(self, name: str, request: Any, answer: Any) -> Any:
        method = self.channel.unary_unary(
            f"/{PREDICT_SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return method(
            request, metadata=[(TOKEN, self.token)], wait_for_ready=True, timeout=2 * DEADLINE_S
        )

    def describe(self) -> Description:
        return self.call("Describe", Empty(), Description)

    def predict(self, columns: Any, inputs: Any = INPUTS) -> Prediction:
        return self.call("Predict", encode_columns(columns, inputs), Prediction)


@contextlib.contextmanager
def served(**options: Any) -> Iterator[tuple[Server, Client]]:
    serving = Serving(
        **{"model": models.module(), "input_columns": INPUTS, "output_columns": OUTPUTS, **options}
    )
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        server = Server(serving, folder)
        client = Client(server.address)
        try:
            yield server, client
        finally:
            client.channel.close()
            if server.process.poll() is None:
                server.hang_up()


def test_describes_predicts_and_ends_with_its_pipe() -> None:
    columns = {"x": [[1.0, 2.0, 4.0], None, [1.0, 2.0]], "k": [3, 4, 5]}
    with served(infer_batch_size=2, intra_op_parallelism=1) as (server, client):
        description = client.describe()
        assert not description.HasField("failure")
        answer = client.predict(columns)
        result = decode_columns(answer.rows, OUTPUTS)
        assert [row.row for row in answer.bad_rows] == [1, 2]
        assert "expected the shape [3], got [2]" in answer.bad_rows[1].message
        assert [None if cell is None else list(cell) for cell in result["logits"]] == [
            [14.0, 4.0],
            None,
            None,
        ]
        assert result["p"] == [3.0, None, None]
        assert not client.predict({"x": [[1.0, 2.0, 4.0]], "k": [3]}).bad_rows
        answer = client.predict({"x": [None], "k": [3]})
        assert [row.row for row in answer.bad_rows] == [0]
        assert decode_columns(answer.rows, OUTPUTS) == {"logits": [None], "p": [None]}
        answer = client.predict({"x": [], "k": []})
        assert (answer.rows.rows, list(answer.bad_rows), answer.HasField("failure")) == (
            0,
            [],
            False,
        )
        assert server.hang_up() == 0
        assert os.listdir(server.folder) == []


def test_texts_of_a_table_feed_inputs_of_numbers_and_strings() -> None:
    inputs = [TableColumn(name="t", type="STRING"), TableColumn(name="x", type="VARCHAR(20)")]
    outputs = [TableColumn(name="length", type="INT"), TableColumn(name="sum", type="DOUBLE")]
    with served(model=models.texts_and_numbers(), input_columns=inputs, output_columns=outputs) as (
        _,
        client,
    ):
        answer = client.predict({"t": ["é", "", "c"], "x": ["1,2", "3 4", "$2$5 6"]}, inputs)
        assert not answer.bad_rows and not answer.HasField("failure")
        columns = decode_columns(answer.rows, outputs)
        assert (columns["length"].tolist(), columns["sum"].tolist()) == (
            [2, 0, 1],
            [3.0, 7.0, 11.0],
        )
        answer = client.predict({"t": ["é", None], "x": ["1,2,3", "1 2"]}, inputs)
        assert [bad.row for bad in answer.bad_rows] == [0, 1]
        assert "expected the shape [2], got [3]" in answer.bad_rows[0].message


def test_several_clients_get_the_same_answers_from_a_packed_model() -> None:
    rows = models.rows(64)
    with tempfile.TemporaryDirectory() as folder, served() as (_, client):
        wanted = client.predict(rows).rows
        file = shutil.make_archive(folder + "/m", "zip", models.module())
        with served(model=file) as (server, _):
            clients = [Client(server.address) for _ in range(4)]
            answers: list[Any] = []
            threads = [
                threading.Thread(
                    target=lambda own=own: answers.extend(own.predict(rows) for _ in range(20))
                )
                for own in clients
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(2 * DEADLINE_S)
            for own in clients:
                own.channel.close()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(DEADLINE_S) == 0
            assert os.listdir(server.folder) == []
    assert len(answers) == 80
    assert all(answer.rows == wanted for answer in answers)


def test_every_client_gets_the_reason_why_no_model_was_loaded() -> None:
    with served(signature_def_key="other") as (server, client):
        failure = client.describe().failure
        assert failure.type == "SignatureError"
        assert "it has: 'look_up'" in failure.message
        assert client.predict({"x": [[1, 2, 3]], "k": [1]}).failure == failure
        assert server.process.poll() is None


def test_unexpected_columns_of_a_request_are_refused() -> None:
    with served() as (_, client):
        other = [*INPUTS[:1], TableColumn(name="z", type="BIGINT")]
        assert (
            "unknown column 'z'; expected 'x', 'k'"
            in client.predict({"x": [[1, 2, 3]], "z": [1]}, other).failure.message
        )
        assert "missing the column 'k'" in client.predict({"x": [[1, 2, 3]]}).failure.message


def test_small_requests_of_ten_tasks_share_a_call(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sizes.py").write_text(
        "import os, time\n"
        "def make(folder):\n"
        "    def predict(batch):\n"
        "        with open(folder + '/sizes', 'a') as file:\n"
        "            file.write(f'{len(batch[\"k\"])}\\n')\n"
        "        while not os.path.exists(folder + '/goes_on'):\n"
        "            time.sleep(0.01)\n"
        "        if 13 in batch['k']:\n"
        "            raise ValueError('unlucky')\n"
        "        return batch['k'] / 2\n"
        "    return predict\n"
    )
    inputs, outputs = [TableColumn(name="k", type="BIGINT")], [TableColumn(name="p", type="DOUBLE")]
    serving = Serving(
        model=str(tmp_path),
        function="sizes.py:make",
        function_folder=str(tmp_path),
        user_params=json.dumps({"folder": str(tmp_path)}),
        input_columns=inputs,
        output_columns=outputs,
        infer_timeout=600.0,  # the default of predictors
    )
    sizes = tmp_path / "sizes"
    server = ModelServer(serving, f"unix:{tmp_path}/s", "secret")
    try:
        server.load()
        with futures.ThreadPoolExecutor(10) as tasks:

            def ask(task: int) -> Prediction:
                client = Client(f"unix:{tmp_path}/s")
                with contextlib.closing(client.channel):
                    return client.predict({"k": np.arange(10 * task, 10 * task + 10)}, inputs)

            first = tasks.submit(ask, 0)
            wait_until(lambda: sizes.exists() and sizes.read_text() == "10\n", "the first call")
            others = [tasks.submit(ask, task) for task in range(1, 10)]
            wait_until(lambda: server._calls.rows_waiting() == 90, "nine requests")
            (tmp_path / "goes_on").touch()
            answers = [each.result() for each in (first, *others)]
        assert sizes.read_text().split()[:2] == ["10", "90"]
        for task, answer in enumerate(answers):
            bad = [(row.row, "unlucky" in row.message) for row in answer.bad_rows]
            assert bad == ([(3, True)] if task == 1 else []), "13 is row 3 of task 1"
            cells = decode_columns(answer.rows, outputs)["p"]
            whole = [None if k == 13 else k / 2 for k in range(10 * task, 10 * task + 10)]
            assert list(cells) == whole
    finally:
        server._server.stop(None).wait()


@pytest.mark.fault("security", "A call to a model process without its token is refused")
def test_call_without_the_token_is_refused() -> None:
    with served() as (server, _):
        stranger = Client(server.address, token="guess")
        for ask in (stranger.describe, lambda: stranger.call("Replace", Offer(), Notices)):
            with pytest.raises(grpc.RpcError) as caught:
                ask()
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        stranger.channel.close()


@pytest.mark.fault("network", "Silent and malformed connections do not disturb a model process")
def test_silent_and_malformed_connections_do_not_disturb_other_clients() -> None:
    with served() as (server, client):
        client.describe()  # it listens
        with strangers(server.address):
            assert not client.predict({"x": [[1.0, 1.0, 1.0]], "k": [1]}).HasField("failure")


@pytest.mark.long
def test_newer_models_of_a_folder_take_over(tmp_path: pathlib.Path) -> None:
    rows = {"x": [[1.0, 1.0, 1.0]] * 3, "k": [1, 2, 3]}
    publish(models.scaled(2.0), str(tmp_path))
    notices: list[tuple[int, str]] = []

    def predicts() -> list[float]:
        answer = client.predict(rows)
        assert not answer.bad_rows and not answer.HasField("failure")
        notices.extend((notice.level, notice.text) for notice in answer.notices)
        return decode_columns(answer.rows, OUTPUTS[1:])["p"].tolist()

    options = {"model_stream_file_path": str(tmp_path), "model_stream_scan_interval": 0.1}
    with served(model=models.scaled(1.0), output_columns=OUTPUTS[1:], **options) as (
        server,
        client,
    ):
        assert predicts() == [6.0] * 3, "the one that is there at the start, from the first row on"
        newest = publish(models.scaled(3.0), str(tmp_path))
        wait_until(lambda: predicts() == [9.0] * 3, "the new model has taken over")
        misfit = publish(models.scaled(3.0, output="q"), str(tmp_path))
        wait_until(lambda: predicts() == [9.0] * 3 and len(notices) > 2, "the misfit is refused")
        assert [level for level, _ in notices] == [logging.INFO, logging.INFO, logging.ERROR]
        assert f"the model {os.path.basename(newest)} took over from the model " in notices[1][1]
        assert misfit in notices[2][1] and "no output 'p'" in notices[2][1]
        answer = client.call("Replace", Offer(model=models.scaled(4.0), name="four"), Notices)
        assert "the model four took over" in answer.notices[0].text and predicts() == [12.0] * 3
        answer = client.call(
            "Replace", Offer(model=str(tmp_path / "nothing"), name="nothing"), Notices
        )
        assert (
            "the model nothing is refused: " in answer.notices[0].text and predicts() == [12.0] * 3
        )
        assert server.hang_up() == 0
        assert os.listdir(server.folder) == []


@pytest.mark.fault("jobs", "A model process ends with its killed parent")
def test_model_server_ends_when_its_parent_is_killed() -> None:
    """test -> parent (killed) -> server."""
    serving = Serving(model=models.module(), input_columns=INPUTS, output_columns=OUTPUTS)
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        code = (
            "import sys, time; from akdl.wire import Serving; from google.protobuf import json_format\n"
            "from tests.akdl.serving.test_model_server import Server\n"
            f"server = Server(json_format.Parse({json_format.MessageToJson(serving)!r}, Serving()), {folder!r}, sys.executable)\n"
            "print(server.process.pid, flush=True); time.sleep(100)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        client = Client(f"unix:{folder}/model.sock")
        client.describe()
        client.channel.close()
        parent.kill()
        parent.wait(DEADLINE_S)
        parent.stdout.close()

        def gone() -> bool:
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"
            except FileNotFoundError:
                return True

        wait_until(gone, "the server has ended")
        assert os.listdir(folder) == []


def test_work_folder_is_kept_while_another_process_is_about_to_join() -> None:
    """Else what the next process of the same job has put there would go with this one."""
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        work = pathlib.Path(folder, "work")
        server = Server(Serving(), folder, AKDL_WORK_DIR=str(work))
        with locked(str(work)):
            Client(server.address).describe()
            os.close(server.pipe)
            wait_until(lambda: not os.path.exists(f"{folder}/model.sock"), "the server cleans up")
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(0.5)
            assert work.is_dir()
        assert server.process.wait(DEADLINE_S) == 0
        assert not work.exists()
