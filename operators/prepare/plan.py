"""Settings of a group of processes, from an operator's parameters and its input's columns.

`plan` is the place where parameters are checked against each other. A check of a single value
stands in `operators/params/checks.py`. What needs Flink's environment stands in
`operators/script.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, place_of
from akdl.storage.training_folders import refuse_pattern
from akdl.wire.column_type import Kind
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Schema, split_watermark
from bridge.settings import MAX_PARALLELISM, PAD, GroupSettings
from operators.params.checks import shared_path
from operators.params.function_script import FunctionScript
from operators.params.param import fields_of
from operators.prepare.certificate import new_certificate
from operators.prepare.main_script import check_group, check_main, estimator_in_step, trains_apart
from operators.prepare.python_env import check_python, find_python
from operators.prepare.requirements import wanted_in
from operators.prepare.user_files import read_files

# Every model table has these two columns, because Alink's model tables have them too.
MODEL_SCHEMA = Schema.parse("model_id BIGINT, model_info STRING")


def plan(
    operator: str,
    kind: str,
    values: Mapping[str, Any],
    input_schema: Schema,
    extra_schemas: Sequence[Schema],
    parallelism: int,
    env_variable: str,
    print_process_info: bool,
    elsewhere: bool = False,
) -> GroupSettings:
    """Check the parameters of an operator against each other and freeze them as `GroupSettings`.

    The user's files are read here, so later changes of a file don't reach a job that is already
    linked. With `elsewhere`, jobs run on the hosts of a cluster, and neither the interpreter nor
    TensorFlow of this program is checked: those hosts have their own.

    Raises:
        ConfigurationError: A parameter is wrong, contradicts another one, or names a missing file.
    """
    chosen = values["numWorkers"]
    elastic = isinstance(values["numWorkers"], tuple)
    workers, servers = counts(
        operator, chosen[1] if elastic else chosen, values["numPSs"], parallelism
    )
    least = chosen[0] if elastic else workers
    if elastic:
        _check_elastic(
            f"{operator}: numWorkers={chosen}", values["checkpointDir"], workers + servers
        )
    if values["chiefCoordinates"] and not (least > 1 and servers):
        raise ConfigurationError(
            f"{operator}: chiefCoordinates needs a worker besides the chief and a parameter server,"
            f" so numWorkers of at least 2 and numPSs of at least 1; there would be {least} and"
            f" {servers}"
        )
    if values.get("keepFailedRows") and values["logDir"] is None:
        raise ConfigurationError(
            f"{operator}: keepFailedRows keeps rows in logDir, which is not set: set logDir too"
        )
    if values.get("readOnce") and (extra_schemas or values["chiefCoordinates"]):
        other = (
            "extra inputs, which come among the rows"
            if extra_schemas
            else "chiefCoordinates, whose chief reads files"
        )
        raise ConfigurationError(
            f"{operator}: readOnce cannot be used with {other}; remove one of the two"
        )
    weight_column = values["weightCol"] if values.get("equalSteps") == PAD else None
    _check_weight(operator, input_schema, weight_column)
    files, main_script = read_files(operator, values["userFiles"], values["mainScriptFile"])
    own = None
    source = b""
    needs_estimator = False
    script = values["mainScriptFile"]
    # Other files, such as compiled modules, have no source to check and fail when they are
    # imported. A function was checked when it became a script.
    if main_script.endswith(".py") and not isinstance(script, FunctionScript):
        source = next(file.content for file in files if file.path == main_script)
        needs_estimator = check_main(operator, shown(script), source, workers + servers)
        with refused_at(f"{operator}: {shown(script)}", ConfigurationError):
            own = None if values["pythonEnv"] else wanted_in(source)
    if elastic and not servers and (needs_estimator or estimator_in_step(source)):
        raise ConfigurationError(
            f"{operator}: numWorkers={chosen}: an Estimator whose workers train in step cannot"
            " change their number, since TensorFlow gives each worker batches of its own: a step"
            " of fewer workers would be another step, and max_steps another training. Set one"
            " number, or numPSs of at least 1"
        )
    # The order is a promise to users: `pythonEnv` wins over the requirements in the script, and
    # these win over the variable of the host.
    python = find_python(
        operator, values["pythonEnv"] or own or os.environ.get(env_variable, ""), elsewhere
    )
    if not elsewhere:
        check_python(
            operator, python, main_script if needs_estimator else None, values["startTimeout"]
        )
        if python is None and workers + servers > 1:
            # Without `pythonEnv` the script uses the Keras of this program, so its version can
            # be read here. An environment of its own is checked by the process.
            check_group(operator, source, values["envVars"])
    settings = {
        **fields_of(GroupSettings, values),
        "operator": operator,
        "kind": kind,
        "num_workers": workers,
        "num_ps": servers,
        "input_schema": input_schema,
        "extra_schemas": tuple(extra_schemas),
        "output_schema": (
            MODEL_SCHEMA
            if kind == "train"
            else Schema.parse(split_watermark(values["outputSchemaStr"])[0])
        ),
        "main_script": main_script,
        "user_files": files,
        "python": python,
        "env_vars": tuple(values["envVars"]),
        "print_process_info": print_process_info,
        "weight_column": weight_column,
        "least_workers": least if elastic else None,
        "trains_apart": (
            kind == "train"
            and workers > 1
            # The default number of workers follows from the parallelism, so a user may have several
            # workers without having asked for them. The warning at the end is for this case.
            and values["numWorkers"] is None
            and trains_apart(files, main_script)
        ),
        "certificate": (
            # A group of one process sends no messages to others.
            new_certificate(operator) if values["groupTls"] and workers + servers > 1 else None
        ),
        "checkpoint_dir": (
            _absolute(operator, "checkpointDir", values)
            or _absolute(operator, "checkpointFilePath", values)
        ),
        "log_dir": _absolute(operator, "logDir", values),
        "model_dir": _absolute(operator, "modelDir", values) if kind == "train" else None,
    }
    if kind == "stream":
        settings["watermark"] = split_watermark(values["outputSchemaStr"])[1]
        # Rows that wait in this queue reach the script late. It is as small as it can be without
        # leaving the process idle.
        settings["queue_bytes"] = 2 << 20
        if values["publishDir"]:
            settings["publish_dir"] = shared_path(operator, "publishDir", values["publishDir"])
    return GroupSettings(**settings)


def _check_elastic(given: str, checkpoint_dir: str | None, size: int) -> None:
    """Refuse a range of workers without checkpoints, or with more processes than keys.

    Each change of size is a new job, which continues from the last checkpoint.
    """
    if checkpoint_dir is None:
        raise ConfigurationError(
            f"{given} needs checkpointDir, from which a training with other workers continues"
        )
    # Each member has a key of its own, and Flink distributes keys over `MAX_PARALLELISM` key
    # groups, so a larger group could not be dealt again.
    if size > MAX_PARALLELISM:
        raise ConfigurationError(
            f"{given}: such a group has at most {MAX_PARALLELISM} processes, not {size}"
        )


def _absolute(operator: str, parameter: str, values: Mapping[str, Any]) -> str | None:
    """Absolute path, or unchanged address, of a folder parameter.

    The processes have working directories of their own, in which a relative path would be another
    one.
    """
    address: str | None = values.get(parameter)
    if address is None:
        return None
    with refused_at(f"{operator}: parameter {parameter!r}", FileError):
        # TensorFlow and fsspec take brackets and stars in these addresses for patterns, so what is
        # written would not be found again.
        if "checkpoint" in parameter or (parameter == "modelDir" and is_remote(address)):
            refuse_pattern(address)
        return place_of(address)


def _check_weight(operator: str, schema: Schema, weight_column: str | None) -> None:
    """Refuse a column of the table that has the name of the weights but cannot hold them."""
    for column in schema:
        if column.name == weight_column and (
            column.type.is_array or column.type.kind is not Kind.FLOAT
        ):
            raise ConfigurationError(
                f"{operator}: weightCol {weight_column!r} is a column of the table and would have"
                f" to be a FLOAT; it is a {column.type.sql}: cast it in SQL, or choose another name"
                " with weightCol"
            )


def counts(
    operator: str, workers: int | None, servers: int | None, parallelism: int
) -> tuple[int, int]:
    """Numbers of workers and parameter servers; one that is not set gets the rest of the
    parallelism.
    """
    if workers is not None and servers is not None:
        return workers, servers
    if workers is None and servers is None:
        # These are Alink's numbers where neither is set: a quarter of the parallelism for parameter
        # servers, at least one.
        servers = max(parallelism // 4, 1) if parallelism > 1 else 0
        return parallelism - servers, servers
    name, other, given = (
        ("numPSs", "numWorkers", servers) if workers is None else ("numWorkers", "numPSs", workers)
    )
    # The type checker does not see that exactly one of the two numbers is set here.
    assert given is not None
    rest = parallelism - given
    if rest < (1 if workers is None else 0):
        raise ConfigurationError(
            f"{operator}: {name}={given} leaves no room in the parallelism of {parallelism} for"
            f" {other}, which is not set: set {other} too, or raise the parallelism"
        )
    return (rest, given) if workers is None else (given, rest)
