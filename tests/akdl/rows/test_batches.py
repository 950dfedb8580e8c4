"""Batches made of columns are those that a parser makes of the same rows, in order or shuffled."""

from __future__ import annotations

import itertools
import pathlib
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from akdl import features
from akdl.process.channel import ChannelError
from akdl.rows import batches as batches_module
from akdl.rows.batches import RowBatches
from akdl.rows.cell_rows import Ragged, Table, batched, shuffled
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.runner.context import TFContext
from akdl.testing import table_columns
from akdl.wire import Chunk
from akdl.wire.cells import Cells
from tests.akdl.rows.test_file_rows import COLUMNS, Feed
from tests.support.deadline import DEADLINE_S
from tests.support.leftovers import wait_until
from tests.support.random_rows import TYPES, chunk_of, ended, random_cells, rows_of

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
BATCHES = {"x": "FLOAT", "id": "BIGINT"}
DEFAULTS = {"FLOAT": -1.5, "DOUBLE": 0.1, "STRING": "ü", "BYTES": b"\0\1", "DECIMAL(10, 2)": ""}


def plain(ids: Any) -> Chunk:
    return chunk_of({"x": [each / 2 for each in ids], "id": list(ids)}, BATCHES)


def context_of(rows: Any, types: dict[str, str], exact_doubles: bool = False) -> TFContext:
    return TFContext(rows, table_columns(types), exact_doubles)


def file_rows(
    folder: Any, chunks: list[Chunk], types: dict[str, str], exact_doubles: bool = False
) -> FileRows:
    folder.mkdir(exist_ok=True)
    return FileRows(str(folder), ended(chunks), table_columns(types), exact_doubles)


@pytest.fixture
def counted(tmp_path: pathlib.Path) -> TFContext:
    """Rows with the ids 0 to 999, in ten chunks."""
    return context_of(
        file_rows(tmp_path, [plain(range(n, n + 100)) for n in range(0, 1000, 100)], BATCHES),
        BATCHES,
    )


def ids_of(batches: Any) -> list[list[int]]:
    return [batch["id"].numpy().tolist() for batch in batches]


def plain_tensor(tensor: Any) -> Any:
    """Return all that there is to say of a tensor."""
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        parts = [
            part.numpy().tolist() for part in (tensor.indices, tensor.values, tensor.dense_shape)
        ]
        return tensor.dtype, tensor.shape.rank, parts
    return tensor.dtype, tensor.shape.rank, tensor.numpy().tolist()


def random_chunks(null_share: float) -> list[Chunk]:
    """Chunks of all types, some with nulls; one without any rows, and one that lacks the columns
    that are all null.
    """
    random, chunks = np.random.RandomState(3), []
    for number, size in enumerate([50, 0, 90, 1, 60]):
        cells = random_cells(TYPES, size, null_share if number % 2 == 0 else 0, random)
        chunks.append(chunk_of(cells, TYPES))
    if null_share:
        chunks.append(chunk_of({"C0": [True] * 20}, TYPES))
    return chunks


def defaults() -> dict[str, Any]:
    return {
        name: DEFAULTS.get(sql, 7) for name, sql in TYPES.items() if not sql.startswith("ARRAY")
    }


@pytest.mark.parametrize(
    ("exact_doubles", "null_share", "kind"),
    [
        (False, 0.3, FileRows),
        pytest.param(True, 0, StreamRows, marks=pytest.mark.long),
        pytest.param(False, 0, FileRows, marks=pytest.mark.long),
        pytest.param(False, 0, StreamRows, marks=pytest.mark.long),
        pytest.param(False, 0.3, StreamRows, marks=pytest.mark.long),
        pytest.param(True, 0, FileRows, marks=pytest.mark.long),
        pytest.param(True, 0.3, FileRows, marks=pytest.mark.long),
        (True, 0.3, StreamRows),
    ],
)
def test_all_types_are_as_parsed(
    tmp_path: pathlib.Path, exact_doubles: bool, null_share: float, kind: type[Any]
) -> None:
    import tensorflow as tf

    chunks, given = random_chunks(null_share), defaults()
    columns = table_columns(TYPES)
    file = file_rows(tmp_path / "file", chunks, TYPES, exact_doubles).file()
    parsed = features.batches(tf.data.TFRecordDataset(file), 64, columns, exact_doubles, given)
    found = TFContext(
        kind(str(tmp_path), ended(chunks), columns, exact_doubles), columns, exact_doubles
    ).batches(64, given)
    assert {name: (spec.dtype, type(spec)) for name, spec in found.element_spec.items()} == {
        name: (spec.dtype, type(spec)) for name, spec in parsed.element_spec.items()
    }
    assert found.element_spec["C3"].shape.as_list() == [None]
    found, parsed = list(found), list(parsed)
    assert len(found) == len(parsed) >= 4 and set(found[0]) == set(TYPES)
    for one, other in zip(found, parsed):
        for name in TYPES:
            assert plain_tensor(one[name]) == plain_tensor(other[name]), (name, TYPES[name])


@pytest.mark.parametrize("exact_doubles", [False, True])
def test_arrays_have_the_values_of_tensors(tmp_path: pathlib.Path, exact_doubles: bool) -> None:
    """In the same order too, and a mask where `batches` has a default."""
    chunks, given, options = (
        random_chunks(0.3),
        defaults(),
        {"shuffle_rows": 100, "num_epochs": 2, "seed": 7},
    )
    context = context_of(file_rows(tmp_path, chunks, TYPES, exact_doubles), TYPES, exact_doubles)
    found = list(context.arrays(64, given, **options))
    masked, tensors = (
        list(context.arrays(64, masked=True, **options)),
        list(context.batches(64, given, **options)),
    )
    assert len(found) == len(masked) == len(tensors) > 4
    texts = {name for name, sql in TYPES.items() if "STRING" in sql or "DECIMAL" in sql}
    for arrays, nulls, batch in zip(found, masked, tensors):
        for name, array in arrays.items():
            if isinstance(array, Ragged):
                expected, found_values = batch[name].values.numpy(), array.values
                assert (
                    array.offsets.tolist()
                    == np.cumsum(
                        [0, *np.bincount(batch[name].indices[:, 0], minlength=len(arrays["C0"]))]
                    ).tolist()
                )
            else:
                expected, found_values = batch[name].numpy(), array
                is_null = nulls[name] == None if nulls[name].dtype == object else nulls[name].mask  # noqa: E711  of each cell
                assert (
                    is_null.shape == array.shape
                    and (nulls[name][~is_null] == array[~is_null]).all()
                )
                default = np.array([given[name]], array.dtype)[0]
                assert set(array[is_null].tolist()) <= {
                    default.decode() if name in texts and default == b"" else default
                }
            if name in texts:
                expected = [each.decode("utf-8", "replace") for each in expected]
            elif found_values.dtype != object:
                assert found_values.dtype == expected.dtype and not found_values.flags.writeable
            assert found_values.tolist() == (expected if name in texts else expected.tolist()), (
                name,
                TYPES[name],
            )


def test_shuffled_and_repeated_batches_keep_the_cells_of_a_row_together(
    tmp_path: pathlib.Path,
) -> None:
    """Each row stays together: its cells say which it is."""
    ids = [list(range(start, start + 70)) for start in range(0, 700, 70)]
    types = {
        "id": "INT",
        "word": "STRING",
        "many": "ARRAY<BIGINT>",
        "words": "ARRAY<STRING>",
        "maybe": "STRING",
    }

    def chunk(some: list[int]) -> Chunk:
        return chunk_of({
            "id": some, "word": [b"w" * (each % 40) + str(each).encode() for each in some],
            "many": [[each] * (each % 5) for each in some], "words": [[str(each).encode()] * (each % 4) for each in some],
            "maybe": [None if each % 3 else str(each).encode() for each in some],
        }, types)  # fmt: skip

    rows = file_rows(tmp_path, [chunk(some) for some in ids], types)
    seen = []
    for batch in context_of(rows, types).batches(
        48, {"maybe": "none"}, shuffle_rows=200, num_epochs=2
    ):
        lists = {name: [[] for _ in range(len(batch["id"]))] for name in ("many", "words")}
        for name, found in lists.items():
            for (row, _), value in zip(batch[name].indices.numpy(), batch[name].values.numpy()):
                found[row].append(value)
        for row, each in enumerate(batch["id"].numpy().tolist()):
            seen.append(each)
            assert batch["word"].numpy()[row] == b"w" * (each % 40) + str(each).encode()
            assert lists["many"][row] == [each] * (each % 5)
            assert lists["words"][row] == [str(each).encode()] * (each % 4)
            assert batch["maybe"].numpy()[row] == (b"none" if each % 3 else str(each).encode())
    assert sorted(seen) == sorted([*range(700), *range(700)]) and seen[:700] != list(range(700))


def test_a_null_without_a_default_is_an_error_that_names_row_and_column(
    tmp_path: pathlib.Path,
) -> None:
    import tensorflow as tf

    cells = {"x": [0.5] * 50, "y": [0.5] * 50, "id": list(range(50)), "many": [None] * 50}
    types = {"x": "FLOAT", "y": "DOUBLE", "id": "BIGINT", "many": "ARRAY<INT>"}
    chunks = [
        chunk_of(cells, types),
        chunk_of(dict(cells, x=[0.5] * 3 + [None] * 47, y=[0.5] * 4 + [None] * 46), types),
    ]
    context = context_of(file_rows(tmp_path, chunks, types), types)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="row 53 of .* column 'x': expected a value, got null"
    ):
        list(context.batches(64))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="row 54 of .* column 'y': expected a value, got null"
    ):
        list(context.batches(64, {"x": 0}))
    assert len(list(context.batches(64, columns=["id", "many"]))) == 2, (
        "nulls in columns that are not read do not matter"
    )


def test_a_column_that_is_missing_is_null_in_every_row() -> None:
    columns = table_columns({"id": "BIGINT", "x": "FLOAT"})
    message = rows_of({"id": [1, 2]}, {"id": "BIGINT"})
    with pytest.raises(ValueError, match="row 0 of .* column 'x': expected a value, got null"):
        list(RowBatches(columns).tables([message]))
    ((_, cells),) = (
        table.columns for table in RowBatches(columns, defaults={"x": 3}).tables([message])
    )
    assert cells.values.tolist() == [3, 3]


def test_batches_have_only_the_columns_asked_for(counted: TFContext) -> None:
    (batch, *_) = counted.batches(300, columns=["id"])
    assert list(batch) == ["id"] and batch["id"].numpy().tolist() == list(range(300))
    with pytest.raises(ValueError, match="unknown column 'z'; the columns are 'x', 'id'"):
        counted.batches(300, columns=["z"])
    with pytest.raises(ValueError, match="defaults for unknown columns 'z'"):
        counted.batches(300, {"z": 1})


def test_epochs_have_no_break_between_batches(counted: TFContext) -> None:
    found = ids_of(counted.batches(300, num_epochs=2))
    assert [len(ids) for ids in found] == [300] * 6 + [200]
    assert sum(found, []) == list(range(1000)) * 2
    endless = ids_of(counted.batches(300, num_epochs=None).take(8))
    assert sum(endless, []) == (list(range(1000)) * 3)[:2400]


def test_batches_without_rows_end_although_epochs_have_no_end(tmp_path: pathlib.Path) -> None:
    assert (
        list(
            context_of(file_rows(tmp_path, [], BATCHES), BATCHES).batches(
                10, shuffle_rows=5, num_epochs=None
            )
        )
        == []
    )


@pytest.mark.parametrize("shuffle_rows", [2, 64, 5000])
def test_shuffled_batches_have_each_row_once_in_an_order_of_each_epoch(
    counted: TFContext, shuffle_rows: int
) -> None:
    found = np.concatenate(ids_of(counted.batches(64, shuffle_rows=shuffle_rows, num_epochs=2)))
    first, second = found[:1000], found[1000:]
    for once in (first, second):
        assert sorted(once) == list(range(1000)) and once.tolist() != list(range(1000))
        # A row leaves the buffer after it has come, with others of its chunk.
        assert (once - np.arange(1000)).max() < shuffle_rows + 100
    assert first.tolist() != second.tolist()


def test_a_seed_makes_the_order_the_same_again(counted: TFContext) -> None:
    import tensorflow as tf

    def order(seed: int) -> list[list[int]]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.set_random_seed(seed)
            batch = tf.compat.v1.data.make_one_shot_iterator(
                counted.batches(250, shuffle_rows=500)
            ).get_next()["id"]
            return [session.run(batch).tolist() for _ in range(4)]

    first, again, other = order(1), order(1), order(2)
    assert first == again != other


@pytest.mark.parametrize(
    "make",
    [
        lambda context: context.batches(10),
        lambda context: features.batches(context.flink_stream_dataset(), 10, context.columns),
    ],
    ids=["columns", "parsed"],
)
def test_rows_of_a_stream_are_finished_chunk_by_chunk(
    tmp_path: pathlib.Path, make: Callable[..., Any]
) -> None:
    """TensorFlow would read ahead by itself, and `commit` would speak of rows that the script has
    not got.
    """
    feed = Feed()
    rows = StreamRows(str(tmp_path), feed, COLUMNS)
    try:
        batches = iter(make(TFContext(rows, COLUMNS)))
        feed.chunk(*range(15))
        assert next(batches)["id"].numpy().tolist() == list(range(10))
        assert not threading.Event().wait(0.2) and (rows.taken, rows.passed) == (15, 0)
        feed.chunk(*range(15, 20))
        assert next(batches)["id"].numpy().tolist() == list(range(10, 20))
        assert not threading.Event().wait(0.2) and (rows.taken, rows.passed) == (20, 15)
    finally:
        feed.end()  # or TensorFlow waits for ever, when it ends the iterator
    assert list(batches) == [] and rows.passed == 20


@pytest.mark.parametrize(("shuffled", "told"), [(0, [10, 25]), (12, [])])
def test_rows_of_unfilled_batches_and_shuffle_buffers_are_not_finished(
    tmp_path: pathlib.Path, shuffled: int, told: list[int]
) -> None:
    """Nor those of a buffer that shuffles them: the script has got others."""
    feed, found = Feed(), []
    rows = StreamRows(str(tmp_path), feed, COLUMNS)
    rows.on_finished = found.append
    for first, end in ((0, 15), (15, 25)):
        feed.chunk(*range(first, end))
    feed.end()
    got: list[int] = []
    for batch in TFContext(rows, COLUMNS).batches(10, shuffle_rows=shuffled):
        got += batch["id"].numpy().tolist()
        if not shuffled:
            assert sum(found[-1:]) <= len(got) - len(batch["id"]), (
                "the script has not come back yet"
            )
    assert sorted(got) == list(range(25))
    assert found[-1:] == told[-1:] and set(found) <= {10, 20, 25}


def test_batches_that_were_handed_over_are_not_kept_in_memory(tmp_path: pathlib.Path) -> None:
    types = {"text": "STRING"}
    context = context_of(
        file_rows(tmp_path, [chunk_of({"text": [b"x" * 10_000_000]}, types)] * 2, types), types
    )
    assert context.rows.length() == 2
    tracemalloc.start()
    first = next(iter(context.batches(1)))
    held, _ = tracemalloc.get_traced_memory()  # without what TensorFlow holds
    tracemalloc.stop()
    assert len(first["text"].numpy()[0]) == 10_000_000 and held < 5_000_000


def test_batches_work_in_the_graph_of_an_estimator(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    types = {"x": "FLOAT", "word": "STRING", "many": "ARRAY<INT>"}
    cells = {"x": [0.5, None], "word": [b"a", None], "many": [[1, 2], None]}
    context = context_of(file_rows(tmp_path, [chunk_of(cells, types)], types), types)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = context.batches(300, {"x": -1.5, "word": "-"}, shuffle_rows=2)
        batch = session.run(tf.compat.v1.data.make_one_shot_iterator(dataset).get_next())
    assert sorted(batch["x"].tolist()) == [-1.5, 0.5] and sorted(batch["word"].tolist()) == [
        b"-",
        b"a",
    ]
    assert batch["many"].dense_shape.tolist() == [2, 2]


def test_broken_input_is_an_error_of_batches(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    feed = Feed()
    feed.chunk(*range(5))
    feed.put(ChannelError("the line is down"))
    batches = iter(TFContext(FileRows(str(tmp_path), feed, COLUMNS), COLUMNS).batches(5))
    with pytest.raises(tf.errors.UnknownError, match="the line is down"):
        list(batches)


class CountedRows:
    """Rows of ten strings a chunk, without end; counts the chunks that were read."""

    is_stream = is_once = False

    def __init__(self, length: int, nulls_from: int = 10**9) -> None:
        self.length, self.nulls_from = length, nulls_from
        self.read = 0
        self.closed = threading.Event()

    def length_beforehand(self) -> None:
        return None

    def columns(self) -> Iterator[Any]:
        try:
            for chunk in itertools.count():
                ids = list(range(chunk * 10, chunk * 10 + 10))
                words = [
                    None if each >= self.nulls_from else b"%d" % each + b"x" * self.length
                    for each in ids
                ]
                yield rows_of({"id": ids, "word": words}, WORDS)
                self.read = chunk + 1
        finally:
            self.closed.set()


WORDS = {"id": "BIGINT", "word": "STRING"}


@pytest.mark.parametrize("room", [1, 1000, 64 << 20])
def test_batches_that_are_read_ahead_keep_their_order(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_module, "READ_AHEAD_BYTES", room)
    for number, batch in enumerate(
        context_of(CountedRows(5), WORDS).batches(7, parallel=4).take(30)
    ):
        ids = list(range(number * 7, number * 7 + 7))
        assert batch["id"].numpy().tolist() == ids
        assert batch["word"].numpy().tolist() == [b"%dxxxxx" % each for each in ids]


def test_the_bytes_that_are_read_ahead_are_bounded_and_closing_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tensorflow as tf

    options = tf.data.Options()
    # else TensorFlow adds a buffer of batches
    options.experimental_optimization.apply_default_optimizations = False
    before, ahead = set(threading.enumerate()), {}
    for room in (64 << 20, 100_000):  # a chunk has 10,000 bytes, a quarter of a large one's
        for length in (1000, 40_000):
            monkeypatch.setattr(batches_module, "READ_AHEAD_BYTES", room)
            rows = CountedRows(length)
            found = iter(context_of(rows, WORDS).batches(10, parallel=4).with_options(options))
            ahead[room, length] = 0
            for number in range(20):
                next(found)
                ahead[room, length] = max(ahead[room, length], rows.read - number - 1)
            del found
            assert rows.closed.wait(2 * DEADLINE_S)
            wait_until(lambda: set(threading.enumerate()) <= before, "the threads have ended")
    assert ahead[100_000, 40_000] <= 2, "a batch that takes all the room is alone"
    assert max(ahead.values()) <= 12 and ahead[64 << 20, 1000] >= 1


@pytest.mark.fault("data", "A null in a batch that is read ahead fails at its row")
def test_error_in_a_batch_that_is_read_ahead_is_raised_at_its_row() -> None:
    import tensorflow as tf

    found = iter(context_of(CountedRows(5, nulls_from=53), WORDS).batches(7, parallel=4))
    for number in range(7):
        assert next(found)["id"].numpy().tolist() == list(range(number * 7, number * 7 + 7))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="row 53 of .* column 'word': expected a value, got null",
    ):
        next(found)


def tables(*sizes: int) -> list[Table]:
    ends = itertools.accumulate(sizes)
    return [Table(size, [Cells(np.arange(end - size, end))]) for size, end in zip(sizes, ends)]


def values(table: Table) -> list[int]:
    ((found, *_),) = table.columns
    assert len(found) == table.rows
    return found.tolist()


@pytest.mark.parametrize("sizes", [(), (0, 0), (1,), (3, 3), (2, 0, 5), (20, 1, 1)])
def test_batched_cuts_tables_into_batches_of_one_size(sizes: tuple[Any, ...]) -> None:
    for at_once in (1, 2, 10):
        found = [
            (count, values(table)) for count, table in batched(tables(*sizes), 3, at_once * 3 * 8)
        ]
        assert all(len(rows) == 3 * count for count, rows in found[:-1])
        assert all(
            (count == 1 and 0 < len(rows) <= 3) or len(rows) == 3 * count for count, rows in found
        )
        assert all(count <= at_once for count, _ in found)
        assert [row for _, rows in found for row in rows] == list(range(sum(sizes)))


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (5, 5), (2, 30, 3)])
@pytest.mark.parametrize("buffer_rows", [1, 2, 7, 100])
def test_each_row_leaves_the_buffer_once(sizes: tuple[Any, ...], buffer_rows: int) -> None:
    found = [
        row
        for table in shuffled(tables(*sizes), buffer_rows, np.random.RandomState(0))
        for row in values(table)
    ]
    assert sorted(found) == list(range(sum(sizes)))
