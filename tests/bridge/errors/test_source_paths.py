"""Where files of the user's lie."""

from __future__ import annotations

from bridge.errors.source_paths import note_origin, origin_of
from bridge.errors.summary import brief

TEXT = """Op, chief 0 (train_origins.py): the script failed: KeyError: 'x'
Traceback (most recent call last):
  File "/tmp/akdl-0123456789ab/lib_origins/train.py", line 3, in main
    rows["x"]
KeyError: 'x'
"""


def test_a_frame_names_the_place_that_the_user_knows() -> None:
    assert '  File "lib_origins/train.py", line 3, in main' in brief(TEXT)
    note_origin("lib_origins/train.py", "/home/you/akdl/lib/python3/train.py")  # no library, and none of ours
    assert '  File "/home/you/akdl/lib/python3/train.py", line 3, in main\n    rows["x"]' in brief(TEXT)


def test_of_several_places_none_is_named() -> None:
    for origin in ("/a/same_origins.py", "/b/same_origins.py", "/b/same_origins.py"):
        note_origin("same_origins.py", origin)
    assert origin_of("same_origins.py") == "same_origins.py"
