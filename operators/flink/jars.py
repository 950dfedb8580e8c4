"""`akdl jars NAME...`: jars of connectors and formats, in a cache of the user.

They come from a Maven repository, and the cache has a repository's layout. A jar runs inside Flink
with the rights of the user, so the cache is private to the user, and a jar counts only with its
checksum next to it.
"""

from __future__ import annotations

import argparse
import functools
import glob
import hashlib
import logging
import os
import re
import urllib.parse
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from akdl.masking import masked, shown
from akdl.near_names import did_you_mean
from akdl.storage.files import FileError, fetch, sha256_of
from akdl.storage.local_files import WholeFile
from akdl.storage.locked_folder import locked
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.places import cache_folder, private_folder
from bridge.host.program_folder import scratch_folder
from bridge.workarounds.java_text import java_text, running_jvm
from operators.errors.missing_jars import JARS, OWN, coordinates, flink_version
from operators.flink.java import start_java

logger = logging.getLogger(__name__)

# Coordinates become parts of a path in the cache, so two dots in a row are refused.
_COORDINATES = re.compile(r"(?!.*\.\.)\w[\w.-]*(:\w[\w.-]*){2,4}")
# This is the name of a Java text in bridge/serving, and of the class in it.
_MODELS = "SqlModels"
# Flink finds factories by the entries of this file in a jar, as Java's ServiceLoader does.
_SERVICES = "META-INF/services/org.apache.flink.table.factories.Factory"
# The checksum of a jar of the cache stands next to it, in a file with this ending.
_CHECKSUM = ".sha256"
# Flink loads its file systems from folders of plugins alone, never from the classpath of a job.
_PLUGINS = "flink-s3-fs-"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="akdl jars",
        description=(
            "Get jars of connectors and formats that fit this Flink, and print their paths."
        ),
    )
    parser.add_argument(
        "jars", metavar="NAME", nargs="*", help=f"{', '.join(JARS)}; or GROUP:ARTIFACT:VERSION"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the names, and which jars are there"
    )
    parser.add_argument(
        "--repository",
        metavar="URL",
        help=(
            "Maven repository; default: AKDL_MAVEN_REPOSITORY, the mirror in ~/.m2/settings.xml, or"
            " Maven Central"
        ),
    )
    options = parser.parse_args(arguments)
    if not options.list and not options.jars:
        parser.error("name at least one jar, or give --list")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        lines = [
            *(paths_of(options.jars, options.repository) if options.jars else ()),
            *(_listed() if options.list else ()),
        ]
    except ConfigurationError as error:
        parser.exit(1, f"{error}\n")
    print("\n".join(lines))
    return 0


def jar_urls(jars: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the URLs of the jars of an environment, from the cache or the repository, for jobs and
    for plugins.
    """
    urls = [Path(path).absolute().as_uri() for path in paths_of(jars)]
    plugins = [url for url in urls if url.rpartition("/")[2].startswith(_PLUGINS)]
    return [url for url in urls if url not in plugins], plugins


@functools.cache
def plugin_manager(urls: str) -> object:
    """Return Flink's manager of plugins for file systems, each with classes of its own, as clusters
    take them from a folder.
    """
    from pyflink.util.java_utils import to_jarray

    jvm = running_jvm()
    plugins = jvm.java.util.ArrayList()
    options = jvm.org.apache.flink.configuration
    for url in urls.split(";"):
        jar = to_jarray(jvm.java.net.URL, [jvm.java.net.URL(url)])
        plugins.add(
            jvm.org.apache.flink.core.plugin.PluginDescriptor(url, jar, to_jarray(jvm.String, []))
        )
    patterns = options.CoreOptions.getPluginParentFirstLoaderPatterns(options.Configuration())
    return jvm.org.apache.flink.core.plugin.DefaultPluginManager(plugins, patterns)


def paths_of(jars: Sequence[str], repository: str | None = None) -> list[str]:
    """Return the paths of jars, given as names, Maven coordinates and paths; what is missing is
    fetched.

    Raises:
        ConfigurationError: A name is unknown, a file is missing, or the repository does not have a
            jar.
    """
    paths = []
    for jar in jars:
        if jar.endswith(".jar"):
            if not os.path.isfile(jar):
                raise ConfigurationError(f"jars: there is no file {jar}")
            paths.append(jar)
        else:
            paths += [_cached(each, repository) for each in _coordinates_of(jar)]
    # Several names may need the same jar, for example Hadoop's.
    return list(dict.fromkeys(paths))


def _coordinates_of(jar: str) -> Sequence[str]:
    if _COORDINATES.fullmatch(jar):
        return [jar]
    if jar == OWN and not coordinates(jar):
        raise ConfigurationError(
            f"jars: {OWN} is for ML_PREDICT, which Flink has since 2.1, and this is Flink"
            f" {flink_version()}"
        )
    if jar not in JARS:
        raise ConfigurationError(
            f"jars: unknown name {jar!r}{did_you_mean(jar, JARS)}. Expected {', '.join(JARS)},"
            " coordinates such as org.postgresql:postgresql:42.7.7, or the path of a jar"
        )
    found = coordinates(jar)
    if not found:
        raise ConfigurationError(
            f"jars: no release of {jar} for Flink {flink_version()} is known, only for Flink"
            f" {', '.join(JARS[jar])}. If there is one now, name its coordinates,"
            " GROUP:ARTIFACT:VERSION"
        )
    return found


def _place(coordinate: str) -> str:
    """Path of a jar in the cache, which has the layout of a repository."""
    from maven_artifact import Artifact

    if coordinate.startswith(f"{OWN}:"):
        # The jar is compiled from a Java text of this package, so the hash of the text is part of
        # the version: another release of akdl never takes the jar of this one.
        coordinate += (
            f"-{hashlib.sha256(java_text('bridge.serving', _MODELS).encode()).hexdigest()[:12]}"
        )
    return str(Artifact.parse(coordinate).uri(cache_folder("jars")))


def _cached(coordinate: str, repository: str | None) -> str:
    """Path of a jar in the cache; a jar without its checksum is fetched again."""
    path = _place(coordinate)
    folder = cache_folder("jars")
    with refused_at("jars", OSError):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        private_folder(folder, "jars")
        if not _is_whole(path):
            # Other programs wait here, and then find the jar.
            with locked(folder):
                if not _is_whole(path):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    if coordinate.startswith(f"{OWN}:"):
                        _compile(path)
                    else:
                        _fetch(coordinate, path, repository or _configured())
                    # The checksum is written last, so a jar without it is not whole.
                    Path(path + _CHECKSUM).write_text(sha256_of(path), encoding="ascii")
    return path


def _is_whole(path: str) -> bool:
    """Return True if the jar has the content that was fetched.

    A program may be killed while it writes a jar or its checksum.
    """
    with suppress(OSError):
        return Path(path + _CHECKSUM).read_text(encoding="ascii") == sha256_of(path)
    return False


def _fetch(coordinate: str, path: str, repository: str | None) -> None:
    """Fetch a jar, and check it against the SHA-1 that repositories store next to each file."""
    from maven_artifact import Artifact, Resolver

    base = _with_login((repository or Resolver.default().base).rstrip("/"))
    url = Artifact.parse(coordinate).uri(base)
    logger.info("fetching %s from %s", coordinate, shown(base))
    try:
        with scratch_folder() as folder:
            checksum, jar = (
                Path(fetch(each, folder)).read_bytes() for each in (f"{url}.sha1", url)
            )
        expected = checksum.decode("ascii", "replace").split()[:1]
        digest = hashlib.sha1(jar).hexdigest()
        # Some repositories write the name of the file behind the checksum, so only the first word
        # counts.
        if expected != [digest]:
            raise FileError(f"its SHA-1 is {digest}, expected {expected}")
        with WholeFile(path) as file:
            file.write(jar)
    except FileError as error:
        raise ConfigurationError(
            f"jars: {coordinate} was not fetched from {shown(base)}: {masked(str(error), base)}. A"
            " mirror may lack jars that Maven Central has: set AKDL_MAVEN_REPOSITORY or give akdl"
            " jars --repository URL. Without such a repository, copy"
            f" {os.path.basename(path)} to this machine, and give its path in place of a name"
        ) from None


def _with_login(base: str) -> str:
    """Return the address of a repository with the login that ~/.netrc has for its host, unless it
    already has one.
    """
    from requests.utils import get_netrc_auth

    login = None if "@" in base else get_netrc_auth(base)
    if login is None:
        return base
    return base.replace("://", f"://{urllib.parse.quote(':'.join(login), safe=':')}@", 1)


def _compile(path: str) -> None:
    """Make the jar of the provider of models with Flink's own compiler of generated code."""
    start_java()
    compiler = running_jvm().org.codehaus.janino.SimpleCompiler()
    compiler.cook(java_text("bridge.serving", _MODELS))
    with WholeFile(path) as file, zipfile.ZipFile(file, "w") as jar:
        for name, code in compiler.getBytecodes().items():
            jar.writestr(f"{name}.class", bytes(code))
        jar.writestr(_SERVICES, f"{_MODELS}\n")


def _configured() -> str | None:
    """The repository of the environment, or the mirror of Maven Central in the user's settings of
    Maven.
    """
    if address := os.environ.get("AKDL_MAVEN_REPOSITORY"):
        return address
    with suppress(OSError, ElementTree.ParseError):
        for mirror in ElementTree.parse(os.path.expanduser("~/.m2/settings.xml")).iterfind(
            ".//{*}mirror"
        ):
            of = {each.strip() for each in mirror.findtext("{*}mirrorOf", "").split(",")}
            # Maven's mirrorOf is a list of repositories, in which ! excludes one.
            if of & {"central", "*", "external:*"} and "!central" not in of:
                return mirror.findtext("{*}url")
    return None


def _listed() -> Iterator[str]:
    folder = cache_folder("jars")
    yield f"Flink {flink_version()}, jars in {folder}"
    mine = set()
    for name in JARS:
        for jar in coordinates(name) or [
            f"no release for this Flink is known, only for {', '.join(JARS[name])}"
        ]:
            path = _place(jar) if _COORDINATES.fullmatch(jar) else ""
            mine.add(path)
            yield f"{name:<15}  {'there' if _is_whole(path) else '-':<5}  {jar}"
    others = sorted(set(glob.glob(f"{glob.escape(folder)}/**/*.jar", recursive=True)) - mine)
    yield from (f"{'':<15}  there  {os.path.relpath(path, folder)}" for path in others)
