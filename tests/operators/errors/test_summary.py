"""Texts of failures in few lines. The files beside this one hold what failed jobs really said."""

from __future__ import annotations

import pathlib

import pytest

from operators.errors.summary import LINES, Frame, shortened, summary_of

FAILURES = pathlib.Path(__file__).with_name("failures")
WORK = "/tmp/akdl-0123456789ab"
TRACED = f"""Op, chief 0 (s.py): the script failed: KeyError: 'scor'
Traceback (most recent call last):
  File "{WORK}/s.py", line 6, in main
    large = helper(rows)
            ^^^^^^^^^^^^
  File "{WORK}/lib/parts.py", line 2, in helper
    return rows["scor"] > 1
           ~~~~^^^^^^^^
KeyError: 'scor'
--- last lines of the process ---
kept 2 of 4"""


@pytest.mark.parametrize("path", sorted(FAILURES.glob("*.txt")), ids=lambda path: path.stem)
def test_summaries_of_all_failures_are_short(path: pathlib.Path) -> None:
    shown = summary_of(path.read_text())
    assert len(shown.splitlines()) <= LINES
    noise = ("site-packages", "akdl/entry.py", "^^", "JAX has removed")
    assert [each for each in noise if each in shown] == []


def test_an_error_of_python_has_its_message_once_and_the_lines_of_the_script() -> None:
    assert summary_of(TRACED).splitlines() == [
        "Op, chief 0 (s.py): the script failed: KeyError: 'scor'",
        '  File "s.py", line 6, in main',
        "    large = helper(rows)",
        '  File "lib/parts.py", line 2, in helper',
        '    return rows["scor"] > 1',
    ]


def test_summary_of_a_wrong_shape_shows_message_and_line() -> None:
    assert summary_of((FAILURES / "keras_fit.txt").read_text()).splitlines()[:3] == [
        'TensorFlow2BatchOp, chief 0 (keras_fit.py): the script failed: ValueError: Input 0 of layer "sequential" is incompatible '
        "with the layer: expected shape=(None, 3), found shape=(None, 2)",
        '  File "keras_fit.py", line 10, in main',
        "    model.fit(x, y, verbose=0)",
    ]


def test_an_error_inside_a_graph_names_the_function_that_made_the_node() -> None:
    assert summary_of((FAILURES / "graph_loss.txt").read_text()).splitlines()[:4] == [
        "TensorFlow2BatchOp, chief 0 (graph_loss.py): the script failed: InvalidArgumentError: Input to reshape is a tensor with 8 "
        "values, but the requested shape has 24",
        '  File "graph_loss.py", line 10, in main',
        "    model.fit(tf.ones([8, 2]), tf.ones([8, 1]), verbose=0)",
        '  File "graph_loss.py", line 4, in loss',
    ]


def test_cause_of_an_error_is_one_line() -> None:
    lines = summary_of((FAILURES / "chained.txt").read_text()).splitlines()
    assert (
        lines[0].endswith("RuntimeError: the config has no path")
        and lines.count("Caused by: KeyError: 'path'") == 1
    )
    assert '    raise RuntimeError("the config has no path") from error' in lines


def test_the_last_lines_of_a_process_stand_for_a_traceback() -> None:
    lines = summary_of((FAILURES / "killed.txt").read_text()).splitlines()
    assert lines[1:6] == [
        "last lines of the process:",
        "  step 26",
        "  step 27",
        "  step 28",
        "  step 29",
    ]
    assert (
        lines[-1].startswith("(25 more lines: in the error's `details`, ")
        and "AKDL_TRACEBACK=full" in lines[-1]
    )


def test_a_python_function_of_the_user_is_shown_without_beam() -> None:
    assert summary_of((FAILURES / "udf.txt").read_text()).splitlines()[:2] == [
        "Flink: a Python function of the job failed: ValueError: bad value 1",
        '  File "/home/user/job.py", line 16, in f',
    ]


def test_a_standstill_shows_the_group_and_where_the_script_stands() -> None:
    text = (
        "Op, chief 0 (s.py): no process of the group has made progress for 60 s\n--- the group ---\nchief 0: running\n"
        f'worker 0: running\n--- where chief 0 stands ---\nThread 1 (most recent call first):\n  File "/usr/lib/python3.11/t.py", '
        f'line 5 in sleep\n  File "{WORK}/s.py", line 3 in main\n'
    )
    assert summary_of(text).splitlines() == [
        "Op, chief 0 (s.py): no process of the group has made progress for 60 s",
        "the group:",
        "  chief 0: running",
        "  worker 0: running",
        "where chief 0 stands:",
        '  File "s.py", line 3, in main',
    ]


def test_a_text_of_six_megabytes_keeps_its_head_and_its_tail() -> None:
    shown = summary_of("ValueError: begin" + "x" * 6_000_000 + "end")
    assert (
        len(shown) < 2_000
        and "begin" in shown
        and "end\n" in shown
        and "characters left out" in shown
    )
    shown = summary_of("\n".join(f"line {number}" for number in range(600_000)))
    assert (
        shown.startswith("line 0\n") and "line 599999" in shown and len(shown.splitlines()) <= LINES
    )


def test_the_first_and_the_last_of_many_calls_are_shown() -> None:
    calls = [Frame("/home/s.py", number, "f") for number in range(9)]
    assert [line for frame in shortened(calls) for line in frame] == [
        '  File "/home/s.py", line 0, in f',
        "  ... 6 more ...",
        '  File "/home/s.py", line 7, in f',
        '  File "/home/s.py", line 8, in f',
    ]


@pytest.mark.parametrize(
    ("path", "is_the_users"),
    [
        (f"{WORK}/s.py", True),
        (f"{WORK}/operators/mine.py", True),
        (f"{WORK}/.akdl/lib/akdl/entry.py", False),
        (f"{WORK}/tmp/__autograph_generated_fileab.py", False),
        ("/home/user/job.py", True),
        ("/venv/lib/python3.11/site-packages/keras/src/engine/training.py", False),
        ("/home/user/akdl/bridge/member/member.py", False),
        ("apache_beam/runners/worker/operations.py", False),
        ("<frozen runpy>", False),
    ],
)
def test_frames_of_the_user_are_told_apart_from_those_of_libraries(
    path: str, is_the_users: bool
) -> None:
    assert Frame(path, 1, "f").is_the_users is is_the_users
