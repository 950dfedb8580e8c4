"""Run a notebook: `python -m tests.support.notebook IN OUT`.

In a process of its own, as the libraries of notebooks emit warnings that are errors in tests. The
kernel is the interpreter of this process, wherever kernels are registered.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile

from tests.support.deadline import DEADLINE_S


def main(source: str, target: str) -> None:
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        kernel = pathlib.Path(folder, "kernels", "of_tests")
        kernel.mkdir(parents=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": command, "display_name": "of tests", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        # nothing of the user's own
        os.environ.update(JUPYTER_PATH=folder, JUPYTER_RUNTIME_DIR=folder, IPYTHONDIR=folder)
        notebook = nbformat.read(source, as_version=4)
        NotebookClient(notebook, timeout=int(10 * DEADLINE_S), kernel_name="of_tests").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":  # what goes to stderr, and progress, is of this run
            kept = [
                each
                for each in cell.outputs
                if each.output_type != "display_data" and each.get("name") != "stderr"
            ]
            cell.outputs = kept
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
