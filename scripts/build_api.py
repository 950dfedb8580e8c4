"""Write the API reference into docs/api, from docstrings and the parameter catalogue: the build of
the pages calls it.

Nothing of it is committed, so it cannot be out of date. Classes and functions of the TensorFlow
side are read as source text, since importing them would import TensorFlow.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from scripts import build_faults

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "api"

# Modules of the TensorFlow side that scripts import, with what they are for.
SCRIPT_MODULES = {
    "akdl.runner.config": "Task configs: what `main` gets",
    "akdl.runner.context": "Rows as TensorFlow sees them",
    "akdl.runner.output_writer": "Rows back to the table",
    "akdl.runner.extra_inputs": "Tables that every process gets whole",
    "akdl.runner.user_params": "Values of `userParams`",
    "akdl.features": "Features of columns",
    "akdl.testing": "A script in a test of your own",
    "akdl.engine.strategy": "Distribution strategies",
    "akdl.engine.train": "Training of Keras models and Estimators",
    "akdl.engine.inputs": "Input by example_config",
    "akdl.engine.run_config": "RunConfig of Estimators",
    "akdl.engine.sync": "Workers with parameter servers in step",
    "akdl.engine.early_stopping": "Early stopping of Estimators",
    "akdl.models.tf.dnn.dnn_batch": "A DNN that trains, for TensorFlowBatchOp",
    "akdl.keras.keras_training": "Keras callbacks: training",
    "akdl.keras.evaluate": "Keras callbacks: evaluation",
    "akdl.keras.predict": "Keras callbacks: prediction",
    "akdl.estimator.estimator_training": "Estimators from four functions",
    "akdl.serving.model_stream": "Models that take over while a job runs",
    "akdl.storage.model_archive": "SavedModels as archives",
}
# What the page says for types that are private.
_PRIVATE_TYPES = {
    "_Family": "Self",
    "_Op": "Operator",
    "_Predictor": "Predictor",
    "_Table": "Predictor",
}
# What scripts use of a module; of the others, all.
_SHOWN = {
    "akdl.runner.extra_inputs": {"ExtraInput"},
    "akdl.runner.user_params": {"plain", "with_text"},
    "akdl.testing": {
        "CollectingWriter",
        "encode_rows",
        "batch_task_config",
        "stream_task_config",
        "train_task_config",
    },
}
_SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields", "Example", "Examples")
_UNITS = (
    (r"[Ss]econds", "seconds"),
    (r"^(Most rows|Number of rows|Rows in)", "rows"),
    (r"^Number of (processes|parameter servers)", "processes"),
    (r"\b[Bb]ytes\b", "bytes"),
    (r"^Log files", "files"),
    (r"^GPUs", "GPUs"),
    (r"^Threads", "threads"),
    (r"^(Passes|Epochs)", "epochs"),
    (r"^Number of (random columns)", "columns"),
    (r"^Number of files", "files"),
)


def pages() -> dict[str, str]:
    """Return name and text of each page."""
    sys.path.insert(0, str(ROOT))
    return {
        "index": "# API reference\n\n```{toctree}\noperators\nscripts\nfaults\n```\n",
        "operators": "".join(_operators_page()),
        "scripts": "".join(_scripts_page()),
        "faults": "".join(build_faults.page()),
    }


def _operators_page() -> Iterator[str]:
    import operators

    yield (
        "# Operators\n\n`from operators import *` gives what is on this page. Each parameter has a"
        " setter and a getter: "
    )
    yield (
        "`setNumWorkers(2)`, `getNumWorkers()`. It may also be an argument:"
        " `TensorFlow2BatchOp(numWorkers=2)`.\n\n"
    )
    yield (
        "A value that is not as expected raises `ConfigurationError` when it is set. None makes a"
        " parameter unset.\n\n"
    )
    public = {name: getattr(operators, name) for name in operators.__all__}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    yield "## Functions\n\n"
    for name, function in functions.items():
        yield (
            f"### {name}\n\n```python\n{name}{_signature(function)}\n```\n\n{_markdown(inspect.getdoc(function))}\n\n"  # noqa: E501
        )
    yield "## Classes\n\n"
    for name, cls in classes.items():
        yield f"### {name}\n\n{_markdown(inspect.getdoc(cls))}\n\n"
        yield from _parameters(cls)
        yield from _methods(cls, classes)
    others = {
        name: value
        for name, value in public.items()
        if name not in functions and name not in classes
    }
    if others:
        yield "## Others\n\n" + "".join(f"- `{name}`\n" for name in others)


def _parameters(cls: type) -> Iterator[str]:
    from operators.params.param import REQUIRED

    params = getattr(cls, "params", ())
    if not params:
        return
    yield "| parameter | type | default | unit | meaning | expected |\n|---|---|---|---|---|---|\n"
    for param in params:
        names = ", ".join(f"`{name}`" for name in param.names)
        default = (
            "required"
            if param.default is REQUIRED
            else "not set"
            if param.default is None
            else f"`{param.default!r}`"
        )
        cells = (names, f"`{param.annotation}`", default, unit(param), param.doc, expected(param))
        yield (
            "| "
            + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
            + " |\n"
        )
    yield "\n"


def unit(param: Any) -> str:
    """Unit of a number; empty for other parameters."""
    if param.annotation not in ("int", "float", "Sequence[float]"):
        return ""
    return next((word for pattern, word in _UNITS if re.search(pattern, param.doc)), "")


def expected(param: Any) -> str:
    """Expectation that the error of a wrong value names: an empty value where that is wrong, else
    another one.
    """
    of_type = {"str": "", "float": 0}.get(param.annotation, [])
    for value in (of_type, object()):
        try:
            param.convert(value)
        except Exception as error:
            text = re.sub(
                r"[,;] got .*|; [^;]* is not valid$|[^;]*; (?=expected )",
                "",
                str(error),
                flags=re.DOTALL,
            )
            return re.sub(r"^expected ", "", text)
    return ""


def _methods(cls: type, public: dict[str, type]) -> Iterator[str]:
    """Describe the methods that no other class on the page has described."""
    bases = [base for base in cls.__mro__[1:] if base in public.values()]
    described = {name for base in bases for name in dir(base)}
    found = []
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if name.startswith("_") or name in described or not inspect.isfunction(function):
            continue
        if function.__module__ == "operators.params.param":  # setters and getters
            continue
        found.append(
            f"**`{name}{_signature(function)}`**\n\n{_markdown(inspect.getdoc(function))}\n\n"
        )
    yield from found


def _signature(function: Any) -> str:
    head = _head(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0])
    return head[len(function.__name__) :]


def _scripts_page() -> Iterator[str]:
    yield (
        "# What scripts import\n\nThese modules are in the Python of scripts. They need no"
        " Flink.\n\n"
    )
    for module, what in SCRIPT_MODULES.items():
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
        yield f"## {module}\n\n{what}. {_markdown(ast.get_docstring(tree) or '')}\n\n"
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            if node.name in _SHOWN.get(module, {node.name}):
                yield from _node(node)


def _node(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    doc = ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        yield f"### {node.name}\n\n```python\n{_head(node)}\n```\n\n{_markdown(doc)}\n\n"
        return
    yield f"### {node.name}\n\n{_markdown(doc)}\n\n"
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            yield f"**`{_head(method)}`**\n\n{_markdown(ast.get_docstring(method))}\n\n"


def _head(function: ast.FunctionDef) -> str:
    """Return name, arguments and result; without quotes around types, and without private names."""
    types = dict(_PRIVATE_TYPES)
    if function.args.args and function.args.args[0].arg in ("self", "cls"):
        annotation = function.args.args.pop(0).annotation
        types.update({annotation.id: "Self"} if isinstance(annotation, ast.Name) else {})
    for node in ast.walk(function.args):
        if isinstance(node, ast.arg) and node.annotation is not None:
            node.annotation = _plain(node.annotation, types)
    arguments = re.sub(r"(?<=[\w\]])=(?=\S)", " = ", ast.unparse(function.args))
    returns = (
        f" -> {ast.unparse(_plain(function.returns, types))}"
        if function.returns is not None
        else ""
    )
    return f"{function.name}({arguments}){returns}"


def _plain(annotation: ast.expr, types: dict[str, str]) -> ast.expr:
    text = ast.unparse(annotation).replace("'", "")
    return ast.parse(
        re.sub(r"\b_[A-Z]\w+", lambda found: types[found.group()], text), mode="eval"
    ).body


def _markdown(doc: str | None) -> str:
    """Return a docstring in Google form as Markdown: sections become bold words and lists."""
    parts, section = [], ""
    for paragraph in re.split(rf"\n(?=(?:{'|'.join(_SECTIONS)}):\n)", doc or ""):
        head, _, rest = paragraph.partition(":\n")
        if head.strip() in _SECTIONS:
            section = head.strip()
            parts.append(f"**{section}**\n\n{_entries(textwrap.dedent(rest).strip(), section)}")
        else:
            parts.append(_escaped(paragraph))
    return "\n\n".join(parts)


def _entries(text: str, section: str) -> str:
    if section in ("Returns", "Yields"):
        return _escaped(text)
    if section.startswith("Example"):
        return f"```python\n{text}\n```"
    entries = re.split(r"\n(?=\S)", text)
    named = (re.match(r"([\w.*]+)(?: \(([^)]*)\))?: (.*)", entry, re.DOTALL) for entry in entries)
    lines = []
    for entry, found in zip(entries, named):
        words = f"`{found[1]}`: {found[3]}" if found else entry
        lines.append("- " + _escaped(" ".join(words.split())))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Return text whose indented parts are code, and whose brackets and stars outside code are
    plain.
    """
    lines = []
    blocks = re.split(r"((?:^ {4}.*(?:\n|\Z)|^\s*\n(?= {4}))+)", text, flags=re.MULTILINE)
    for block in blocks:
        if block.startswith("    ") or (block.strip() and block.lstrip("\n").startswith("    ")):
            lines.append(f"\n```text\n{inspect.cleandoc(block)}\n```\n")
        else:
            pieces = re.split(r"(`[^`]*`)", block)
            lines.append(
                "".join(
                    p if p.startswith("`") else re.sub(r"([*<\[\]{}$])", r"\\\1", p) for p in pieces
                )
            )
    return "".join(lines)


def main() -> None:
    """Write the pages."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
