"""The generated messages are in step with proto/, and with tf.train.Example."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from akdl.wire import Example

ROOT = pathlib.Path(__file__).parents[3]


def test_generated_code_is_in_step_with_the_proto_files(tmp_path: pathlib.Path) -> None:
    # In a process of its own: on Python 3.12 the compiler crashes beside TensorFlow and pyarrow.
    subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "scripts" / "build_proto.py", tmp_path], check=True
    )
    for made in (tmp_path / "akdl" / "wire").iterdir():
        assert made.read_text() == (ROOT / "akdl" / "wire" / made.name).read_text(), (
            f"run make proto: {made.name} is stale"
        )


@pytest.mark.tf
def test_our_example_message_equals_that_of_tensorflow() -> None:
    import tensorflow as tf

    theirs = tf.train.Example()
    theirs.features.feature["a"].int64_list.value.extend([1, -1])
    theirs.features.feature["b"].float_list.value.append(0.5)
    theirs.features.feature["c"].bytes_list.value.append(b"x")
    ours = Example.FromString(theirs.SerializeToString())
    assert tf.train.Example.FromString(ours.SerializeToString()) == theirs
