"""Requests to akdl serve: `python benchmarks/rest.py [--rounds N] [--folder FOLDER]`.

A dense model (100 numbers in; 64, 32 and 3 units), one row a request, from 1 and 16 clients with a
connection each. The limit is the same model in this process, called for one row after the other.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from report import Figure, arguments, report
from serving import WIDTH, local, save_model, times

CLIENTS = (1, 16)
SECONDS = 1.0  # of requests in each round
LIMIT = "LocalPredictor in this process"


def main() -> None:
    """Measure and report."""
    given = arguments()
    row = np.random.default_rng(0).normal(size=WIDTH).astype("f4").tolist()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        save_model(model)
        predict = local(model)
        command = [sys.executable, "-m", "akdl", "serve", model, "--port", "0"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
            ThreadPoolExecutor(max(CLIENTS)) as pool,
        ):
            assert server.stdout
            port = int(server.stdout.readline().rsplit(":", 1)[1].partition("/")[0])
            rounds: list[dict[int, list[float]]] = []
            for _ in range(given.rounds):
                found = {0: times(lambda: predict([(row,)]))}
                for clients in CLIENTS:
                    found[clients] = sum(pool.map(asked, [port] * clients, [row] * clients), [])
                rounds.append(found)
            server.terminate()
    figures = []
    for clients in CLIENTS:
        rates = [len(each[clients]) / SECONDS for each in rounds]
        alone = [len(each[0]) / sum(each[0]) for each in rounds]
        figures.append(Figure(f"{clients} clients, requests", "rows/s", rates, alone, LIMIT, None))
        p99, limits = (
            [1000 * statistics.quantiles(each[who], n=100)[-1] for each in rounds]
            for who in (clients, 0)
        )
        figures.append(Figure(f"{clients} clients, p99", "ms", p99, limits, LIMIT, None))
    report("rest", "Requests over REST", figures, given.folder)


def asked(port: int, row: list[float]) -> list[float]:
    """Return the seconds of each request of one client."""
    connection, body, taken = (
        http.client.HTTPConnection("127.0.0.1", port),
        json.dumps({"instances": [row]}),
        [],
    )
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        started = time.perf_counter()
        connection.request("POST", "/v1/models/model:predict", body)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        taken.append(time.perf_counter() - started)
    connection.close()
    return taken


if __name__ == "__main__":
    main()
