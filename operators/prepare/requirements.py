"""Requirements of a script, from `pythonEnv`, from a file that it names, or from the script itself
(PEP 723).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from akdl.masking import masked
from akdl.storage.files import is_remote, local_path
from bridge.exceptions import ConfigurationError, refused_at

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The pattern is the one of PEP 723.
_BLOCK = re.compile(r"^# /// script\n((?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)
# As pip reads it, a comment begins at the start of a line or after a blank. Any other # belongs to
# an address, such as #egg=name.
_COMMENT = re.compile(r"(^|\s)#.*")
# An option that names another file or folder, as pip reads it: anywhere in a line, shortened, and
# joined to its value.
_ELSEWHERE = re.compile(
    r"""(^|[\s"'])(-[rce]|--(?!require-hashes|extra-index-url|config-settings?)[rce])"""
)


@dataclass(frozen=True)
class Wanted:
    """Requirements of an environment: `lines` of a requirements file, and a version specifier of
    Python.
    """

    lines: tuple[str, ...]
    python: str = ""

    @property
    def shown(self) -> str:
        python = [f"Python {self.python}"] if self.python else []
        return (
            masked(", ".join([*python, *(line for line in self.lines if not line.startswith("-"))]))
            or "no requirements"
        )


def wanted_by(python_env: str | Sequence[str]) -> Wanted | None:
    """Requirements in `pythonEnv`; None where it names an environment. A bare name is a path, and a
    requirement in a list.
    """
    if not isinstance(python_env, str):
        return _of_lines("", python_env)
    if python_env.endswith((".txt", ".toml")) and not is_remote(python_env):
        return _of_file(local_path(python_env))
    # A file or folder that exists wins over a requirement of the same text.
    if os.path.exists(python_env):
        return None
    try:
        requirement = Requirement(python_env)
    except InvalidRequirement:
        return None
    # A bare name may be that of a mistyped folder, which must not install a package.
    named = requirement.specifier or requirement.url or requirement.extras
    return _of_lines("", [python_env]) if named else None


def wanted_in(source: bytes) -> Wanted | None:
    """Requirements in the inline metadata of a script; None without a block."""
    blocks = _BLOCK.findall(source.decode("utf-8", "replace").replace("\r\n", "\n"))
    if len(blocks) > 1:
        raise ConfigurationError(f"expected one block `# /// script`, found {len(blocks)}")
    if not blocks:
        return None
    return _of_table(
        "# /// script",
        _toml("# /// script", "".join(line[2:] + "\n" for line in blocks[0].splitlines())),
    )


def _of_file(path: str) -> Wanted:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: {getattr(error, 'strerror', None) or 'the file is not valid UTF-8'}"
        ) from None
    # As in pip, a backslash at the end of a line joins it with the next one.
    if path.endswith(".txt"):
        return _of_lines(
            path, (_COMMENT.sub("", line) for line in text.replace("\\\n", " ").splitlines())
        )
    project = _toml(path, text).get("project", {})
    if "dependencies" in project.get("dynamic", []):
        raise ConfigurationError(
            f"{path}: its dependencies are dynamic: write them to a requirements.txt and name that"
        )
    return _of_table(path, project)


def _toml(where: str, text: str) -> dict[str, Any]:
    with refused_at(where, tomllib.TOMLDecodeError):
        return dict(tomllib.loads(text))


def _of_table(where: str, table: dict[str, Any]) -> Wanted:
    lines = table.get("dependencies", [])
    python = table.get("requires-python", "")
    if (
        not isinstance(lines, list)
        or not all(isinstance(line, str) for line in lines)
        or not isinstance(python, str)
    ):
        raise ConfigurationError(
            f"{where}: expected `dependencies`, a list of strings, and `requires-python`, a string"
        )
    return _of_lines(where, [*([f"python{python}"] if python else []), *lines])


def _of_lines(where: str, lines: Iterable[str]) -> Wanted:
    """Check the lines of a requirements file; `python>=3.10` among them chooses the Python."""
    kept = []
    python = []
    for line in filter(None, map(str.strip, lines)):
        # Options such as --hash may follow a requirement in a file, but the parser of requirements
        # refuses them.
        requirement = re.split(r"\s--", line)[0]
        try:
            if (
                _ELSEWHERE.search(line)
                or re.search(r"[\r\n]", line)
                or (line.startswith("-") and not where.endswith(".txt"))
            ):
                raise InvalidRequirement(
                    "write the requirements of other files and folders there themselves"
                )
            # Python itself is not a package, so its version chooses the interpreter.
            if re.match(r"python\s*[<>=!~]", line, re.IGNORECASE):
                python.append(str(SpecifierSet(line[len("python") :])))
            elif not line.startswith("-") and _is_akdl(Requirement(requirement)):
                raise InvalidRequirement(
                    "akdl comes with the job and is in no package index: leave it out"
                )
            else:
                kept.append(line)
        except (InvalidRequirement, InvalidSpecifier) as error:
            reason = masked(str(error).splitlines()[0])
            prefix = f"{where}: " if where else ""
            raise ConfigurationError(
                f"{prefix}expected a requirement such as 'tensorflow==2.21.*', got"
                f" {masked(line)!r}: {reason}"
            ) from None
    return Wanted(tuple(kept), ",".join(python))


def _is_akdl(requirement: Requirement) -> bool:
    return requirement.name.lower() == "akdl" and not requirement.url
