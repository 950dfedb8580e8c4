"""Where files of the user's lie."""

from __future__ import annotations

from operators.errors.summary import note_source_path, source_path, summary_of

TEXT = """Op, chief 0 (train_origins.py): the script failed: KeyError: 'x'
Traceback (most recent call last):
  File "/tmp/akdl-0123456789ab/lib_origins/train.py", line 3, in main
    rows["x"]
KeyError: 'x'
"""


def test_a_frame_names_the_place_that_the_user_knows() -> None:
    assert '  File "lib_origins/train.py", line 3, in main' in summary_of(TEXT)
    # neither a library nor akdl
    note_source_path("lib_origins/train.py", "/home/you/akdl/lib/python3/train.py")
    assert (
        '  File "/home/you/akdl/lib/python3/train.py", line 3, in main\n    rows["x"]'
        in summary_of(TEXT)
    )


def test_file_with_several_origins_keeps_its_short_name() -> None:
    for origin in ("/a/same_origins.py", "/b/same_origins.py", "/b/same_origins.py"):
        note_source_path("same_origins.py", origin)
    assert source_path("same_origins.py") == "same_origins.py"
