"""What travels with a job is given to Flink once; our own packages do so from wherever they are
installed.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.shipped import path_on_host, ship, ship_own_packages
from tests.support.installs import wheel
from tests.support.leftovers import DEADLINE_S

# Prints from where our packages were imported, and the files that travel with a job.
DRIVER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import bridge, bridge.host.shipped

class TableEnv:
    def get_config(self):
        return {"execution.target": "embedded"}

    def add_python_file(self, folder):
        files = [os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names]
        print(json.dumps([bridge.__file__, files]))

bridge.host.shipped.ship_own_packages(TableEnv())
"""


class TableEnv:
    """As much of a table environment as is asked for."""

    def __init__(self, **config: str) -> None:
        self.config = {key.replace("_", "."): value for key, value in config.items()}

    def get_config(self) -> dict[str, str]:
        return self.config

    def add_python_file(self, path: str) -> None:
        self.config["python.files"] = ",".join(
            filter(None, [path, self.config.get("python.files", "")])
        )


@pytest.mark.process
@pytest.mark.parametrize("installed", ["as a file", "as a folder"])
def test_own_packages_are_sent_from_where_they_are_installed(
    tmp_path: pathlib.Path, installed: str
) -> None:
    with zipfile.ZipFile(wheel()) as archive:
        archive.extractall(tmp_path)
        ours = {
            name
            for name in archive.namelist()
            if name.startswith(("akdl/", "bridge/", "operators/"))
        }
    place = str(wheel() if installed == "as a file" else tmp_path)
    # -S: nothing but Python and that place
    command = [sys.executable, "-I", "-S", "-B", "-c", DRIVER, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * DEADLINE_S)
    assert done.returncode == 0, done.stderr
    origin, files = json.loads(done.stdout)
    assert origin == os.path.join(place, "bridge", "__init__.py")
    assert set(files) == ours and len(ours) > 100


def test_shipped_file_is_added_once_to_the_files_of_the_user() -> None:
    table_env = TableEnv(execution_target="remote", python_files="/user.py")
    for _ in range(2):
        ship(table_env, "/akdl_env_1")
        ship_own_packages(table_env)
    own, env, user = table_env.config["python.files"].split(",")
    assert sorted(os.listdir(own)) == ["akdl", "bridge", "operators"] and (env, user) == (
        "/akdl_env_1",
        "/user.py",
    )


@pytest.mark.parametrize("config", [{}, {"execution_target": "local"}])
def test_no_files_are_sent_in_a_local_run(config: dict[str, str]) -> None:
    table_env = TableEnv(**config)
    ship(table_env, "/akdl_env_1")
    ship_own_packages(table_env)
    assert "python.files" not in table_env.config


def test_path_on_host_finds_a_shipped_file_by_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "akdl_env_1").write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "akdl_env_1")])
    assert path_on_host("/driver/akdl_env_1") == str(tmp_path / "akdl_env_1")
    assert path_on_host("/driver/akdl_env_2") == "/driver/akdl_env_2"


def test_files_that_would_hide_ours_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bridge.py").touch()
    config = {"execution_target": "remote", "python_files": str(tmp_path)}
    with pytest.raises(
        ConfigurationError,
        match=r"^python\.files: \S+/bridge\.py would be shipped with the job and hide",
    ):
        ship_own_packages(TableEnv(**config))
    ship_own_packages(TableEnv(**{**config, "execution_target": "local"}))  # then nothing travels
