"""The environment variables of a TensorFlow process.

The process runs a user's script, so it does not inherit the environment of Flink's worker, which
may hold secrets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from bridge.folders.work_folder import WorkFolder

# These variables of the worker's own environment are passed on. It is a list of allowed names, so
# that no secret leaks by accident.
_ALLOWED = {
    "AKDL_TRACEBACK",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "TZ",
    "USER",
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
}
_ALLOWED_PREFIXES = (
    "CUDA_",
    "KMP_",
    "LC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "TF_",
    "XLA_",
)
# With each chunk of rows glibc would give memory back and ask for it again, page by page: 43,000
# page faults per million rows, and 1,200 with these limits of the memory that is kept.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(128 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


def variables(
    intra_op_parallelism: int | None,
    own: Mapping[str, str],
    python: str,
    folder: WorkFolder,
    asked_for: Sequence[str] = (),
) -> dict[str, str]:
    """Environment of a TensorFlow process. Later entries win: defaults, `own`, `asked_for`, ours.

    Args:
        intra_op_parallelism: Threads of one operation of TensorFlow; None for its own default.
        own: Variables of this process, of which the allowed ones are passed on.
        python: Path of the interpreter, whose folder comes first in PATH.
        folder: Work folder of the process.
        asked_for: The user's envVars: "NAME" passes a variable of `own`, "NAME=value" sets one.
    """
    passed = {
        name: value
        for name, value in own.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    }
    for each in asked_for:
        name, is_given, value = each.partition("=")
        if is_given or name in own:
            passed[name] = value if is_given else own[name]
    # This one would be of another cluster. Ours is set when the group is complete.
    passed.pop("TF_CONFIG", None)
    return {
        # TensorFlow would print lines about instruction sets at its start.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **MEMORY,
        **passed,
        "PATH": os.path.dirname(python) + os.pathsep + passed.get("PATH", os.defpath),
        "PYTHONPATH": folder.library,
        # Files that TensorFlow and scripts leave there are removed with the folder.
        "TMPDIR": folder.temporary,
        # A process that is killed would lose the lines in Python's buffer, which often have the
        # reason.
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        # With this, a crash shows its place in Python. So does SIGABRT, even before any code of
        # ours runs.
        "PYTHONFAULTHANDLER": "1",
        # With gRPC's support of forks, a script that forks can hang in gRPC's own handlers.
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        # Our socket that reserves the port stays open while TensorFlow binds the port, which needs
        # SO_REUSEPORT in both.
        "TF_GRPC_REUSE_PORT": "true",
        **(
            {}
            if intra_op_parallelism is None
            else {"TF_NUM_INTRAOP_THREADS": str(intra_op_parallelism)}
        ),
    }
