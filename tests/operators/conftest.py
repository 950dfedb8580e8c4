"""Fixtures of the tests of operators."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from pyflink.table import StreamTableEnvironment

from operators import BatchOperator, MLEnv, TableSourceBatchOp, resetEnv, useLocalEnv

PEOPLE = "(VALUES (1, 'ann', 0.5), (2, 'bob', 1.5), (3, CAST(NULL AS STRING), 2.5)) AS v(id, name, score)"


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(1)
    resetEnv()


@pytest.fixture(scope="module")
def table_env(env: MLEnv) -> StreamTableEnvironment:
    return env.btenv


@pytest.fixture
def people(table_env: StreamTableEnvironment) -> TableSourceBatchOp:
    return BatchOperator.fromTable(table_env.sql_query(f"SELECT * FROM {PEOPLE}"))


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Files of a user, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "main.py": "def main(config): pass\n",
        "words.txt": "żółć",
        "lib/deep/helper.py": "X = 1\n",
        "lib/data.bin": "\0",
        "lib/__pycache__/helper.pyc": "",
        "other/main.py": "def main(config): return 1\n",
        "broken.py": "x = 1\ndef main(:\n",
        "odd_escape.py": "PATTERN = '\\d'\n",
        "train/data.csv": "1",
        "test/data.csv": "2",
        "copy/data.csv": "1",
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return tmp_path
