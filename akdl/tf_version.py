"""Version of the installed TensorFlow and Keras, and errors for what a version lacks.

TensorFlow is imported inside of functions: some scripts do not use it, others set variables that it
reads while it is imported. Versions are compared as tuples, since "2.9" is greater than "2.16" as
text.
"""

import gc
import importlib.util
import re
import sys
from typing import Any, Mapping, MutableMapping, Optional, Tuple

LAST_WITH_ESTIMATOR = (2, 15)
NO_ESTIMATOR = (
    "{} needs tf.estimator, which TensorFlow {} of {} does not have: 2.15 is the last version with"
    ' it. Set pythonEnv="tensorflow==2.15.*", or train with the Keras runner (awf_* functions, see'
    " docs/keras.md)"
)
KERAS_FILES = (".keras", ".h5", ".hdf5")
NO_GROUP_OF_KERAS_3 = (
    "Keras 3 does not train with TensorFlow's strategies of several workers: train with the Keras"
    " runner (awf_* functions, see docs/keras.md), or set envVars=['TF_USE_LEGACY_KERAS=1'] and"
    " install tf-keras, or choose an environment with TensorFlow 2.15 (pythonEnv), or set"
    " numWorkers=1 and numPSs=0"
)


class EstimatorMissing(RuntimeError):
    """This TensorFlow has no `tf.estimator`."""


def parse_version(text: str) -> Tuple[int, ...]:
    """Leading numbers of a version: "2.16.0-rc1" gives (2, 16, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    if found is None:
        raise ValueError(f"expected a version number, got {text!r}")
    return tuple(int(number) for number in found.group().split("."))


def import_tensorflow() -> None:
    """Import TensorFlow, and exclude the objects that exist then from garbage collection.

    Scanning these permanent objects takes a second of processor time at the start and at the end of
    the process. It has to be called before any script runs, because a file that a script leaves
    open would not be flushed.
    """
    if "tensorflow" in sys.modules:
        return
    gc.disable()
    try:
        import tensorflow  # noqa: F401
    finally:
        gc.enable()
    gc.freeze()


def tf_version() -> Tuple[int, ...]:
    import tensorflow as tf

    return parse_version(tf.__version__)


def is_tensorflow_2() -> bool:
    return tf_version() >= (2,)


def keras_3(version: Optional[str], environment: Mapping[str, str]) -> str:
    """Version of Keras 3 that `tf.keras` will be, given that of keras; "" for Keras 2.

    It imports nothing, so that a script can be refused or prepared before it imports TensorFlow.
    """
    return (
        ""
        if version is None or _is_legacy(environment) or parse_version(version) < (3,)
        else version
    )


def choose_keras_backend(version: Optional[str], environment: MutableMapping[str, str]) -> str:
    """Backend of Keras 3 where that is not TensorFlow, given the version of keras; else "".

    Keras takes TensorFlow unless a variable names another backend, and does not look for one that
    is installed. So the variable is set, and this comes before the first import of Keras.
    """
    if not keras_3(version, environment):
        return ""
    backends = [name for name in ("tensorflow", "jax", "torch") if importlib.util.find_spec(name)]
    chosen = environment.setdefault("KERAS_BACKEND", (backends or ["numpy"])[0])
    return "" if chosen == "tensorflow" else chosen


def missing_keras(error: BaseException, environment: Mapping[str, str]) -> str:
    """Remedy for TensorFlow's error where TF_USE_LEGACY_KERAS is set and its package is missing; ""
    for other errors.
    """
    if (
        not isinstance(error, ImportError)
        or "Keras cannot be imported" not in str(error)
        or not _is_legacy(environment)
    ):
        return ""
    return (
        " TF_USE_LEGACY_KERAS asks for Keras 2, which is the package tf-keras, of the version of"
        f" TensorFlow: install it in the environment of {sys.executable} (pythonEnv), or do not set"
        " the variable (envVars)"
    )


def _is_legacy(environment: Mapping[str, str]) -> bool:
    return environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")


def is_keras_3() -> bool:
    """Ask Keras itself: TensorFlow's version is wrong for it where tf-keras is in use."""
    import tensorflow as tf

    version = str(
        getattr(tf.keras, "__version__", None) or getattr(tf.keras, "version", lambda: "2")()
    )
    return tf_version() >= (2, 16) and not version.startswith("2.")


def require_estimator(what: str = "this script") -> Any:
    """Module `tf.estimator`; the error names `what` as the code that needs it."""
    import tensorflow as tf

    if tf_version()[:2] > LAST_WITH_ESTIMATOR:
        raise EstimatorMissing(NO_ESTIMATOR.format(what, tf.__version__, sys.executable))
    return tf.estimator
