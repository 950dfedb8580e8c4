"""Test a script without Flink: task configs with rows made in the test, and a writer that collects
the output.

    task_config = testing.batch_task_config(
        {"x": [0.5, None], "label": [0, 1]},
        {"x": "DOUBLE", "label": "INT"},
        work_dir=str(tmp_path),
        user_params={"n": 2},
    )
    my_script.main(task_config)
    assert task_config.output_writer.rows == [...]
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, Union, cast

import numpy as np

from akdl.rows.example_rows import ExampleRows
from akdl.rows.examples import ExampleEncoder, records
from akdl.rows.file_rows import FileRows
from akdl.runner.config import BatchTaskConfig, StreamTaskConfig, TrainTaskConfig
from akdl.runner.context import Share, TFContext
from akdl.runner.output_writer import check_example
from akdl.runner.user_params import with_text
from akdl.wire import Chunk, Example, Rows, TableColumn, TableColumns
from akdl.wire.cells import as_array, is_of_pandas
from akdl.wire.column_type import ColumnType, Kind, type_of
from akdl.wire.columns import encode_columns, flat_sparse
from akdl.wire.serialized import Tally

if TYPE_CHECKING:
    from akdl.runner.output_writer import OutputWriter

ColumnTypes = Mapping[str, str]
"""SQL types of columns, by name."""

InputRows = Union[Mapping[str, Sequence[Any]], Sequence[bytes]]


class CollectingWriter:
    """Replaces `task_config.output_writer` and keeps the rows.

    Args:
        types: Column name to Flink SQL type, as in `outputSchemaStr`. With it, unknown columns and
            values that do not fit are rejected as in a job, and a missing column is None. Without
            it, all rows are accepted.

    Attributes:
        rows: Rows in the order of writing: column name to a bool, int, float, bytes, a list of
            these, or None.
    """

    def __init__(self, types: ColumnTypes | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._columns = None if types is None else table_columns(types)

    @property
    def rows_written(self) -> int:
        """Rows taken so far."""
        return len(self.rows)

    def write(self, example: Any) -> None:
        """Keep one row, see `akdl.runner.output_writer.OutputWriter.write`."""
        check_example(example)
        if self._columns is not None:
            cells = ExampleRows(self._columns).read(example, len(self.rows))
            # Cells of an ARRAY are tuples in the writer's own form. A list compares equal to what a
            # test writes.
            cells = [list(cell) if isinstance(cell, tuple) else cell for cell in cells]
            self.rows.append({column.name: cell for column, cell in zip(self._columns, cells)})
            return
        row = {}
        for name, feature in example.features.feature.items():
            lists = [feature.bytes_list.value, feature.float_list.value, feature.int64_list.value]
            # Of the three lists of a feature, one has values at most, so joining them finds it.
            values = [value for values in lists for value in values]
            row[name] = values[0] if len(values) == 1 else values
        self.rows.append(row)

    def write_batch(self, values: Mapping[str, Any]) -> None:
        """Keep many rows, see `akdl.runner.output_writer.OutputWriter.write_batch`."""
        columns = {name: _plain(cells) for name, cells in values.items()}
        if self._columns is not None:
            # The encoded rows are not needed. The call raises the errors that a job would raise.
            encode_columns(values, self._columns)
            size = len(next(iter(columns.values())))
            columns = {
                column.name: columns.get(column.name, [None] * size) for column in self._columns
            }
        lengths = {name: len(cells) for name, cells in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns have different numbers of rows: {lengths}")
        self.rows.extend(dict(zip(columns, cells)) for cells in zip(*columns.values()))

    def flush(self) -> None:
        """Do nothing, as rows are available at once."""

    def close(self) -> None:
        """Do nothing."""


def table_columns(types: ColumnTypes) -> list[TableColumn]:
    return [TableColumn(name=name, type=sql_type) for name, sql_type in types.items()]


def encode_rows(
    cells: Mapping[str, Sequence[Any]], types: ColumnTypes, exact_doubles: bool = False
) -> list[bytes]:
    """Return rows as serialized tf.train.Examples, in the form that a script receives.

    Args:
        cells: Column name to one value per row: numbers, text, bytes, lists of these for an ARRAY,
            None for null. Dates and times are numbers, see `akdl.features.feature_spec`.
        types: Column name to Flink SQL type.
        exact_doubles: See `akdl.features.feature_spec`.

    Raises:
        ValueError: The names differ between `cells` and `types`, or the columns have different
            lengths.
        TypeError: A value that does not fit its column.
    """
    if set(cells) != set(types):
        raise ValueError(
            f"the columns {sorted(cells)} and the types {sorted(types)} have different names"
        )
    columns = table_columns(types)
    cells = {column.name: _sent(cells[column.name], type_of(column)) for column in columns}
    return list(
        records(
            io.BytesIO(
                ExampleEncoder(columns, exact_doubles).frames(encode_columns(cells, columns))
            )
        )
    )


def batch_task_config(
    rows: InputRows,
    types: ColumnTypes,
    work_dir: str,
    user_params: Mapping[str, Any] | None = None,
    output_types: ColumnTypes | None = None,
    **options: Any,
) -> BatchTaskConfig:
    """Return the task config of a batch operator, whose `output_writer` is a `CollectingWriter`.

    Args:
        rows: Column name to one value per row, see `encode_rows`; or serialized tf.train.Examples.
        types: Column name to Flink SQL type, such as {"x": "DOUBLE", "words": "ARRAY<STRING>"}.
        work_dir: An existing folder, to which the rows are written.
        user_params: The script's `task_config.user_params`.
        output_types: The columns of `outputSchemaStr`, see `CollectingWriter`.
        options: `exact_doubles`, see `akdl.features.feature_spec`; `shares`, the result of
            `task_config.tf_context.shares()`, by default the file with these rows; `num_workers`,
            `cluster`, `task_type` and `task_index` of a process that is not a chief alone;
            `checkpoint_dir`, `log_dir` and `attempt`.
    """
    common = task_config(rows, types, work_dir, user_params, **options)
    return BatchTaskConfig(
        output_writer=cast("OutputWriter", CollectingWriter(output_types)), **common
    )


def stream_task_config(
    rows: InputRows,
    types: ColumnTypes,
    work_dir: str,
    user_params: Mapping[str, Any] | None = None,
    output_types: ColumnTypes | None = None,
    **options: Any,
) -> StreamTaskConfig:
    """Return the task config of a stream operator, see `batch_task_config`; the stream ends after
    the rows.
    """
    common = task_config(rows, types, work_dir, user_params, **options)
    return StreamTaskConfig(
        output_writer=cast("OutputWriter", CollectingWriter(output_types)), **common
    )


def train_task_config(
    rows: InputRows,
    types: ColumnTypes,
    work_dir: str,
    user_params: Mapping[str, Any] | None = None,
    **options: Any,
) -> TrainTaskConfig:
    """Return the task config of an operator that trains a model, see `batch_task_config`.

    `saved_model_dir` is a folder in `work_dir` that does not exist yet.
    """
    common = task_config(rows, types, work_dir, user_params, **options)
    return TrainTaskConfig(saved_model_dir=os.path.join(work_dir, "savedmodel"), **common)


def task_config(
    rows: InputRows,
    types: ColumnTypes,
    work_dir: str,
    user_params: Mapping[str, Any] | None,
    exact_doubles: bool = False,
    shares: Sequence[Share] | None = None,
    *,
    cluster: Mapping[str, list[str]] | None = None,
    num_workers: int = 1,
    task_type: str = "chief",
    task_index: int = 0,
    checkpoint_dir: str | None = None,
    log_dir: str | None = None,
    attempt: int = 0,
) -> dict[str, Any]:
    serialized = (
        encode_rows(rows, types, exact_doubles) if isinstance(rows, Mapping) else list(rows)
    )
    columns = table_columns(types)
    arrived = arrived_rows(serialized, columns, work_dir, exact_doubles)
    cluster = {"chief": ["localhost:0"]} if cluster is None else cluster
    all_shares = None if shares is None else lambda: list(shares)
    is_alone = sum(map(len, cluster.values())) == 1
    return {
        "tf_context": TFContext(arrived, columns, exact_doubles, all_shares, is_alone),
        "work_dir": work_dir,
        "user_params": with_text(user_params or {}),
        "num_workers": num_workers,
        "cluster": cluster,
        "task_type": task_type,
        "task_index": task_index,
        "checkpoint_dir": checkpoint_dir,
        "log_dir": log_dir,
        "attempt": attempt,
    }


def arrived_rows(
    serialized: Iterable[bytes], columns: TableColumns, folder: str, exact_doubles: bool = False
) -> FileRows:
    """Return the rows of a job that have arrived, with their files in a folder.

    They pass through the classes of jobs, end mark included, so that a test finds the errors that a
    job would report, and reads the same bytes.
    """
    rows, message = ExampleRows(columns), Rows()
    for number, record in enumerate(serialized):
        rows.append(rows.read(Example.FromString(record), number))
    rows.take(message)
    chunk = Chunk(rows=message.rows, columns=message.SerializeToString())
    # The end mark has the number of rows and their checksum, without which `FileRows` would report
    # rows that broke off.
    tally = Tally()
    tally.add(chunk.rows, chunk.columns)
    return FileRows(
        folder, [chunk, tally.end()] if message.rows else [tally.end()], columns, exact_doubles
    )


def _sent(cells: Sequence[Any], column_type: ColumnType) -> Sequence[Any]:
    """Accept 0 and 1 as booleans, and booleans as numbers: labels are often comparisons."""
    if column_type.is_array:
        return cells
    if column_type.kind is Kind.BOOLEAN:
        return [cell if cell is None else bool(cell) for cell in cells]
    return [int(cell) if isinstance(cell, (bool, np.bool_)) else cell for cell in cells]


def _plain(cells: Any) -> list[object]:
    if hasattr(cells, "dense_shape"):
        lengths, values = flat_sparse(cells, "write_batch")
        # The last end is left out, because `np.split` would add an empty part behind it.
        cells = np.split(as_array(values), np.cumsum(lengths)[:-1]) if len(lengths) else []
    elif hasattr(cells, "numpy"):  # an eager tensor
        cells = cells.numpy()
    elif is_of_pandas(cells):
        return [None if is_null else cell for is_null, cell in zip(cells.isna(), cells)]
    plain = cells.tolist() if hasattr(cells, "tolist") else list(cells)
    return [cell.tolist() if hasattr(cell, "tolist") else cell for cell in plain]
