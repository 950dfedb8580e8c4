"""How processes of ours import TensorFlow, which is a small module of that name here."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tensorflow.py").write_text("import gc\nwas_enabled = gc.isenabled()\nstay = [[] for _ in range(10)]\n")
    return tmp_path


def run(folder: Path, text: str) -> list[str]:
    path = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]"
    command = [sys.executable, "-c", f"{path}\n{textwrap.dedent(text)}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_garbage_collector_leaves_it_alone_and_not_what_comes_later(folder: Path) -> None:
    said = run(
        folder,
        """
        import gc
        from akdl.serving.tensorflow_import import import_tensorflow
        import_tensorflow()
        import tensorflow
        later = []
        collected = gc.get_objects()
        print([any(each is one for each in collected) for one in (tensorflow.stay, later)])
        print(tensorflow.was_enabled, gc.isenabled())
        """,
    )
    assert said == ["[False, True]", "False True"]


def test_where_it_was_imported_before_nothing_changes(folder: Path) -> None:
    """So it is in the tests, and wherever a program calls what these processes call."""
    said = run(
        folder,
        """
        import gc
        import tensorflow
        from akdl.serving.tensorflow_import import import_tensorflow
        before = gc.get_freeze_count()  # Python 3.12 itself freezes some
        import_tensorflow()
        print(gc.get_freeze_count() - before)
        """,
    )
    assert said == ["0"]


def test_an_error_of_the_import_leaves_the_collector_at_work(folder: Path) -> None:
    (folder / "tensorflow.py").write_text("1 / 0")
    said = run(
        folder,
        """
        import gc
        from akdl.serving.tensorflow_import import import_tensorflow
        before = gc.get_freeze_count()
        try:
            import_tensorflow()
        except ZeroDivisionError:
            print(gc.isenabled(), gc.get_freeze_count() - before)
        """,
    )
    assert said == ["True 0"]
