"""Which one of several on a host lets its model process go over to another model."""

from __future__ import annotations

import os
import threading

import pytest

from bridge.exceptions import TaskError
from bridge.serving import model_delivery
from bridge.serving.model_delivery import take_turn


def test_one_of_an_attempt_acts(tmp_path):
    path = str(tmp_path / "delivery")
    first = take_turn(path, 10)
    assert first is not None and take_turn(path, 10) is None
    os.close(first)
    second = take_turn(path, 10)
    assert second is not None
    os.close(second)


def test_the_end_of_an_earlier_attempt_is_waited_for(tmp_path):
    path = str(tmp_path / "delivery")
    earlier = take_turn(path, 10)
    assert earlier is not None
    found = []
    waiting = threading.Thread(target=lambda: found.append(take_turn(path, 9)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    os.close(earlier)
    waiting.join(30)
    (later,) = found
    assert later is not None and take_turn(path, 9) is None
    os.close(later)


def test_an_earlier_attempt_that_does_not_end_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(model_delivery, "_EARLIER_S", 0.1)
    path = str(tmp_path / "delivery")
    earlier = take_turn(path, 0)
    assert earlier is not None
    with pytest.raises(TaskError, match="still locked by an earlier attempt"):
        take_turn(path, 1)
    os.close(earlier)
