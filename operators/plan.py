"""From an operator's parameters and its input's columns to the settings of a group of processes."""

from __future__ import annotations

import ast
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridge.equal_steps import PAD
from bridge.exceptions import ConfigurationError
from bridge.schema import Kind, Schema
from bridge.settings import GroupSettings, UserFile

MODEL_SCHEMA = Schema.parse("model_id BIGINT, model_info STRING")  # of every model table, as Alink has it


def plan(
    operator: str,
    kind: str,
    values: Mapping[str, Any],
    input_schema: Schema,
    extra_schemas: Sequence[Schema],
    parallelism: int,
    env_variable: str,
    print_process_info: bool,
) -> GroupSettings:
    """Return what the group of an operator is told.

    Args:
        operator: Name of the operator.
        kind: "batch" for rows in, rows out; "train" for a model table out.
        values: Every parameter of `catalog.SCRIPT` or `catalog.TRAIN` by name.
        input_schema: The columns that reach the script.
        extra_schemas: The columns of each extra input.
        parallelism: Parallelism of the job, for counts that are not set.
        env_variable: Environment variable with the default of `pythonEnv`.
        print_process_info: Whether the console shows what the processes print.

    Raises:
        ConfigurationError: A file, an environment or a count that cannot be used.
    """
    workers, servers = counts(operator, values["numWorkers"], values["numPSs"], parallelism)
    if values["chiefCoordinates"] and not (workers > 1 and servers):
        raise ConfigurationError(
            f"{operator}: chiefCoordinates needs a worker beside the chief and a parameter server, so numWorkers of at least 2 "
            f"and numPSs of at least 1; there would be {workers} and {servers}"
        )
    weight_column = values["weightCol"] if values["equalSteps"] == PAD else None
    _check_weight(operator, input_schema, weight_column)
    files, main_script = read_files(operator, values["userFiles"], values["mainScriptFile"])
    return GroupSettings(
        operator=operator,
        kind=kind,
        num_workers=workers,
        num_ps=servers,
        input_schema=input_schema,
        extra_schemas=tuple(extra_schemas),
        output_schema=MODEL_SCHEMA if kind == "train" else Schema.parse(values["outputSchemaStr"]),
        main_script=main_script,
        user_files=files,
        chief_coordinates=values["chiefCoordinates"],
        user_params=values["userParams"],
        python=find_python(operator, values["pythonEnv"] or os.environ.get(env_variable, "")),
        intra_op_parallelism=values["intraOpParallelism"],
        exact_doubles=values["exactDoubles"],
        print_process_info=print_process_info,
        equal_steps=values["equalSteps"],
        weight_column=weight_column,
        host_network=values["hostNetwork"],
        gpus_per_worker=values["gpusPerWorker"],
        start_timeout_s=values["startTimeout"],
        stall_timeout_s=values["stallTimeout"],
    )


def _check_weight(operator: str, schema: Schema, weight_column: str | None) -> None:
    for column in schema:
        if column.name == weight_column and (column.type.is_array or column.type.kind is not Kind.FLOAT):
            raise ConfigurationError(
                f"{operator}: weightCol {weight_column!r} is a column of the table and would have to be a FLOAT; it is a "
                f"{column.type.sql}: cast it in SQL, or choose another name with weightCol"
            )


def counts(operator: str, workers: int | None, servers: int | None, parallelism: int) -> tuple[int, int]:
    """Return the numbers of workers and parameter servers.

    Both as given when both are set. One that is not set is what the other leaves of the parallelism. When neither is set, a
    quarter of the parallelism, at least one, are parameter servers; none when it is 1.

    Raises:
        ConfigurationError: What is set does not fit into the parallelism.
    """
    if workers is not None and servers is not None:
        return workers, servers
    if workers is None and servers is None:
        servers = max(parallelism // 4, 1) if parallelism > 1 else 0
        return parallelism - servers, servers
    name, given = ("numWorkers", workers) if workers is not None else ("numPSs", servers)
    assert given is not None
    rest = parallelism - given
    if rest < (1 if workers is None else 0):
        other = "numPSs" if workers is not None else "numWorkers"
        raise ConfigurationError(
            f"{operator}: {name}={given} leaves no room in the parallelism of {parallelism} for {other}, which is not set: "
            f"set {other} too, or raise the parallelism"
        )
    return (given, rest) if workers is not None else (rest, given)


def read_files(operator: str, user_files: list[str], main_script: str) -> tuple[tuple[UserFile, ...], str]:
    """Read the user's files as they are now, and return them with the path of the main script among them.

    Raises:
        ConfigurationError: A file is missing, stands twice under one name, or is no valid Python.
    """
    sources: dict[str, pathlib.Path] = {}
    for named in user_files:
        for path, file in _expand(_local(operator, "userFiles", named)):
            _add(operator, sources, path, file)
    main = _local(operator, "mainScriptFile", main_script)
    if not main.is_file():
        raise ConfigurationError(f"{operator}: mainScriptFile {main} is no file")
    found = [path for path, file in sources.items() if file == main]
    if not found:
        _add(operator, sources, main.name, main)
    files = tuple(UserFile(path, file.read_bytes()) for path, file in sources.items())
    for read in files:
        _check_syntax(operator, read, sources[read.path])
    return files, found[0] if found else main.name


def find_python(operator: str, python_env: str) -> str | None:
    """Return the interpreter that `pythonEnv` names; None when it is empty.

    Raises:
        ConfigurationError: It names neither a folder with `bin/python` nor an interpreter.
    """
    if not python_env:
        return None
    if "://" in python_env and not python_env.startswith("file://"):
        raise ConfigurationError(
            f"{operator}: pythonEnv {python_env!r}: only a folder or an interpreter on the hosts is supported so far"
        )
    path = _absolute(python_env)
    python = path / "bin" / "python" if path.is_dir() else path
    if not python.is_file() or not os.access(python, os.X_OK):
        raise ConfigurationError(
            f"{operator}: pythonEnv {python_env!r}: expected a folder with bin/python or an interpreter (archives are not "
            f"supported so far); {python} is {'not executable' if python.is_file() else 'no file'}"
        )
    return str(python)


def _local(operator: str, parameter: str, named: str) -> pathlib.Path:
    if "://" in named and not named.startswith("file://"):
        raise ConfigurationError(
            f"{operator}: {parameter} {named!r}: only local paths and file:// are supported so far; fetch the file first"
        )
    path = _absolute(named)
    if not path.exists():
        raise ConfigurationError(f"{operator}: {parameter} {named!r}: there is no file {path}")
    return path


def _absolute(named: str) -> pathlib.Path:
    # Not resolve(): a link keeps the name that the script knows it by.
    return pathlib.Path(os.path.abspath(named.removeprefix("file://")))


def _expand(path: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Yield (path in the work folder, file) for a file, or for all files below a folder."""
    if path.is_file():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(path.parent)), file


def _add(operator: str, sources: dict[str, pathlib.Path], path: str, file: pathlib.Path) -> None:
    if sources.setdefault(path, file) != file:
        raise ConfigurationError(f"{operator}: two user files would both be {path!r}: {sources[path]} and {file}")


def _check_syntax(operator: str, file: UserFile, source: pathlib.Path) -> None:
    if not file.path.endswith(".py"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the script's own code, such as odd escapes
            ast.parse(file.content, str(source))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{source}, line {line}" if line else str(source)
        raise ConfigurationError(f"{operator}: {where}: {getattr(error, 'msg', error)}") from None
