"""Parameters of operators: declared once; `setX` and `getX` are made from the declaration.

Alink writes its setters by hand, over a thousand of them. Here scripts/build_stubs.py makes stubs
for editors from the same declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from typing import Any, ClassVar, TypeVar

from akdl.near_names import did_you_mean
from bridge.exceptions import BridgeError, ConfigurationError
from operators.alink.missing_names import instead_of
from operators.params.rendering import Description, Rendered, value_text

_Value = TypeVar("_Value")
# No parameter has a getter for this name, because `getSchemaStr` returns the columns of any table,
# in the same form for all operators.
OF_TABLES = "schemaStr"
# This default marks a parameter that the user has to set; in a signature it has no default.
REQUIRED = Parameter.empty


@dataclass(frozen=True)
class Param:
    """A parameter of operators.

    `convert`, one of `operators.params.checks`, returns the value to keep, or raises ValueError
    with what was expected. The setter and the getter have its annotations.
    """

    name: str
    doc: str
    convert: Callable[[Any], Any]
    default: Any = None
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def annotation(self) -> str:
        return str(self.convert.__annotations__["value"])

    @property
    def returned(self) -> str:
        kept = self.convert.__annotations__["return"]
        return f"{kept} | None" if self.default is None else kept

    def checked(self, where: str, value: object, got: Callable[[object], str]) -> Any:
        """Value to keep; a ConfigurationError has the place, and what `got` says of the value."""
        try:
            return self.convert(value)
        except (ValueError, BridgeError) as error:
            reason = (
                error if isinstance(error, BridgeError) else f"expected {error}, got {got(value)}"
            )
            raise ConfigurationError(f"{where}: {reason}") from None

    @property
    def summary(self) -> str:
        return (
            f"{self.doc}"
            f" ({'required' if self.default is REQUIRED else f'default {self.default!r}'})"
        )


class WithParams(Rendered):
    """Base of classes with parameters, see `with_params`. None stands for a parameter that is not
    set.
    """

    params: ClassVar[tuple[Param, ...]] = ()

    def __init__(self, **values: object) -> None:
        super().__init__()
        self._values: dict[str, Any] = {}
        self._fixed = False
        by_name = {name: param for param in self.params for name in param.names}
        unknown = [name for name in values if name not in by_name]
        if unknown:
            known = ", ".join(param.name for param in self.params)
            hint = instead_of(unknown[0]) or f"{did_you_mean(unknown[0], by_name)}; it has {known}"
            raise ConfigurationError(
                f"{self._name} has no parameter {', '.join(map(repr, unknown))}{hint}"
            )
        for name, value in values.items():
            if value is not None and by_name[name].name in self._values:
                raise ConfigurationError(
                    f"{self._name}: {by_name[name].name!r} is given twice, also as {name!r}"
                )
            self._set(by_name[name], name, value)

    def _description(self) -> Description:
        return (
            super()
            ._description()
            ._replace(settings={name: value_text(name, v) for name, v in self._values.items()})
        )

    def _set(self, param: Param, name: str, value: object) -> None:
        if self._fixed:
            raise ConfigurationError(
                f"{self._name}: parameter {name!r} is set too late, the operator's table"
                " exists already: set it before the operator is linked or its columns are asked"
                " for, or make a new operator"
            )
        # None sets a parameter back to its default.
        if value is None:
            self._values.pop(param.name, None)
            return
        where = f"{self._name}: parameter {name!r}"
        self._values[param.name] = param.checked(
            where, value, lambda each: f"{value_text(name, each)} of type {type(each).__name__}"
        )

    def _get(self, param: Param) -> Any:
        value = self._values.get(param.name, param.default)
        if value is REQUIRED:
            raise ConfigurationError(
                f"{self._name}: parameter {param.name!r} is not set and has no default"
            )
        return value

    def _values_of_all(self) -> dict[str, Any]:
        """Values of all parameters; one error names all that are missing."""
        values = {param.name: param.default for param in self.params} | self._values
        missing = [name for name, value in values.items() if value is REQUIRED]
        if missing:
            raise ConfigurationError(
                f"{self._name}: set {', '.join(map(repr, missing))} before it is linked or run"
            )
        return values

    def _check_known(
        self, parameter: str, names: Sequence[str] | None, existing: Sequence[str]
    ) -> None:
        unknown = [name for name in names or () if name not in existing]
        if unknown:
            named = ", ".join(map(repr, unknown)) + did_you_mean(unknown[0], existing)
            raise ConfigurationError(
                f"{self._name}: parameter {parameter!r} names {named}; the input has"
                f" {', '.join(map(repr, existing))}"
            )

    def _fix(self) -> None:
        """Refuse further changes: a table has been built from the values."""
        self._fixed = True


def fields_of(kind: type, values: Mapping[str, _Value]) -> dict[str, _Value]:
    """Values for the fields of a dataclass that have the names of parameters, such as saveEvery for
    save_every_s.
    """
    # The field of a time has its unit in its name, such as `save_every_s`, and the parameter has
    # not.
    names = {
        each.name: re.sub("_(.)", lambda found: found[1].upper(), each.name.removesuffix("_s"))
        for each in fields(kind)
    }
    return {field: values[name] for field, name in names.items() if name in values}


def with_params(name: str, doc: str, params: Sequence[Param]) -> Any:
    """Make a class with a setter and a getter for each parameter and each of its aliases."""
    members = {
        "params": tuple(params),
        "__doc__": doc,
        "__module__": "operators.params.accessors",
        # Completion and help show it. Aliases are accepted and not listed.
        "__signature__": Signature(
            [
                Parameter(
                    each.name,
                    Parameter.KEYWORD_ONLY,
                    default=each.default,
                    annotation=each.annotation,
                )
                for each in params
            ]
        ),
    }
    for param in params:
        for alias in param.names:
            for method in (
                _setter(param, alias),
                *([_getter(param, alias)] if alias != OF_TABLES else []),
            ):
                # Otherwise help and tracebacks would show all methods as inner functions of
                # `_setter` and `_getter`.
                method.__qualname__ = f"{name}.{method.__name__}"
                members[method.__name__] = method
    return type(name, (WithParams,), members)


def _setter(param: Param, name: str) -> Callable[..., Any]:
    def setter(self: WithParams, value: object) -> WithParams:
        self._set(param, name, value)
        return self

    setter.__name__ = f"set{name[0].upper()}{name[1:]}"
    setter.__doc__ = f"Set `{param.name}`. {param.summary}"
    setter.__annotations__ = {"value": param.annotation, "return": "Self"}
    return setter


def _getter(param: Param, name: str) -> Callable[..., Any]:
    def getter(self: WithParams) -> Any:
        return self._get(param)

    getter.__name__ = f"get{name[0].upper()}{name[1:]}"
    getter.__doc__ = f"Return `{param.name}`. {param.summary}"
    getter.__annotations__ = {"return": param.returned}
    return getter
