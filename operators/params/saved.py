"""Parameters in the file of a saved pipeline, which is not trusted: it must not choose what runs or
is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from akdl.near_names import did_you_mean, short
from bridge.exceptions import ConfigurationError
from operators.params import catalog

# Columns, names in the model, sizes and seconds. Any other parameter names code, hosts, files or
# environments.
HARMLESS = frozenset(
    {
        "outputSchemaStr",
        "outputSignatureDefs",
        "selectedCols",
        "inputSignatureDefs",
        "signatureDefKey",
        "graphDefTag",
        "reservedCols",
        "defaults",
        "inferBatchSize",
        "inferBatchBytes",
        "intraOpParallelism",
        "errorCol",
        "cellsHoldBatches",
        "startTimeout",
        "stallTimeout",
        "progress",
        "MLEnvironmentId",
        "modelStreamScanInterval",
        "chunkWait",
        "chunkRows",
        "inferTimeout",
        "gpusPerModel",
        "inferProcesses",
        "modelCol",
        "modelKeyCol",
        "defaultModel",
        "modelCacheBytes",
    }
)
# Alink's files may have any of the names of a parameter, so aliases are known too.
KNOWN = {
    name: param
    for param in (*catalog.PREDICT_STREAM, *catalog.SAVED_MODEL_PREDICT_STREAM)
    for name in param.names
}


def saved_params(where: str, given: Mapping[str, object], trusted: bool) -> dict[str, Any]:
    """Checked parameters of a stage in a saved pipeline; names of code, hosts and files only if
    `trusted`.
    """
    found = {}
    for name, value in given.items():
        if name not in KNOWN:
            near = did_you_mean(name, KNOWN)
            raise ConfigurationError(
                f"{where}: the file sets the unknown parameter {short(name)}{near}"
            )
        own = KNOWN[name].name
        # A file may write parameters that were not set, as null or as an empty value. These need no
        # trust, so they are left out.
        if value is not None and (own in HARMLESS or value not in ("", [])):
            found[own] = value
    refused = sorted(found.keys() - HARMLESS)
    if refused and not trusted:
        raise ConfigurationError(
            f"{where}: the file sets {', '.join(map(repr, refused))}. Parameters that name code,"
            " hosts, files or environments are taken only from files that you trust: if you trust"
            " this one, pass trusted=True"
        )
    if "outputSchemaStr" not in found:
        raise ConfigurationError(
            f"{where}: the file does not set the required parameter 'outputSchemaStr'"
        )
    return {
        name: (
            KNOWN[name].checked(
                f"{where}: parameter {name!r}", each, short if name in HARMLESS else _only_type
            )
        )
        for name, each in found.items()
    }


def _only_type(value: object) -> str:
    """Text for an address or a variable, which may hold a password."""
    return f"a value of type {type(value).__name__}"
