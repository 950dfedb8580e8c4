"""A function of this program, such as one in a notebook cell, as a script.

It travels as source text and not as a pickle: nothing that crosses a channel is unpickled, and the
process may have another version of Python.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from bridge.exceptions import ConfigurationError

_PLAIN = (bool, int, float, str, bytes, type(None))
# A value travels in the script if its literal has at most this many characters.
_LONGEST = 10_000
_REMEDY = "import or make it inside the function, or pass it in userParams"


@dataclass(frozen=True, repr=False)
class FunctionScript:
    """Script made of a function; `origin` says in errors where the function was defined.

    Its `repr` is short, because parameters are shown in messages.
    """

    name: str
    origin: str
    text: str

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    @property
    def file_name(self) -> str:
        return f"{self.name}_function.py"


def script_of(function: object, takes_config: bool = True) -> FunctionScript:
    """Turn a function into a script.

    Modules, functions and classes of the function's own module, and plain values that it uses
    travel along, as they are when the parameter is set.

    Args:
        function: A function defined with `def`, possibly decorated.
        takes_config: The function is called with the task config, as `main` is.

    Raises:
        ConfigurationError: It is a lambda, a generator or async, or uses a value that has no
            source.
    """
    if not isinstance(function, FunctionType):
        raise ConfigurationError(
            f"expected a function defined with def, got a {type(function).__name__}"
        )
    # A decorator's wrapper may come from a library. The source of the function below it contains
    # the decorator's line, so the script decorates it again.
    name = function.__name__
    inner = inspect.unwrap(function)
    if name == "<lambda>":
        raise ConfigurationError("a lambda cannot travel: write a function with def")
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        called = "main(task_config)" if takes_config else f"{name}(**userParams)"
        raise ConfigurationError(
            f"the function {name} is called as {called}, so it can be neither async nor a generator"
        )
    try:
        if takes_config:
            # The call is tried with a stand-in for the config, because a wrong signature would
            # otherwise fail in the process, minutes later.
            inspect.signature(function).bind(None)
    except TypeError as error:
        raise ConfigurationError(
            f"the function {name} is called with one argument, the task config: {error}; other"
            " values travel in userParams"
        ) from None
    parts = _Parts(name, inner)
    parts.add_function(inner)
    main = [] if name == "main" else [f"main = {name}"]
    lines = [
        # Annotations are not evaluated in the script, so the names in them need not travel.
        "from __future__ import annotations",
        "",
        # Literals have these two names for floats.
        "from math import inf, nan",
        # A statement may bind several names.
        *dict.fromkeys(parts.imports),
        "",
        *parts.values,
        "",
        *parts.sources,
        *main,
        "",
    ]
    return FunctionScript(
        name, f"the function {name} of {inner.__code__.co_filename}", "\n".join(lines)
    )


class _Parts:
    """Collects the imports, values and sources that a function needs.

    The sources stand in the order in which the script defines them.
    """

    def __init__(self, function: str, start: FunctionType) -> None:
        self._function = function
        self._module = start.__module__
        self._globals = start.__globals__
        self._statements = _import_statements(self._globals)
        self._known: set[str] = set()
        self.imports: list[str] = []
        self.values: list[str] = []
        self.sources: list[str] = []

    def add_function(self, function: Any) -> None:
        """Add a function or class, after everything that it uses."""
        # The name is noted first, because functions may call each other in a circle.
        self._known.add(function.__name__)
        free = getattr(getattr(function, "__code__", None), "co_freevars", ())
        if free:
            raise ConfigurationError(
                f"the function {function.__name__} uses {', '.join(free)} of the function around"
                f" it, which cannot travel: {_REMEDY}"
            )
        source = self._source_of(function)
        for name in _outer_names(source):
            # A name of the module wins over a builtin of the same name, as it does in Python.
            if name not in self._known and (name in self._globals or not hasattr(builtins, name)):
                self._known.add(name)
                self._add(name)
        self.sources += [source, ""]

    def _add(self, name: str) -> None:
        """Add a global name by its value now: as source, literal or import."""
        if name not in self._globals:
            # It is either a mistake, which Python reports when the script runs, or a name that the
            # script makes with `global`.
            return
        value = self._globals[name]
        if (
            # Only definitions of the function's own module travel as source. Libraries are imported
            # in the script.
            isinstance(value, (FunctionType, type))
            and value.__module__ == self._module
            and value.__name__ == name
        ):
            self.add_function(inspect.unwrap(value) if isinstance(value, FunctionType) else value)
        elif _is_plain(value) and len(repr(value)) <= _LONGEST:
            self.values.append(f"{name} = {value!r}")
        # The module's own import statement comes first, because the object may have another name
        # itself: `os.path` is the module `posixpath` on Linux.
        elif name in self._statements:
            self.imports += self._statements[name]
        elif isinstance(value, ModuleType):
            self.imports.append(f"import {value.__name__} as {name}")
        elif self._is_importable(value):
            self.imports.append(f"from {value.__module__} import {value.__name__} as {name}")
        else:
            kind = (
                f"value of more than {_LONGEST} characters"
                if _is_plain(value)
                else type(value).__name__
            )
            raise ConfigurationError(
                f"the function {self._function} uses {name}, a {kind}, which cannot travel as"
                f" source: {_REMEDY}"
            )

    def _is_importable(self, value: object) -> bool:
        module = getattr(value, "__module__", None)
        name = getattr(value, "__name__", None)
        if not isinstance(module, str) or module == "__main__" or not isinstance(name, str):
            return False
        # An instance may have a `__module__` and a `__name__` without being what the module has
        # under that name.
        return getattr(sys.modules.get(module), name, None) is value

    def _source_of(self, thing: Any) -> str:
        try:
            source = textwrap.dedent(inspect.getsource(thing))
            # The source may not parse alone. For example, `dedent` leaves the indentation of a
            # function that contains a text whose lines begin at the left margin.
            ast.parse(source)
        except (OSError, TypeError, SyntaxError):
            what = "class" if isinstance(thing, type) else "function"
            raise ConfigurationError(
                f"the source of the {what} {thing.__name__} cannot be found: define it in a file or"
                " in a cell of a notebook"
                + (", or inside the function" if isinstance(thing, type) else "")
            ) from None
        return source


def _import_statements(module: dict[str, object]) -> dict[str, list[str]]:
    """Import statements of a module, by the name that they bind."""
    # IPython keeps the source of all cells in this variable; the module of a notebook has no file.
    cells = module.get("In")
    texts = [cell for cell in cells if isinstance(cell, str)] if isinstance(cells, list) else []
    with suppress(OSError, TypeError, KeyError):
        texts = texts or [inspect.getsource(sys.modules[str(module["__name__"])])]
    statements: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for text in texts:
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for statement in _imports_outside_definitions(tree):
            whole = ast.unparse(statement) if isinstance(statement, ast.Try) else ""
            for node in ast.walk(statement):
                if not isinstance(node, (ast.Import, ast.ImportFrom)):
                    continue
                for each in node.names:
                    # `import a.b` binds `a`.
                    is_plain = isinstance(node, ast.Import) and each.asname is None
                    name = each.name.partition(".")[0] if is_plain else each.asname or each.name
                    # Another branch of an `if` may bind the name to something else.
                    is_bound = _object_of(node, each, is_plain) is module.get(name)
                    kept = (statements if is_bound else others).setdefault(name, [])
                    # `import a.b` and `import a.c` bind the same name, and both are needed.
                    if not is_plain:
                        kept.clear()
                    # A statement with this name alone is left.
                    node.names = [each]
                    kept.append(whole or ast.unparse(node))
    return {**others, **statements}


def _imports_outside_definitions(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield statements that import, and as a whole each `try` of nothing but imports: the script
    may run where another one of its alternatives exists.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom, ast.Try)) and all(
            _is_import(each) or isinstance(each, (ast.Pass, ast.Try))
            for each in ast.walk(child)
            if isinstance(each, ast.stmt)
        ):
            yield child
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _imports_outside_definitions(child)


def _is_import(node: ast.AST) -> bool:
    # A relative import has no meaning in a script, which belongs to no package.
    return isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)


def _object_of(node: ast.Import | ast.ImportFrom, name: ast.alias, is_plain: bool) -> object:
    if isinstance(node, ast.Import):
        return sys.modules.get(name.name.partition(".")[0] if is_plain else name.name)
    return getattr(sys.modules.get(node.module or ""), name.name, None)


def _outer_names(source: str) -> list[str]:
    """Global names in a definition, sorted; annotations are not evaluated."""
    # The script has this import too, so names in annotations do not count as used.
    top = symtable.symtable(f"from __future__ import annotations\n{source}", "script", "exec")
    names = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_referenced() and not symbol.is_assigned()
    }
    for table in _tables(top):
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_global() and symbol.is_referenced()
        }
    return sorted(names - {"annotations"})


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _tables(child)


def _is_plain(value: Any) -> bool:
    """Return True if the literal of a value makes an equal one.

    Subclasses, such as numpy's numbers, don't count.
    """
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, [*value, *value.values()]))
    return type(value) in _PLAIN
