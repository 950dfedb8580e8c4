"""The four functions of a user's module, and the checks of their results.

`model_fn` may take `config` too, as an Estimator allows. Mistakes in signatures are reported
without TensorFlow, whose import takes seconds.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable, Mapping

from akdl.features import unsharded
from akdl.tf_version import require_estimator
from akdl.user_code.config_file import Config
from akdl.user_code.module import UserModuleError, file_of

ARGUMENTS: Mapping[str, list[str]] = {
    "model_fn": ["features", "labels", "mode", "params"],
    "train_input_fn": ["path", "params"],
    "eval_input_fn": ["path", "params"],
    "serving_input_receiver_fn": [],
}


class Functions:
    """The four functions of a module or namespace, with their arguments.

    Each call gets `path`, and a copy of `params`.
    """

    def __init__(self, module: Any, path: str, params: Config) -> None:
        mistakes = signature_mistakes(module)
        if mistakes:
            needed = "\n".join(
                f"    def {name}({', '.join(names)})" for name, names in ARGUMENTS.items()
            )
            listed = "\n".join(f"- {one}" for one in mistakes)
            raise UserModuleError(
                f"{file_of(module)} does not define the four functions of an"
                f" Estimator:\n{listed}\nexpected are\n{needed}"
            )
        self._module = module
        self.file = file_of(module)
        self._path = path
        self._params = params

    def __deepcopy__(self, memo: object) -> Functions:
        """Stay as it is in a copy of an Estimator, which TensorFlow makes for workers in step: a
        module cannot be copied.
        """
        return self

    def model(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Call `model_fn`, and let its errors pass as they are."""
        function = self._module.model_fn
        more = {"config": config} if "config" in inspect.signature(function).parameters else {}
        return function(features=features, labels=labels, mode=mode, params=self._copy(), **more)

    def checked_model(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Call `model_fn` and check its result; for the trials before a training.

        Raises:
            UserModuleError: It fails, or returns no EstimatorSpec of this mode.
        """
        try:
            spec = self.model(features, labels, mode, config)
        except Exception as error:
            raise UserModuleError(
                f"model_fn in {self.file} failed in mode {mode}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(spec, require_estimator("model_fn").EstimatorSpec):
            raise UserModuleError(
                f"model_fn in {self.file}, mode {mode}: expected an EstimatorSpec, got"
                f" {_kind(spec)}"
            )
        if spec.mode != mode:
            raise UserModuleError(
                f"model_fn in {self.file}, mode {mode}: got an EstimatorSpec of mode {spec.mode};"
                " pass the argument mode on"
            )
        return spec

    def input_fn(self, name: str, distributed: bool, own_rows: bool) -> Callable[[], Any]:
        """Return `train_input_fn` or `eval_input_fn`.

        With `own_rows` no strategy may shard its dataset.
        """
        function = getattr(self._module, name)

        def make_input() -> Any:
            """Call the user's function in the graph of the Estimator, and check its result."""
            # This import is late, so that mistakes in signatures are reported without TensorFlow.
            import tensorflow as tf

            found = function(path=self._path, params=self._copy())
            # Datasets of TensorFlow 1 derive from this class too.
            if isinstance(found, tf.compat.v2.data.Dataset):
                # Each worker has its own rows already. A strategy would shard them again and train
                # on a part.
                return unsharded(found) if own_rows else found
            if not isinstance(found, tuple) or len(found) != 2:
                raise UserModuleError(
                    f"{name} in {self.file}: expected a tf.data.Dataset or (features, labels), got"
                    f" {_kind(found)}"
                )
            if distributed:
                raise UserModuleError(
                    f"{name} in {self.file}: got a tuple; if several processes train it has to"
                    " return a tf.data.Dataset"
                )
            return found

        return make_input

    def receive(self) -> Any:
        """Return the serving receiver of the user's function, in the current graph.

        The function may return a receiver, or a function that returns one, such as the result of
        `tf.estimator.export.build_parsing_serving_input_receiver_fn`.
        """
        export = require_estimator("serving_input_receiver_fn").export
        try:
            found = self._module.serving_input_receiver_fn()
            # A receiver is a tuple and cannot be called, but the builders of tf.estimator return
            # functions.
            if callable(found):
                found = found()
        except Exception as error:
            raise UserModuleError(
                f"serving_input_receiver_fn in {self.file} failed: {type(error).__name__}: {error}"
            ) from error
        if isinstance(found, (export.ServingInputReceiver, export.TensorServingInputReceiver)):
            return found
        raise UserModuleError(
            f"serving_input_receiver_fn in {self.file}: expected a ServingInputReceiver, a"
            " TensorServingInputReceiver, or the result of build_parsing_serving_input_receiver_fn"
            f" or build_raw_serving_input_receiver_fn of tf.estimator.export, got {_kind(found)}"
        )

    def _copy(self) -> dict[str, Any]:
        """Copy the parameters, since a function that changes them is called again later."""
        return copy.deepcopy(dict(self._params))


def signature_mistakes(module: Any) -> list[str]:
    """List missing functions and wrong signatures, without calling anything."""
    found = []
    for name, arguments in ARGUMENTS.items():
        function = getattr(module, name, None)
        if not callable(function):
            found.append(f"{name} is missing")
            continue
        signature = inspect.signature(function)
        try:
            # Binding respects defaults, keywords and `**kwargs`, as the call itself does.
            signature.bind(**dict.fromkeys(arguments))
        except TypeError as error:
            found.append(f"{name}{signature}: {error}")
    return found


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
