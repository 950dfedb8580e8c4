"""Train and predict in a job with each pair of versions, and write what ran into docs/versions.md:
`make test-versions`.

    python scripts/try_versions.py [NAME...]

tries the rows of `CASES` whose names contain one of NAME, or all. It needs a package index;
environments stay in `build/versions`.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from akdl.versions import FLINK_PYTHONS, FLINKS, TRIED_TENSORFLOWS  # noqa: E402

PAGE = ROOT / "docs" / "versions.md"
FOLDER = ROOT / "build" / "versions"
HEAD = (
    "| Flink | its Python | TensorFlow | its Python | protobuf | numpy | pyarrow | grpcio | ran"
    " on |"
)
_SHOWN = ("protobuf", "numpy", "pyarrow", "grpcio")
_LIMIT_S = 900


@dataclass(frozen=True)
class Case:
    """A Flink and its Python; and a TensorFlow with a Python of its own, or that of the extra `tf`
    in the same environment.
    """

    flink: str
    python: str
    tensorflow: str = ""
    script_python: str = ""

    @property
    def name(self) -> str:  # noqa: D102
        return f"flink-{self.flink}-py{self.python}-tf{self.tensorflow or '-same'}"


CASES = [
    *(Case(flink, "3.11", "2.15.1", "3.11") for flink in FLINKS[:-1]),
    *(Case(FLINKS[-1], python) for python in FLINK_PYTHONS),
    *(Case(FLINKS[-1], "3.11", tensorflow, python) for tensorflow, python in TRIED_TENSORFLOWS),
]

JOB = """
import os, sys
import akdl
from operators import *

useLocalEnv(1)
rows = RandomTableSourceBatchOp(numRows=200, numCols=2, outputCols=["x", "y"])
rows = rows.select("x, y, CASE WHEN x > y THEN 1 ELSE 0 END AS label")
script = os.path.join(os.path.dirname(akdl.__file__), "models", "tf", "dnn", "dnn_train.py")
params = {"featureCols": ["x", "y"], "labelCol": "label", "batch_size": 16, "num_epochs": 1}
train = TFTableModelTrainBatchOp if sys.argv[2].startswith("1.") else TF2TableModelTrainBatchOp
train = train(mainScriptFile=script, userParams=params, numWorkers=1, numPSs=0, pythonEnv=sys.argv[1])
model = rows.link(train)
predict = TFTableModelPredictBatchOp(
    outputSchemaStr="logits DOUBLE", outputSignatureDefs=["logits"], signatureDefKey="predict",
    selectedCols=["x", "y"],
    pythonEnv=sys.argv[1],
)
found = predict.linkFrom(model, rows).collectToDataframe()
assert len(found) == 200 and found.logits.notna().all(), found
"""  # noqa: E501
VERSIONS = """
import glob, os, platform, sys
names = ("apache_flink", "tensorflow_cpu", "tensorflow", "protobuf", "numpy", "pyarrow", "grpcio")
paths = [path for place in sys.path for path in glob.glob(place + "/*.dist-info")]
folders = map(os.path.basename, paths)
# Python 3.7 has no importlib.metadata.
found = dict(folder.rpartition(".")[0].lower().split("-", 1) for folder in folders)
print(platform.python_version(), *(found.get(name, "-") for name in names))
"""


def main(names: list[str]) -> int:
    """Try the chosen cases; 1 if one of them failed."""
    failed = 0
    for case in CASES:
        if names and not any(name in case.name for name in names):
            continue
        try:
            row = try_case(case)
        except (subprocess.SubprocessError, OSError) as error:
            output = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            print(f"{case.name}: {output[-1] if output else error}", flush=True)
            failed += 1
            continue
        print(row, flush=True)
        record(row)
    return int(failed > 0)


def try_case(case: Case) -> str:
    """Run the job and return its row of the table."""
    extra = "flink-1.20" if case.flink == "1.20" else "flink"
    more = [] if case.tensorflow else ["tf"]
    wanted = ["--editable", f"{ROOT}[{','.join([extra, *more])}]", f"apache-flink=={case.flink}.*"]
    program = environment(f"flink-{case.flink}-py{case.python}{''.join(more)}", case.python, wanted)
    script = program
    if case.tensorflow:
        # The oldest ones refuse newer protobufs, but do not say so; and TensorFlow 1 has no package
        # without GPUs.
        old = case.tensorflow.startswith(("1.", "2.3."))
        name = "tensorflow" if case.tensorflow.startswith("1.") else "tensorflow-cpu"
        lines = [f"{name}=={case.tensorflow}", *(["protobuf<3.21"] if old else [])]
        script = environment(
            f"tf-{case.tensorflow}-py{case.script_python}", case.script_python, ["grpcio", *lines]
        )
    run([program, "-c", JOB, script, case.tensorflow], cwd=FOLDER)
    (python, flink, *_), (script_python, _, small, large, protobuf, numpy, _, grpcio) = (
        run([each, "-c", VERSIONS]).split() for each in (program, script)
    )
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    pyarrow = run([program, "-c", "import pyarrow; print(pyarrow.__version__)"]).strip()
    tensorflow = large if small == "-" else small
    cells = [flink, python, tensorflow, script_python, protobuf, numpy, pyarrow, grpcio, day]
    return f"| {' | '.join(cells)} |"


def environment(name: str, python: str, wanted: list[str]) -> str:
    """Interpreter of an environment, which is made if need be."""
    folder = FOLDER / name
    interpreter = str(folder / "bin" / "python")
    uv = str(pathlib.Path(sys.executable).with_name("uv"))
    if not os.access(interpreter, os.X_OK):
        FOLDER.mkdir(parents=True, exist_ok=True)
        found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{python}.*/bin/python{python}"))
        run(
            [
                uv,
                "venv",
                "--quiet",
                "--allow-existing",
                "--python",
                str(found[-1]) if found else python,
                str(folder),
            ]
        )
    run([uv, "pip", "install", "--quiet", "--python", interpreter, *wanted])
    return interpreter


def run(command: list[str], cwd: pathlib.Path = ROOT) -> str:
    """Output of a command without the caller's settings of Python; an error where it fails."""
    # The program has its own copy of akdl; a path of the caller would hide it.
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "TF115_PYTHON_ENV_PATH", "TF231_PYTHON_ENV_PATH")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        command,
        check=True,
        env=variables,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    return done.stdout


def record(row: str) -> None:
    """Put a row into the table of the page, in place of one of the same Flink, TensorFlow and
    Pythons.
    """
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    lines = after.splitlines()
    rows = [line for line in lines[2:] if line.startswith("|") and key(line) != key(row)]
    rest = [line for line in lines[2:] if not line.startswith("|")]
    table = [HEAD, lines[1], *sorted([*rows, row], key=key)]
    PAGE.write_text(before + "\n".join([*table, *rest]) + "\n", encoding="utf-8")


def key(row: str) -> list[list[int]]:
    """Flink, its Python, TensorFlow and its Python, as numbers without those of patches."""
    cells = [cell.strip() for cell in row.split("|")[1:5]]
    return [[int(number) for number in re.findall(r"\d+", cell)[:2]] for cell in cells]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
