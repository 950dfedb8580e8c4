"""Parameters of operators: declared once, with `setX` and `getX` made from the declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bridge.exceptions import BridgeError, ConfigurationError

REQUIRED = object()  # default of a parameter that the user has to set; None is a value


@dataclass(frozen=True)
class Param:
    """A parameter of operators.

    Args:
        name: As Alink writes it: camelCase with a small first letter.
        annotation: Type of the value that setters take, for editors.
        doc: One sentence.
        convert: Returns the value to keep; raises ValueError with what was expected.
        default: Value when it is not set; REQUIRED when it has to be.
        aliases: Other names of the same parameter.
        returns: Type of the value that getters return, when it is another one.
    """

    name: str
    annotation: str
    doc: str
    convert: Callable[[Any], Any]
    default: Any = REQUIRED
    aliases: tuple[str, ...] = ()
    returns: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)


class WithParams:
    """Base of classes that have parameters; see `with_params`."""

    params: ClassVar[tuple[Param, ...]] = ()

    def __init__(self, **values: Any) -> None:
        self._values: dict[str, Any] = {}
        by_name = {name: param for param in self.params for name in param.names}
        unknown = [name for name in values if name not in by_name]
        if unknown:
            raise ConfigurationError(
                f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(param.name for param in self.params)}"
            )
        for name, value in values.items():
            self._set(by_name[name], name, value)

    def _set(self, param: Param, name: str, value: Any) -> None:
        try:
            self._values[param.name] = param.convert(value)
        except (ValueError, BridgeError) as error:
            got = f"{value!r} of type {type(value).__name__}"
            reason = f"{error}" if isinstance(error, BridgeError) else f"expected {error}, got {got}"
            raise ConfigurationError(f"{type(self).__name__}: parameter {name!r}: {reason}") from None

    def _get(self, param: Param) -> Any:
        if param.name in self._values:
            return self._values[param.name]
        if param.default is REQUIRED:
            raise ConfigurationError(f"{type(self).__name__}: parameter {param.name!r} is not set and has no default")
        return param.default

    def _values_of_all(self) -> dict[str, Any]:
        """Return every parameter with its value; all that are missing are named at once."""
        missing = [p.name for p in self.params if p.default is REQUIRED and p.name not in self._values]
        if missing:
            raise ConfigurationError(f"{type(self).__name__}: set {', '.join(map(repr, missing))} before it is linked or run")
        return {param.name: self._get(param) for param in self.params}


def with_params(name: str, doc: str, params: Sequence[Param]) -> Any:
    """Make a class with a setter and a getter for each parameter and each of its aliases."""
    members: dict[str, Any] = {"params": tuple(params), "__doc__": doc, "__module__": "operators.accessors"}
    for param in params:
        for alias in param.names:
            suffix = alias[0].upper() + alias[1:]
            members[f"set{suffix}"] = _setter(param, alias)
            members[f"get{suffix}"] = _getter(param, alias)
    return type(name, (WithParams,), members)


def _setter(param: Param, name: str) -> Callable[..., Any]:
    def setter(self: WithParams, value: Any) -> Any:
        self._set(param, name, value)
        return self

    setter.__name__ = f"set{name[0].upper()}{name[1:]}"
    setter.__doc__ = f"Set `{param.name}`: {param.doc}"
    return setter


def _getter(param: Param, name: str) -> Callable[..., Any]:
    def getter(self: WithParams) -> Any:
        return self._get(param)

    getter.__name__ = f"get{name[0].upper()}{name[1:]}"
    getter.__doc__ = f"Return `{param.name}`: {param.doc}"
    return getter
