"""`python -m akdl.process.preflight module`: run a module if this Python has the packages.

Without a module, print the versions. A process starts here, because it runs in an environment of
the user's, where a missing package would otherwise be a traceback of our own imports. So this
module imports nothing but the standard library, and `tf_version`, which does the same.
"""

import contextlib
import importlib.util
import runpy
import shlex
import sys
from typing import Dict, Optional, Tuple

from akdl.tf_version import parse_version

# Exit status of a process whose Python environment cannot run it.
UNUSABLE = 87
# The variable with the descriptor from which a spare process reads its script's variables.
SPARE_FD = "AKDL_SPARE_FD"
OLDEST_PYTHON = (3, 7)

# For `python -c`: run a module as `-m` does, which also imports from the current folder. In a
# folder such as /tmp another user may have left a json.py. Python has the option -P for this since
# 3.11.
RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], None, '__main__', True)"
)

# Module, packages that may contain it, oldest version.
_NEEDED: Tuple[Tuple[str, Tuple[str, ...], Tuple[int, ...]], ...] = (
    (
        "tensorflow",
        (
            "tensorflow",
            "tensorflow-cpu",
            "tensorflow-gpu",
            "tensorflow-macos",
            "tensorflow-intel",
            "tf-nightly",
            "tf-nightly-cpu",
        ),
        (1, 15),
    ),
    ("numpy", ("numpy",), (1, 16)),
    ("grpc", ("grpcio",), (1, 34)),
    ("google.protobuf", ("protobuf",), (3, 20)),
)

# Ranges of releases that can deadlock, without their ends: grpc/grpc#36265 and grpc/grpc#37710.
# Beam excludes them too.
_DEADLOCKING_GRPCIO = (((1, 48), (1, 48, 1)), ((1, 59), (1, 62, 2)), ((1, 66), (1, 71)))
GRPCIO = "grpcio>=1.62.3,!=1.66.*,!=1.67.*,!=1.68.*,!=1.69.*,!=1.70.*"  # as in setup.py


def versions() -> Dict[str, Optional[str]]:
    """Version of each required package, None where it is missing, and of TensorFlow where it is
    there.

    Scripts and functions of predictors may use another framework. What needs TensorFlow imports it,
    and `akdl.user_code.remedies` then says what to do. A module may be found without the metadata
    of a package. Its version is then "", which `missing` accepts, because nothing shows that it is
    too old.
    """
    found = {packages[0]: _version(module, packages) for module, packages, _ in _NEEDED}
    if found["tensorflow"] is None:
        del found["tensorflow"]
    return found


def missing(found: Dict[str, Optional[str]]) -> Dict[str, str]:
    result = {}
    for _, packages, oldest in _NEEDED:
        name, text = packages[0], ".".join(map(str, oldest))
        version = found.get(name, "")
        if version is None:
            result[f"{name}>={text}"] = f"{name} is missing"
        elif version and parse_version(version) < oldest:
            result[f"{name}>={text}"] = f"{name} {version} is too old"
    return result


def reason(found: Dict[str, Optional[str]]) -> str:
    """Error text for a Python that lacks required packages, with the pip command; "" for a usable
    one.
    """
    wrong = missing(found)
    if not wrong:
        return ""
    install = " ".join(
        [shlex.quote(sys.executable), "-m pip install", *map(shlex.quote, sorted(wrong))]
    )
    remedy = f"install what it needs ({install}), or choose another environment with pythonEnv"
    return _unusable(", ".join(wrong.values()), remedy)


def deadlocks(grpcio: str) -> bool:
    """Test for a release whose calls can wait indefinitely; the process goes on with a warning."""
    return bool(grpcio) and any(
        first <= parse_version(grpcio) < end for first, end in _DEADLOCKING_GRPCIO
    )


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        _refuse(
            _unusable(
                "it is Python {}.{}, and akdl needs 3.7 or newer".format(*sys.version_info),
                "choose a newer one",
            )
        )
    found = versions()
    _refuse(reason(found))
    if len(sys.argv) == 1:
        parts = [f"{name} {version or '(version unknown)'}" for name, version in found.items()]
        print(", ".join(["Python {}.{}.{}".format(*sys.version_info), *parts]))
        return
    if deadlocks(found["grpcio"] or ""):
        say(
            f"grpcio {found['grpcio']} can deadlock: {shlex.quote(sys.executable)} -m pip install"
            f" '{GRPCIO}'"
        )
    module = sys.argv[1]
    # The module sees the arguments that it would have with `python -m module`.
    sys.argv[:2] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _version(module: str, packages: Tuple[str, ...]) -> Optional[str]:
    for package in packages:
        version = installed(package)
        if version is not None:
            return version
    try:
        return None if importlib.util.find_spec(module) is None else ""
    except ImportError:  # of the parent package
        return None


def installed(package: str) -> Optional[str]:
    # Metadata is read without importing the package: TensorFlow's import takes seconds, and may
    # fail.
    if sys.version_info < (3, 8):
        # `importlib.metadata` is new in Python 3.8.
        import pkg_resources

        try:
            return str(pkg_resources.get_distribution(package).version)
        except pkg_resources.DistributionNotFound:
            return None
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _unusable(what: str, remedy: str) -> str:
    return f"the Python environment of {sys.executable} cannot be used: {what}; {remedy}"


def _refuse(why: str) -> None:
    if why:
        say(why)
        sys.exit(UNUSABLE)


def say(text: str) -> None:
    # The parent, which reads this output, may have ended, or the script has closed it.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"akdl: {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
