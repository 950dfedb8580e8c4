"""A function of a user that predicts, in any framework.

`predictFn` names a function that is called for each model with the path of the model, if there is
one, and the user parameters as arguments. It returns `predict(batch)`, which takes a dict of arrays
by column, with rows on the first axis, and returns a dict of such arrays.
"""

import decimal
import json
import os
import threading
import traceback
from typing import Callable, Mapping, Sequence, Tuple

import numpy as np

from akdl.near_names import listed
from akdl.serving.input_cells import encoded
from akdl.serving.loaded_model import (
    CellError,
    LoadedModel,
    Refused,
    ServingError,
    Signature,
    TensorDescription,
)
from akdl.user_code.failure import failure_of
from akdl.user_code.module import CODE_FOLDERS, forget_modules, import_file
from akdl.wire import BOOL, Serving
from akdl.wire.cells import DTYPES, UNCUT, Array, Arrays, are_cut, as_array
from akdl.wire.column_type import FLOATS, MEANINGS, ColumnType, Kind, type_of

_DTYPES = {BOOL: "bool", **{sent: np.dtype(dtype).name for sent, dtype in DTYPES.items()}}
# Kinds of numpy's types that a function may return for a column. Other columns take integers alone:
# `_OF_INTEGERS`.
_RETURNED = {
    Kind.BOOLEAN: "b",
    Kind.STRING: "biufO",
    Kind.BYTES: "O",
    **dict.fromkeys(FLOATS, "biuf"),
}
_OF_INTEGERS = "biu"


class FunctionModel(LoadedModel):
    """Calls the function of `serving`, one batch at a time.

    Code of users may not be thread-safe, so `turn` is a lock. The declared columns are the
    signature, since a function has none of its own. So its results are checked here, where the
    error can name the function and the output.
    """

    kind = "function"

    def __init__(self, place: str, serving: Serving) -> None:
        self._path, _, self._function = serving.function.rpartition(":")
        self.name = f"the function {self._function} in {self._path}"
        self._folder = os.path.join(os.path.realpath(serving.function_folder), "")
        # Without a model, `place` is the folder of the function, and the function gets no path.
        self._places = () if place == serving.function_folder else (place,)
        self._params = serving.user_params or "{}"
        self._inputs = {
            each.name: type_of(each)
            for each in serving.input_columns
            if each.name != serving.model_key_col
        }
        self._outputs = {column.name: type_of(column) for column in serving.output_columns}
        self.signature = Signature(
            self._function, described(self._inputs), described(self._outputs)
        )
        self.turn = threading.Lock()

    def load(self, outputs: Sequence[str]) -> None:
        """Call the user's function, whose result predicts.

        Raises:
            ServingError: There is no such function, it exits, or it returns nothing that can be
                called.
        """
        CODE_FOLDERS.add(self._folder)
        forget_modules(self._folder)
        try:
            module = import_file(self._folder + self._path, self._folder.rstrip(os.sep))
            make = getattr(module, self._function, None)
            if not callable(make):
                raise ServingError(
                    f"predictFn: {self._path} defines no function {self._function!r}"
                )
            predict = make(*self._places, **json.loads(self._params))
        except SystemExit as error:
            raise ServingError(f"{self.name}: {self._told(error)}") from error
        if not callable(predict):
            raise ServingError(
                f"{self.name}: expected it to return a function predict(batch), got"
                f" a {type(predict).__name__}"
            )
        self._predict = predict

    def predict(self, columns: Arrays) -> Arrays:
        """Predict a batch; Refused when the function raises.

        It may raise for one of the rows. SystemExit counts too, because a function of a user must
        not end the process that all tasks share.
        """
        rows = len(next(iter(columns.values())))
        batch = {name: argument(array, self._inputs[name].kind) for name, array in columns.items()}
        try:
            results = self._predict(batch)
        except (Exception, SystemExit) as error:
            raise Refused(error, self._told(error)) from error
        # A function with one output may return its array alone.
        if not isinstance(results, Mapping) and len(self._outputs) == 1:
            results = dict.fromkeys(self._outputs, results)
        found = results if isinstance(results, Mapping) else {}
        missing = [name for name in self._outputs if name not in found]
        if missing:
            got = (
                f"a dict with {listed(results) or 'nothing'}"
                if isinstance(results, Mapping)
                else f"a {type(results).__name__}"
            )
            raise ServingError(
                f"{self.name}: expected a dict with the outputs {listed(missing)}, got {got}"
            )
        return {name: self._checked(name, found[name], rows) for name in self._outputs}

    def close(self) -> None:
        """Release the objects that the function holds."""
        del self._predict

    def _checked(self, name: str, value: object, rows: int) -> Array:
        """Return an output as an array; its rows and its type have to fit the column.

        A misfit is a ServingError and not Refused, because halving the batch would not change it.
        """
        column_type, where = self._outputs[name], f"{self.name}: output {name!r}"
        if np.ma.is_masked(value):  # type: ignore[no-untyped-call]
            raise ServingError(
                f"{where}: expected a value for each row, got an array with masked elements: fill"
                " them"
            )
        try:
            # `as_array` keeps NUL at the end of bytes, and gives a list of texts no more memory
            # than the texts have.
            array = (as_array if column_type.kind in (Kind.STRING, Kind.BYTES) else np.asarray)(
                value
            )
        except Exception as error:  # of the framework that made it
            raise ServingError(
                f"{where}: expected an array, got a {type(value).__name__}: {error}"
            ) from None
        if column_type.kind is Kind.BYTES and are_cut(array):
            raise ServingError(f"{where}: expected {UNCUT}, got an array of {array.dtype}")
        # Texts of numpy's own types become objects, which `encoded` turns to UTF-8.
        if array.dtype.kind in "US":
            array = array.astype(object)
        text = column_type.sql
        is_single = not column_type.is_array and column_type.kind is not Kind.STRING
        if array.ndim == 0 or len(array) != rows or (is_single and array.size != rows):
            expected = f"an array of shape [{rows}]" if is_single else f"an array with {rows} rows"
            raise ServingError(
                f"{where}: expected {expected} for {text}, got the shape {list(array.shape)}"
            )
        if array.dtype.kind not in _RETURNED.get(column_type.kind, _OF_INTEGERS):
            raise ServingError(
                f"{where}: an array of {array.dtype} does not fit {text}; convert it, or change"
                " outputSchemaStr"
            )
        try:
            # A copy, since a function may fill the same array in each call, and this one is read
            # only after all batches of a request.
            return (encoded(array) if array.dtype == object else array).copy()
        except CellError as error:
            raise ServingError(f"{where}: {error}") from None

    def _told(self, error: BaseException) -> str:
        failure = failure_of(error)
        # The last frame in the user's folder names the line that its author can change; frames
        # behind it belong to libraries.
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename.startswith(self._folder)
        ]
        place = "".join(
            f" ({frame.filename[len(self._folder) :]}, line {frame.lineno})"
            for frame in frames[-1:]
        )
        return f"{failure.type}: {failure.message}{place}"


def described(types: Mapping[str, ColumnType]) -> Tuple[TensorDescription, ...]:
    """Inputs or outputs that correspond to columns."""
    return tuple(
        TensorDescription(
            name,
            _DTYPES.get(MEANINGS[each.kind].sent, "string"),
            (-1, -1) if each.is_array else (-1,),
            name,
        )
        for name, each in types.items()
    )


def argument(array: Array, kind: Kind) -> Array:
    """Return a copy of the array for user code, which may change it.

    It has the types that users expect: on the way, text and decimals are bytes, and points in time
    are numbers.
    """
    if kind is Kind.STRING:
        return mapped(bytes.decode, array)
    if kind is Kind.DECIMAL:
        return mapped(lambda text: decimal.Decimal(text.decode()), array)
    unit = "" if kind is Kind.TIME else MEANINGS[kind].unit
    return array.astype(f"datetime64[{unit}]" if unit else array.dtype)


def mapped(function: Callable[[bytes], object], array: Array) -> Array:
    """Apply a function to each element; the result is an array of objects."""
    result = np.empty(array.shape, object)
    # Assigning elements keeps them objects. `np.array` of a list would choose a type from the
    # values.
    result.reshape(-1)[:] = list(map(function, array.reshape(-1).tolist()))
    return result
