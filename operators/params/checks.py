"""Checks of parameter values: each returns the value to keep, or raises ValueError with the
expectation.

The setters and getters of a parameter have the annotations of its check, in stubs and in the
reference. They say what a caller may give; a check looks at the value all the same, because
programs are seldom type-checked.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import math
import numbers
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from akdl.masking import shown
from akdl.process.parent import is_private
from akdl.storage.files import FileError, is_remote, local_path
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Schema, split_watermark
from operators.alink.java_times import zone_of
from operators.params.function_script import FunctionScript, script_of

# Processes get their own values of these variables: paths of akdl, folders, and the place of a
# process in its group, for TensorFlow and for PyTorch.
_OWN_VARIABLES = {
    "PATH",
    "PYTHONPATH",
    "TF_CONFIG",
    "TMPDIR",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "TF_GRPC_REUSE_PORT",
    "CUDA_VISIBLE_DEVICES",
    "TF_NUM_INTRAOP_THREADS",
}
_INSTEAD = {
    "CUDA_VISIBLE_DEVICES": (
        "set gpusPerWorker or gpusPerModel, 0 for no GPU; or AKDL_GPUS on the hosts"
    ),
    "TF_NUM_INTRAOP_THREADS": "set intraOpParallelism",
}


def text(value: str) -> str:
    # A string is a sequence of strings too, so it would become a list of characters.
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _text_that(fits: Callable[[str], object], expected: str) -> Callable[[str], str]:
    """Check for texts that satisfy a condition."""

    def convert(value: str) -> str:
        if not isinstance(value, str) or not fits(value):
            raise ValueError(expected)
        return str(value)

    return convert


def _text_read_by(read: Callable[[str], object]) -> Callable[[str], str]:
    """Check for texts that a parser accepts, whose own error is more exact than an expectation."""

    def convert(value: str) -> str:
        read(text(value))
        return str(value)

    return convert


any_text = _text_that(bool, "a string that is not empty")
filled_text = _text_that(str.strip, "a string that is not empty")
character = _text_that(lambda value: len(value) == 1, "one character")
time_zone = _text_read_by(zone_of)
schema_text = _text_read_by(Schema.parse)
stream_schema_text = _text_read_by(lambda value: Schema.parse(split_watermark(value)[0]))


def _script(
    expected: str, fits: Callable[[str], object], takes_config: bool
) -> Callable[..., str | FunctionScript]:
    """Check for a script: a path, or a function that becomes one."""

    def convert(value: str | Callable[..., Any]) -> str | FunctionScript:
        # A value that was checked before comes back, for example from `getMainScriptFile` into
        # another operator.
        if isinstance(value, FunctionScript):
            return value
        if callable(value):
            return script_of(value, takes_config)
        if not isinstance(value, str) or not fits(value):
            raise ValueError(f"{expected}, or a function defined with def")
        return value

    return convert


main_script = _script("the path of a script", str.strip, takes_config=True)
predict_function = _script(
    '"FILE.py:FUNCTION"',
    lambda text: text.rpartition(".py:")[1] and text.rpartition(".py:")[2].isidentifier(),
    takes_config=False,
)


def texts(value: Sequence[str]) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise ValueError("a list of strings")
    return list(value)


def text_or_texts(value: Sequence[str] | str) -> list[str]:
    return [value] if isinstance(value, str) else texts(value)


def environment(value: str | Sequence[str]) -> str | list[str]:
    """Check `pythonEnv`: the name of an environment, or requirements."""
    if isinstance(value, str):
        return value
    with suppress(ValueError):
        if requirements := texts(value):
            return requirements
    raise ValueError("a string, or a list of requirements")


def names(value: Sequence[str]) -> list[str]:
    """Check names of columns: a list without empty and repeated ones."""
    expected = "a list of one or more different names"
    names = texts(value)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if not names or not all(names) or repeated:
        raise ValueError(
            f"{expected} ({', '.join(repeated)} more than once)" if repeated else expected
        )
    return names


def files(value: Sequence[str] | str) -> list[str]:
    """Check paths. Alink's programs pass a list as JSON text."""
    expected = "a path, a list of paths, or such a list as JSON text"
    try:
        if isinstance(value, str):
            value = json.loads(value) if value.lstrip().startswith("[") else [value]
        files = texts(value)
    except (ValueError, RecursionError):
        raise ValueError(expected) from None
    if not all(map(str.strip, files)):
        raise ValueError(f"{expected}, none of them empty")
    return files


def predicate(value: Any) -> Any:
    if (isinstance(value, (str, list)) and value) or type(value).__name__ == "Expression":
        return value
    raise ValueError(
        "a predicate as text, an expression of pyarrow, or its lists of (column, operator, value)"
    )


def variables(value: Sequence[str]) -> list[str]:
    """Check variables for processes.

    Variables that akdl sets are refused, because each process needs a value of its own.
    """
    expected = 'a list of names of variables, or of "NAME=value"'
    try:
        given = texts(value)
    except ValueError:
        raise ValueError(expected) from None
    names = [each.partition("=")[0] for each in given]
    # The error does not show values, which may be secrets.
    wrong = [name for name in names if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)]
    # A NUL would end the variable for the operating system, which refuses to start such a process.
    if wrong or any("\0" in each for each in given):
        raise ConfigurationError(
            f"expected {expected}; {', '.join(map(repr, wrong)) or 'a value'} is not valid"
        )
    ours = [name for name in names if name in _OWN_VARIABLES or is_private(name)]
    if ours:
        raise ConfigurationError(
            "; ".join(
                [
                    f"{', '.join(ours)} cannot be set: each process needs its own value",
                    *(_INSTEAD[name] for name in ours if name in _INSTEAD),
                ]
            )
        )
    return given


def flag(value: bool) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def count(smallest: int) -> Callable[[int], int]:
    """Make a check for whole numbers of at least `smallest`."""

    def convert(value: int) -> int:
        # numpy's integers are Integral too, and are accepted. So is a bool, but True counts
        # nothing.
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < smallest:
            raise ValueError(f"a whole number of at least {smallest}")
        return int(value)

    return convert


def one_number_of_workers(value: int) -> int:
    if isinstance(value, (list, tuple)):
        raise ValueError(
            "one number, as only TF2TableModelTrainBatchOp and TFTableModelTrainBatchOp take a pair"
        )
    return count(1)(value)


def number_of_workers(value: int | tuple[int, int]) -> int | tuple[int, int]:
    if not isinstance(value, (list, tuple)):
        return count(1)(value)
    with suppress(ValueError):
        least, most = map(count(1), value)
        if least <= most:
            return least, most
    raise ValueError("a whole number of at least 1, or two of them, the smaller one first")


def _number(expected: str, fits: Callable[[float], bool]) -> Callable[[float], float]:
    """Make a check for numbers with a range."""

    def convert(value: float) -> float:
        # `float` raises this for an integer that is too large for it.
        with suppress(OverflowError):
            if (
                isinstance(value, numbers.Real)
                and not isinstance(value, bool)
                and fits(float(value))
            ):
                return float(value)
        raise ValueError(expected)

    return convert


positive = _number("a number greater than 0", lambda number: 0 < number < math.inf)
fraction = _number("a number from 0 to less than 1", lambda number: 0 <= number < 1)
share = _number("a number from 0 to 1", lambda number: 0 <= number <= 1)
seconds = _number("a number of seconds, 0 or more", lambda number: 0 <= number < math.inf)
some_seconds = _number("a number of seconds greater than 0", lambda number: 0 < number < math.inf)


def only(number: int, expected: str) -> Callable[[int], int]:
    """Make a check for a parameter of Alink of which only one value has a meaning here."""

    def convert(value: int) -> int:
        if isinstance(value, bool) or value != number:
            raise ValueError(expected)
        return number

    return convert


only_zero = only(0, "0")
default_environment = only(
    0, "0, the one environment of a program: choose it with useLocalEnv or useRemoteEnv"
)
one_file = only(1, "1: this program writes one file; other file sinks write in parallel")


def read_time(text: str) -> datetime.datetime:
    """Parse a date and time as Alink and Flink write them, with any number of digits after the
    seconds.
    """
    # Before Python 3.11 `fromisoformat` reads exactly three or six digits after the seconds. So
    # zeros fill the digits up to six, and digits after the sixth are cut.
    return datetime.datetime.fromisoformat(
        re.sub(r"(\.[0-9]{1,6})[0-9]*", lambda found: found[1].ljust(7, "0"), text, count=1)
    )


def shared_path(operator: str, parameter: str, address: str) -> str:
    """Absolute path of a folder that all hosts share; refuse an address of a storage."""
    if is_remote(address):
        raise ConfigurationError(
            f"{operator}: {parameter} {shown(address)!r}: expected a path that all hosts can read;"
            " other addresses are not supported"
        )
    with refused_at(f"{operator}: {parameter}", FileError):
        return local_path(address)


def time_text(value: str) -> str:
    try:
        read_time(text(value))
    except ValueError:
        raise ValueError('a date and time such as "2024-05-31 18:00:00"') from None
    return str(value)


def network(value: str) -> str:
    try:
        # An address inside of the network names it too, so bits of the host may be set.
        return str(ipaddress.IPv4Network(text(value), strict=False))
    except ValueError:
        raise ValueError('an IPv4 network such as "10.1.0.0/16"') from None


def one_of(*known: str) -> Callable[[str], str]:
    return _text_that(known.__contains__, f"one of {', '.join(map(repr, known))}")


def json_object(value: str | dict[str, Any]) -> str:
    expected = "a JSON object as text, or a dict that JSON can hold"
    try:
        if isinstance(value, dict):
            return json.dumps(value)
        if isinstance(value, str) and isinstance(json.loads(value), dict):
            return value
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{expected} ({error})") from None
    raise ValueError(expected)


def interval(value: Sequence[float]) -> list[float]:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        with suppress(ValueError):
            low, high = (seconds(each) for each in value)
            if low <= high and high > 0:
                return [low, high]
    raise ValueError("two numbers of seconds, the smaller one first")
