"""Rows of a bounded table for a script that reads them once (`readOnce`).

They wait in Flink and are not stored on disk. `readOnce` is a parameter of the operator, because
the choice has to be made before the first row arrives. A second pass, and whatever needs all rows
at once, is an error that names the remedy.
"""

from __future__ import annotations

from typing import Iterator

from akdl.rows.stream_rows import Held, StreamRows
from akdl.wire import Rows

_REMEDY = "remove readOnce from the operator, which then keeps the rows on disk"


class OnceRows(StreamRows):
    """Rows that are read like a stream, and end; a second pass raises instead of yielding nothing.

    A stream's second pass is empty with a warning, since scripts of Alink rely on that. For a table
    it would be an epoch of training without rows.
    """

    is_stream = False
    is_once = True

    _first: Rows | None = None

    def file(self) -> str:
        raise RuntimeError(
            "with readOnce rows are not kept in files: read them from tf_context.batches(), or"
            f" {_REMEDY}"
        )

    def length(self) -> int:
        raise RuntimeError(
            f"with readOnce the number of rows is not known before the last one is read: {_REMEDY}"
        )

    def first_columns(self) -> Rows | None:
        """Wait for the first chunk; None where there are no rows. The first call has to precede any
        reading.
        """
        if self._first is None and not self.is_empty():
            with self._changed:
                # The first chunk leaves memory with the script's first reading.
                if self.taken:
                    raise RuntimeError(
                        "with readOnce the first rows are not available after they are read:"
                        f" {_REMEDY}"
                    )
                # The chunk stays in `_held`, so the script still reads its rows.
                self._first = Rows.FromString(self._held[0].columns)
        return self._first

    def _read_again(self) -> Iterator[list[Held]]:
        raise second_pass()


def second_pass(num_epochs: int | None = 1) -> ValueError:
    # TensorFlow passes on a ValueError; it converts other kinds to an unknown error.
    what = "this is a second pass" if num_epochs == 1 else f"num_epochs is {num_epochs}"
    return ValueError(f"with readOnce the rows can be read once, and {what}: {_REMEDY}")
