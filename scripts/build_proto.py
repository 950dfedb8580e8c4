"""Compile proto/*.proto into akdl/wire/: `python scripts/build_proto.py [ROOT_OF_OUTPUT]`.

The generated code must load on every protobuf runtime in use, from 3.20 (TensorFlow 1.15) to 7 (the
newest TensorFlow). Code made by protoc 3.20 to 25 does; later compilers add a check that refuses
older runtimes, so setup.py pins grpcio-tools.
"""

import pathlib
import sys

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(output: pathlib.Path) -> None:
    """Write `akdl/wire/<name>_pb2.py` and `.pyi` for each proto file below `output`."""
    # The files are registered as akdl/wire/<name>.proto: a bare "example.proto" could meet another
    # one in the same process.
    protos = sorted(f"akdl/wire/{path.name}" for path in (ROOT / "proto").glob("*.proto"))
    if protoc.main(
        [
            "protoc",
            f"-Iakdl/wire={ROOT / 'proto'}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            *protos,
        ]
    ):
        raise SystemExit("protoc failed")


if __name__ == "__main__":
    build(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
