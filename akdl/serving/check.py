"""Whether an export is a model: it is loaded once, in a clean process, before it is called one.

`python -m akdl.serving.check FOLDER` loads the SavedModel in a folder and prints what it is as one JSON object: the version of
TensorFlow that loaded it, and its graphs with their tags, signatures, inputs and outputs. If there is no model, or a broken
one, the reason goes there as `error`, and the exit status is 1.

A clean process has nothing that only training has: no variables in memory, no classes of the script, no GPU, no cluster. So a
model that loads there loads elsewhere.
"""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

from akdl.serving.prediction_errors import ServingError
from akdl.serving.runners import FunctionRunner, SessionRunner, runs_eagerly
from akdl.serving.signature import Signature, TensorDescription, read_signatures
from akdl.serving.tensorflow_import import import_tensorflow
from akdl.storage.model_archive import ModelError, find_saved_model, write_model
from akdl.storage.model_place import put_model

TIMEOUT_S = 600.0  # TensorFlow's start and a model of some GB from a slow disk
_LAST_LINES = 20


def describe(folder: str) -> Dict[str, Any]:
    """Load every graph of the SavedModel in `folder`, in this process, and return what it is, as JSON values.

    Raises:
        ModelError: There is no model, several, or a broken one, or one that no predictor could call.
    """
    import tensorflow as tf

    model = find_saved_model(folder)
    graphs = read_signatures(model)
    served = {tags: signatures for tags, signatures in graphs.items() if signatures}
    if not served:
        found = "; ".join(repr(",".join(tags)) for tags in graphs)
        raise ModelError(
            f"the SavedModel in {model} has no signature to predict with, in its graphs {found}: export it with `signatures`"
        )
    runner: Any = FunctionRunner if runs_eagerly() else SessionRunner
    for tags, signatures in served.items():
        signature = next(iter(signatures.values()))  # the others are in the same graph
        try:
            runner(model, tags, signature, signature.outputs, None).close()
        except Exception as error:  # TensorFlow raises a great many types here
            raise ModelError(f"the SavedModel in {model} cannot be loaded: {type(error).__name__}: {error}") from error
    return {
        "tensorflow_version": tf.__version__,
        "graphs": [
            {"tags": list(tags), "signatures": {key: _as_json(signature) for key, signature in signatures.items()}}
            for tags, signatures in graphs.items()
        ],
    }


def describe_in_clean_process(folder: str, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
    """Return what `describe` returns, from a process started for it.

    Raises:
        ModelError: See `describe`; also when the process crashes or takes too long.
    """
    find_saved_model(folder)  # what can be said without a process is said at once
    command = [sys.executable, "-m", "akdl.serving.check", os.path.abspath(folder)]
    try:
        ended = subprocess.run(
            command, env=_clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise ModelError(f"the SavedModel in {folder} could not be loaded within {timeout_s:g} seconds") from None
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    try:
        said = json.loads(lines[-1]) if lines else {}
    except ValueError:
        said = {}
    if ended.returncode == 0 and "graphs" in said:
        described: Dict[str, Any] = said
        return described
    if "error" in said:
        raise ModelError(said["error"])
    errors = ended.stderr.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    raise ModelError(
        "the SavedModel in {} could not be loaded: the process that tried ended with status {}, its last lines: {}".format(
            folder, ended.returncode, "\n".join(errors) or "none"
        )
    )


def write_checked_model(
    folder: str,
    output_writer: Any,
    timeout_s: float = TIMEOUT_S,
    checkpoint: Optional[str] = None,
    model_dir: Optional[str] = None,
) -> None:
    """Check the SavedModel in `folder` in a clean process and send it as rows, see `akdl.storage.model_archive.write_model`.

    The manifest says what the check has found. Nothing is sent unless it is a model.

    Args:
        model_dir: Where the model is written, so that one row names it; None for rows with the model itself.
    """
    details = describe_in_clean_process(folder, timeout_s)
    if model_dir is None:
        write_model(folder, output_writer, details, checkpoint)
    else:
        row = put_model(folder, model_dir, details, checkpoint)
        output_writer.write_batch({"model_id": [0], "model_info": [row]})


def main(arguments: Sequence[str]) -> int:
    """Check the folder that the arguments name."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m akdl.serving.check FOLDER\n")
        return 2
    import_tensorflow()
    try:
        said = describe(arguments[0])
    except (ModelError, ServingError) as error:
        said = {"error": str(error)}
    print(json.dumps(said, sort_keys=True))
    return 1 if "error" in said else 0


def _as_json(signature: Signature) -> Dict[str, Any]:
    def tensors(found: Sequence[TensorDescription]) -> Dict[str, Any]:
        return {tensor.key: {"dtype": tensor.dtype, "shape": tensor.shape and list(tensor.shape)} for tensor in found}

    return {"inputs": tensors(signature.inputs), "outputs": tensors(signature.outputs)}


def _clean_environment() -> Dict[str, str]:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path: List[str] = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "TF_CONFIG" and not name.startswith("AKDL_")}
    # The GPU's memory belongs to the script that has trained.
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": "-1", "PYTHONIOENCODING": "utf-8"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
