"""Write operators/params/accessors.pyi, or another file: `python scripts/build_stubs.py [FILE]`.

The file is not in git, because it repeats the catalogs. `make setup` writes it for mypy and
editors, and `setup.py` for wheels.
"""

import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUB = ROOT / "operators" / "params" / "accessors.pyi"

HEADER = '''"""Made by scripts/build_stubs.py from the catalogs of parameters; do not edit."""
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Self

from operators.params.function_script import FunctionScript
from operators.params.param import WithParams

ALL: tuple[type[WithParams], ...]
'''


def build(output: pathlib.Path) -> None:
    """Write the stub file."""
    from operators.params import accessors
    from operators.params.param import OF_TABLES

    lines = [HEADER]
    for kind in accessors.ALL:
        lines += [
            "",
            f"class {kind.__name__}(WithParams):",
            f'    """{kind.__doc__}"""',
            "",
            "    def __init__(",
        ]
        lines += ["        self,", "        *,"]
        for param in kind.params:
            lines += [f"        {name}: {param.annotation} = ...," for name in param.names]
        lines += ["    ) -> None: ..."]
        for param in kind.params:
            for name in param.names:
                suffix, doc = name[0].upper() + name[1:], f'        """{param.summary}"""'
                lines += [f"    def set{suffix}(self, value: {param.annotation}) -> Self:", doc, ""]
                if name != OF_TABLES:
                    lines += [f"    def get{suffix}(self) -> {param.returned}:", doc, ""]
        lines.pop()
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    # The parameters need neither Flink nor TensorFlow, which `import operators` would load and a
    # build does not have.
    sys.modules["operators"] = package = types.ModuleType("operators")
    package.__path__ = [str(ROOT / "operators")]
    build(pathlib.Path(sys.argv[1]) if sys.argv[1:] else STUB)
