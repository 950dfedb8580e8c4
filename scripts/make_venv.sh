#!/bin/sh
# Makes the environment .venv, with both sides and the tools, for `make setup`; PYTHON may name the interpreter.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "$*" >&2; exit 1; }
# From this folder, where `akdl` needs no packages for that.
fits() { "$1" -c 'import sys; from akdl.versions import FLINK_PYTHONS as known; sys.exit("%d.%d" % sys.version_info[:2] not in known)' 2>/dev/null; }

# Python 3.9 to 3.11 come first: TensorFlow 2.15, which they have, is the last release with Estimators.
find_python() {
    for each in python3.11 python3.10 python3.9 python3.12 python3 python \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11.*/bin/python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
        if fits "$each"; then echo "$each"; return; fi
    done
}

# uv, from PATH or installed into a folder of its own.
find_uv() {
    if uv --version >/dev/null 2>&1; then echo uv; return; fi
    if [ ! -x .venv-uv/bin/uv ]; then
        "${1:-python3}" -m venv .venv-uv >&2 && .venv-uv/bin/pip install --quiet --disable-pip-version-check 'uv>=0.5' >&2 ||
            fail "uv, which makes .venv, could not be installed into .venv-uv. Install uv, or the package python3-venv of your system"
    fi
    echo .venv-uv/bin/uv
}

if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON: expected Python 3.9 to 3.12, which Flink needs, found $("$PYTHON" --version 2>&1)"
else
    PYTHON=$(find_python)
fi
uv=$(find_uv "$PYTHON")
if ! fits .venv/bin/python; then
    # Without a Python, uv looks for one in its own places, and downloads one.
    if [ -n "$PYTHON" ]; then
        "$uv" venv --quiet --seed --allow-existing --python "$PYTHON" .venv
    else
        "$uv" venv --quiet --seed --allow-existing --python 3.11 .venv ||
            fail "Flink needs Python 3.9 to 3.12, which is neither here (python3: $(python3 --version 2>&1)) nor could be" \
                "downloaded. Get one with '$uv python install 3.11' or from your system's packages, and run" \
                "'make setup PYTHON=/path/to/python3.11'"
    fi
fi
echo "Installing into .venv, with $(.venv/bin/python --version): some minutes, and nothing is printed meanwhile"
"$uv" pip install --quiet --python .venv/bin/python --editable '.[flink,tf,dev]'
