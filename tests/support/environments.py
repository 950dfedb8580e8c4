"""Python environments in archives, small and quick to make: their interpreter is a program that
starts this one.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tarfile
import zipfile

INTERPRETER = f'#!/bin/sh\nTESTED_ENV="$0" exec {sys.executable} "$@"\n'


def make_environment(folder: pathlib.Path, **files: str) -> pathlib.Path:
    """Make a folder with bin/python and other files in bin; a script with TESTED_ENV knows that it
    runs there.
    """
    (folder / "bin").mkdir(parents=True)
    for name, text in {"python3": INTERPRETER, **files}.items():
        path = folder / "bin" / name.replace("_", "-")
        path.write_text(text)
        path.chmod(0o755)
    (folder / "bin" / "python").symlink_to("python3")
    return folder


def pack(folder: pathlib.Path, target: str, inside: str = "") -> str:
    """Pack an environment with its links as .zip or .tar.gz, at the root or in a folder `inside`;
    return the archive's path.
    """
    if target.endswith(".zip"):
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(folder.rglob("*")):
                info = zipfile.ZipInfo.from_file(
                    path, os.path.join(inside, str(path.relative_to(folder)))
                )
                if path.is_symlink():
                    info = zipfile.ZipInfo(info.filename.rstrip("/"))
                    info.external_attr = 0o120777 << 16
                content = (
                    os.readlink(path).encode()
                    if path.is_symlink()
                    else b""
                    if path.is_dir()
                    else path.read_bytes()
                )
                archive.writestr(info, content)
    else:
        # quick: some are of a hundred megabytes
        with tarfile.open(target, "w:gz", compresslevel=1) as tar:
            tar.add(folder, arcname=inside or ".")
    return target
