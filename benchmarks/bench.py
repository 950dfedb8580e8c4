"""All benchmarks one after the other, each in a process of its own: `python benchmarks/bench.py
[FOLDER]`, or `make bench`.

Tables are printed, JSON and charts are written into the folder, by default build/benchmarks. The
exit code is 1 if a benchmark could not run; a missed target only shows in its table.
"""

import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ALL = [
    "codec",
    "ingest",
    "startup",
    "output",
    "feed",
    "arrow",
    "training",
    "predict",
    "files",
    "serving",
    "rest",
    "sinks",
    "memory",
]
STREAM_S = 60


def main(folder: pathlib.Path) -> int:
    """Run all benchmarks and return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = {name: [f"{name}.py", "--folder", str(folder)] for name in ALL}
    commands["streams"] = ["streams.py", "--seconds", str(STREAM_S), "--folder", str(folder)]
    failed = []
    for name, (script, *arguments) in commands.items():
        begun = time.monotonic()
        done = subprocess.run([sys.executable, str(HERE / script), *arguments])
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    print(f"results are in {folder}" + (f"; could not run: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/benchmarks")))
