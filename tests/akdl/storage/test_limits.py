"""Limits on what is read whole."""

from __future__ import annotations

import io

import pytest

from akdl.storage.limits import TEXT, LimitError


def test_limit_reads_what_fits_and_refuses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AKDL_TEXT_MB", "0.00001")  # 10 bytes
    assert TEXT.read(io.BytesIO(b"0123456789")) == b"0123456789"
    file = io.BytesIO(bytes(1000))
    with pytest.raises(
        LimitError,
        match="it has more than 10 bytes; if you trust it, set AKDL_TEXT_MB to a higher number of MB",
    ):
        TEXT.read(file)
    assert file.tell() == 11


@pytest.mark.parametrize("text", ["", "much", "nan", "inf"])
def test_limit_that_is_not_a_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AKDL_TEXT_MB", text)
    with pytest.raises(LimitError, match=f"AKDL_TEXT_MB: expected a number of MB, got '{text}'"):
        TEXT.check(1)
