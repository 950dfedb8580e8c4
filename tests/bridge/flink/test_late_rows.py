"""Sentences about rows that were late; that they are counted is shown in tests/e2e/test_event_time.py."""

from __future__ import annotations

from bridge.flink.late_rows import late_counter, late_rows


def test_only_late_rows_are_told_of() -> None:
    own, carried = late_counter("AnOp", "a.py", "t", False), late_counter("AnOp", "a.py", "u", True)
    assert list(late_rows({own: 0, "numRecords": 7, "[1]": 8})) == []
    (first, second) = late_rows({own: 1234, carried: 5})
    assert first.startswith("AnOp (a.py): 1,234 rows arrived behind the watermark of 't', so windows")
    assert "WATERMARK FOR t AS SOURCE_WATERMARK() uses the watermarks of the input" in first
    assert "5 rows arrived behind the watermark of 'u'" in second and "the script wrote other times than it read" in second
