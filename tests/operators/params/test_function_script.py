"""Functions as scripts: what travels with them, and which are refused."""

from __future__ import annotations

import functools
import json as js
import linecache
import logging
import math
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import TensorFlow2BatchOp
from operators.params.function_script import script_of
from tests.support.leftovers import DEADLINE_S

RATE = 0.5
LIMITS = {"low": -math.inf, "names": ["a", ("b", None)]}
HANDLE = open  # a builtin by another name
lock = logging.getLogger("x").handlers
OPENED = sys.stdin


class Doubler:
    def twice(self, x: float) -> float:
        return 2 * x


def _half(x: float) -> float:
    return x * RATE


def train(task_config: OrderedDict[str, Any]) -> Any:
    import collections

    counts = collections.Counter("aa")
    return [
        js.dumps(task_config),
        _half(4),
        Doubler().twice(3),
        LIMITS,
        counts["a"],
        OrderedDict([(1, 2)]),
    ]


def _run(function: Any, argument: Any) -> Any:
    """Run the script of a function elsewhere, as a process does."""
    code = f"{script_of(function).text}\nimport sys, json\nprint(json.dumps(main(json.loads(sys.argv[1]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, js.dumps(argument)],
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return js.loads(done.stdout)


def test_function_is_sent_with_the_names_that_it_uses() -> None:
    limits = {"low": -math.inf, "names": ["a", ["b", None]]}
    assert _run(train, {"n": 1}) == ['{"n": 1}', 2.0, 6, limits, 2, {"1": 2}]


def test_recursive_function_is_sent_with_used_names_alone() -> None:
    def main(n: int) -> int:
        return 1 if n == 0 else n * len(list(range(3)))

    script = script_of(main)
    assert (script.name, script.file_name, repr(script)) == (
        "main",
        "main_function.py",
        "<function main>",
    )
    assert "RATE" not in script.text and "import json" not in script.text
    assert _run(main, 2) == 6


def test_function_is_sent_with_the_imports_of_its_file() -> None:
    def load(task_config: Any) -> Any:
        return js, OrderedDict

    text = script_of(load).text
    assert (
        "import json as js\n" in text
        and "from collections import OrderedDict\n" in text
        and text.endswith("main = load\n")
    )


def test_imports_are_found_in_cells_of_a_notebook() -> None:
    cells = [
        "",
        "get_ipython().run_line_magic('pwd', '')\nimport os.path as p",
        "!broken(",
        "def f(c):\n    return p.sep\n",
    ]
    namespace: dict[str, Any] = {"__name__": "__main__", "In": cells}
    linecache.cache["<cell 3>"] = (
        len(cells[3]),
        None,
        cells[3].splitlines(keepends=True),
        "<cell 3>",
    )
    exec("import os.path as p", namespace)
    exec(compile(cells[3], "<cell 3>", "exec"), namespace)
    assert "import os.path as p\n" in script_of(namespace["f"]).text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import xml.dom\nimport xml.sax", ["import xml.dom", "import xml.sax"]),
        ("import xml.sax\nimport xml.sax, math as m", ["import xml.sax"]),
        ("import math as xml\nimport json as xml", ["import json as xml"]),
        (
            "try:\n    import json as xml, math\nexcept ImportError:\n    import missing as xml",
            [
                "try:",
                "    import json as xml, math",
                "except ImportError:",
                "    import missing as xml",
            ],
        ),
        (
            "if math:\n    from json import dumps as xml\nelse:\n    from missing import xml",
            ["from json import dumps as xml"],
        ),
        (
            "try:\n    from json import dumps as xml\nexcept ImportError:\n    xml = None",
            ["from json import dumps as xml"],
        ),
    ],
)
def test_imports_of_one_name_are_sent_as_the_program_made_them(
    source: str, expected: list[str]
) -> None:
    cell = "def f(c):\n    return xml, math\n"
    namespace: dict[str, Any] = {"__name__": "__main__", "In": ["import math", source, cell]}
    linecache.cache["<xml>"] = (len(cell), None, cell.splitlines(keepends=True), "<xml>")
    exec(f"import math\n{source}", namespace)
    exec(compile(cell, "<xml>", "exec"), namespace)
    text = script_of(namespace["f"]).text
    lines = text[: text.index("def f")].split("\n")
    found = [line for line in lines if line and "annotations" not in line]
    known = {"import math", "from math import inf, nan"}
    assert [line for line in found if line not in known] == expected
    exec(text, {"__name__": "script"})


def _refused() -> dict[str, tuple[Any, str]]:
    rows = [1]

    def uses_rows(task_config: Any) -> Any:
        return rows

    def uses_stream(task_config: Any) -> Any:
        return OPENED

    def uses_helper_of_stream(task_config: Any) -> Any:
        return _reads(task_config)

    def no_argument() -> None:
        pass

    def two(task_config: Any, other: int) -> None:
        pass

    async def later(task_config: Any) -> None:
        pass

    made: dict[str, Any] = {}
    exec("def made(c): pass", made)
    return {
        "closure": (
            uses_rows,
            "the function uses_rows uses rows of the function around it.*userParams",
        ),
        "value": (
            uses_stream,
            "the function uses_stream uses OPENED, a .*, which cannot travel as source: import or make it",
        ),
        "value of a helper": (uses_helper_of_stream, "uses OPENED"),
        "lambda": (lambda task_config: None, "a lambda cannot travel: write a function with def"),
        "no argument": (
            no_argument,
            "the function no_argument is called with one argument, the task config",
        ),
        "two arguments": (two, "the function two is called with one argument.*'other'"),
        "async": (later, "neither async nor a generator"),
        "partial": (
            functools.partial(two, other=1),
            "expected a function defined with def, got a partial",
        ),
        "class": (Doubler, "expected a function defined with def, got a type"),
        "no source": (
            made["made"],
            "the source of the function made cannot be found: define it in a file or in a cell",
        ),
    }


def _reads(task_config: Any) -> Any:
    return OPENED


@pytest.mark.parametrize("case", _refused())
def test_functions_that_cannot_be_sent_are_refused(case: str) -> None:
    function, message = _refused()[case]
    with pytest.raises(
        ConfigurationError, match=f"TensorFlow2BatchOp: parameter 'mainScriptFile': .*{message}"
    ):
        TensorFlow2BatchOp(mainScriptFile=function)


def test_a_parameter_of_a_function_shows_its_name_and_can_be_set_again() -> None:
    op = TensorFlow2BatchOp(mainScriptFile=train)
    assert repr(op).startswith("TensorFlow2BatchOp(mainScriptFile=<function train>)")
    assert (
        TensorFlow2BatchOp().setMainScriptFile(op.getMainScriptFile()).getMainScriptFile()
        == op.getMainScriptFile()
    )
    with pytest.raises(
        ConfigurationError,
        match="expected the path of a script, or a function defined with def, got ''",
    ):
        op.setMainScriptFile("")
