"""What a script writes, up to the messages that leave its process."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl.process.channel import ChannelError
from akdl.runner import output_writer
from akdl.runner.output_writer import OutputWriter
from akdl.wire import Example, Output, TableColumn
from akdl.wire.columns import decode_columns
from tests.support.leftovers import wait_until

COLUMNS = [
    TableColumn(name="x", type="BIGINT"),
    TableColumn(name="s", type="STRING"),
    TableColumn(name="d", type="DATE"),
]


class Channel:
    """Keeps messages instead of sending them."""

    def __init__(self, error: ChannelError | None = None) -> None:
        self.outputs = []
        self._error = error

    def write(self, outputs: Example) -> None:
        for output in outputs:
            self.outputs.append(Output.FromString(output.SerializeToString()))
            if self._error is not None:
                raise self._error

    def cells(self, name: str = "x") -> list[Any]:
        """The cells of a column in each message; the number of rows of a commit."""
        return [
            output.cut
            or list(decode_columns(output.rows, COLUMNS).get(name, [None] * output.rows.rows))
            for output in self.outputs
        ]


@pytest.fixture
def channel() -> Channel:
    return Channel()


def row(x: float, s: bytes = b"text", kind: str = "int64_list") -> Example:
    made = Example()
    getattr(made.features.feature["x"], kind).value.append(x)
    made.features.feature["s"].bytes_list.value.append(s)
    return made


def test_rows_batches_and_commits_keep_their_order(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.write(row(1))
    writer.write(row(2))
    writer.write_batch({"x": np.array([3, 4])})
    writer.write(row(5))
    writer.cut(7, at_once=True)
    writer.write(row(6))
    assert writer.rows_written == 6
    writer.close()
    assert channel.cells() == [[1, 2], [3, 4], [5], 7, [6]]
    names = [[column.name for column in output.rows.columns] for output in channel.outputs]
    assert names == [["x", "s"], ["x"], ["x", "s"], [], ["x", "s"]]
    assert not channel.outputs[3].HasField("rows")
    writer.close()
    assert len(channel.outputs) == 5


def test_message_is_sent_when_it_is_large(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "MESSAGE_BYTES", 1000)
    writer = OutputWriter(channel, COLUMNS)
    for number in range(10):
        writer.write(row(number, b"x" * 400))
    writer.close()
    assert channel.cells() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_waiting_row_is_sent_after_the_waiting_time(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS, wait_s=0.01)
    writer.write(row(1))
    wait_until(lambda: channel.cells() == [[1]], "the row has waited long enough")
    writer.write(row(2))
    wait_until(lambda: channel.cells() == [[1], [2]], "the next one, too")
    writer.close()
    assert len(channel.outputs) == 2


def test_the_last_cut_leaves_though_no_row_follows_it(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.write(row(1))
    writer.cut(3)
    writer.close()
    assert channel.cells() == [[1], 3]


def test_cut_follows_all_rows_written_before_it(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS, wait_s=0.01)
    writer.write(row(1))
    writer.cut(3)
    writer.cut(3)
    wait_until(
        lambda: channel.outputs and channel.outputs[-1].cut == 3,
        "the cut is sent without a further row",
    )
    assert [output.rows.rows for output in channel.outputs] == [1, 0] and not channel.outputs[0].cut
    writer.write(row(2))
    writer.cut(5)
    writer.write_batch({"x": [3]})
    writer.cut(7, state=b"weights")
    writer.close()
    assert [(output.rows.rows, output.cut, output.state) for output in channel.outputs[2:]] == [
        (1, 0, b""), (1, 5, b""), (0, 7, b"weights")
    ], "the cut of 5 rows precedes the row that was written after it"  # fmt: skip
    writer.cut(9)
    assert len(channel.outputs) == 5, (
        "TensorFlow asks for another batch after the end of the script"
    )


def test_flush_sends_waiting_rows(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.flush()
    writer.write(row(1))
    writer.flush()
    wait_until(lambda: channel.cells() == [[1]], "the row is sent")
    writer.close()


def test_a_wrong_row_is_refused_at_once_and_the_others_go_on(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.write(row(1))
    writer.write_batch({"x": [2, 3]})
    with pytest.raises(TypeError) as caught:
        writer.write(row(0.5, kind="float_list"))
    assert str(caught.value) == (
        "output_writer.write: row 3: column 'x' (BIGINT): expected an int64_list with 1 value, got a float_list with 1 value"
    )
    with pytest.raises(TypeError, match="column 'x'"):
        writer.write_batch({"x": ["a"]})
    writer.write(row(4))
    assert writer.rows_written == 4
    writer.close()
    assert channel.cells() == [[1], [2, 3], [4]]


@pytest.mark.fault("scripts")
def test_a_large_batch_is_sent_in_parts(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_writer, "BATCH_BYTES", 10_000)
    writer = OutputWriter(channel, COLUMNS)
    texts = ["x"] * 1000 + ["y" * 300] * 1000
    writer.write_batch({"x": np.arange(2000), "s": texts})
    writer.close()
    assert writer.rows_written == 2000
    assert [x for cells in channel.cells() for x in cells] == list(range(2000))
    assert [s.decode() for cells in channel.cells("s") for s in cells] == texts
    assert max(output.ByteSize() for output in channel.outputs) < 25_000


def test_large_frame_of_pandas_keeps_its_nulls_and_order(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "BATCH_BYTES", 10_000)
    numbers = [None if number % 3 == 0 else number for number in range(2000)]
    texts = [None if number % 5 == 0 else "y" * 30 for number in range(2000)]
    # Labels that do not count the rows.
    frame = pd.DataFrame(
        {"x": pd.array(numbers, "Int64"), "s": pd.array(texts, "string")},
        index=np.arange(2000, 0, -1) / 2,
    )
    writer = OutputWriter(channel, COLUMNS)
    writer.write_batch(frame)
    writer.close()
    assert len(channel.outputs) > 5
    assert [x for cells in channel.cells() for x in cells] == numbers
    found = [s and s.decode() for cells in channel.cells("s") for s in cells]
    assert found == texts


@pytest.mark.fault("scripts")
def test_a_large_batch_with_a_wrong_cell_is_refused_as_a_whole(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "BATCH_BYTES", 1000)
    writer = OutputWriter(channel, COLUMNS)
    with pytest.raises(TypeError, match="column 'x'"):
        writer.write_batch({"x": [*range(2000), "a"]})
    with pytest.raises(ValueError, match="different numbers of rows"):
        writer.write_batch({"x": range(100), "s": ["x"] * 101})
    writer.close()
    assert channel.outputs == [] and writer.rows_written == 0


def test_nothing_is_written_after_the_end(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.write(row(1))
    writer.close()
    assert not writer.has_refused
    for write in (
        lambda: writer.write(row(2)),
        lambda: writer.write_batch({"x": [3]}),
        lambda: writer.cut(1, at_once=True),
    ):
        with pytest.raises(RuntimeError, match="the script's main has returned"):
            write()
    assert writer.has_refused and writer.rows_written == 1
    assert channel.cells() == [[1]]


def test_dates_may_be_numbers_or_texts(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    for kind, value in [
        ("int64_list", 1),
        ("int64_list", 2),
        ("bytes_list", b"2024-02-29"),
        ("int64_list", 3),
    ]:
        made = Example()
        getattr(made.features.feature["d"], kind).value.append(value)
        writer.write(made)
    writer.write(Example())
    writer.close()
    assert channel.cells("d") == [[1, 2], [b"2024-02-29"], [3, None]]


def test_rows_without_cells_are_counted(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS)
    writer.write(Example())
    writer.write(Example())
    writer.close()
    assert [(output.rows.rows, len(output.rows.columns)) for output in channel.outputs] == [(2, 0)]


def test_several_threads_write_each_row_once_in_their_own_order(channel: Channel) -> None:
    writer = OutputWriter(channel, COLUMNS, wait_s=0.001)

    def write(start: int) -> None:
        for number in range(start, start + 500):
            writer.write(row(number))

    threads = [threading.Thread(target=write, args=(1000 * place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    numbers = [number for cells in channel.cells() for number in cells]
    assert writer.rows_written == len(numbers) == 2000
    assert sorted(numbers) == sorted(
        number for place in range(4) for number in range(1000 * place, 1000 * place + 500)
    )
    for place in range(4):
        own = [number for number in numbers if number // 1000 == place]
        assert own == sorted(own)


def test_broken_channel_is_an_error_of_write_and_close() -> None:
    writer = OutputWriter(Channel(ChannelError("broken")), COLUMNS)
    writer.write_batch({"x": [1]})

    def refuses() -> bool:
        try:
            writer.write_batch({"x": [2]})
        except ChannelError:
            return True
        return False

    wait_until(refuses, "the line is broken")
    with pytest.raises(ChannelError, match="broken"):
        writer.write_batch({"x": [2]})
    with pytest.raises(ChannelError, match="broken"):
        writer.close()


def test_batch_beyond_the_kept_bytes_is_encoded_twice_and_written_once(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "BATCH_BYTES", 1000)
    monkeypatch.setattr(output_writer, "KEPT_BYTES", 5000)
    writer = OutputWriter(channel, COLUMNS)
    writer.write_batch({"x": np.arange(2000)})
    with pytest.raises(TypeError, match="column 'x'"):
        writer.write_batch({"x": [*range(2000), "a"]})
    writer.close()
    assert [x for cells in channel.cells() for x in cells] == list(
        range(2000)
    ) and writer.rows_written == 2000


_MUCH = """
import numpy as np
from akdl.runner.output_writer import OutputWriter
from akdl.wire import TableColumn

class Channel:
    def write(self, outputs):
        self.rows = sum(output.rows.rows for output in outputs if output.SerializeToString())

def peak_mb():  # of this program alone: getrusage counts the memory of who started it
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024

channel = Channel()
writer = OutputWriter(channel, [TableColumn(name="x", type="DOUBLE")])
values = np.arange(20_000_000, dtype="f8")
before = peak_mb()
writer.write_batch({"x": values})
writer.close()
print(channel.rows, int(peak_mb() - before))
"""


@pytest.mark.process
@pytest.mark.fault("scripts", "Writing a batch of millions of rows takes little further memory")
def test_a_batch_of_millions_of_rows_takes_little_memory_beside_itself() -> None:
    done = subprocess.run([sys.executable, "-c", _MUCH], check=True, capture_output=True, text=True)
    rows, more_mb = map(int, done.stdout.split())
    assert rows == 20_000_000
    assert more_mb < 60  # as messages they have 160 MB, and were all there at once before
