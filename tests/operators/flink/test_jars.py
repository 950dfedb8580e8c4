"""Jars by name: from a repository of this test, whole or not at all, into a cache of this test."""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence

import pytest

from akdl.storage import files
from akdl.storage.locked_folder import LOCK
from bridge.exceptions import ConfigurationError
from operators import resetEnv, useLocalEnv
from operators.errors import missing_jars
from operators.errors.missing_jars import JARS, coordinates
from operators.flink import jars
from operators.flink.env import _checked
from tests.support.http import Site, served

KAFKA = (
    "/org/apache/flink/flink-sql-connector-kafka/5.0.0-2.2/flink-sql-connector-kafka-5.0.0-2.2.jar"
)
CONTENT = b"jar " * 1000
REPOSITORY = jars._configured()


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "AKDL_MAVEN_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def repository(content: bytes = CONTENT, sha1: str | None = None) -> dict[str, bytes]:
    return {KAFKA: content, f"{KAFKA}.sha1": (sha1 or hashlib.sha1(content).hexdigest()).encode()}


def in_cache(home: pathlib.Path) -> set[str]:
    return {
        str(path.relative_to(home / ".cache/akdl/jars"))
        for path in home.rglob("*")
        if path.is_file() and path.name != LOCK and path.suffix != ".sha256"
    }


def test_jar_is_downloaded_once_by_its_name(
    home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(files=repository()) as site:
        assert jars.main(["kafka", "--repository", site.url + "/"]) == 0
        (path,) = capsys.readouterr().out.split()
        assert (
            path == f"{home}/.cache/akdl/jars{KAFKA}" and pathlib.Path(path).read_bytes() == CONTENT
        )
        assert jars.main(["kafka", "kafka", "--repository", site.url]) == 0
        assert [each[":path"] for each in site.requests] == [f"{KAFKA}.sha1", KAFKA]
    assert capsys.readouterr().out.split() == [path]  # and once in the output
    assert jars.main(["--list"]) == 0
    first, kafka, *others = capsys.readouterr().out.splitlines()
    assert first == f"Flink {missing_jars.flink_version()}, jars in {home}/.cache/akdl/jars"
    assert kafka.split() == [
        "kafka",
        "there",
        "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    ]
    assert all(
        line.split()[1] == "-" or "no release for this Flink is known" in line for line in others
    )


@pytest.mark.fault("files", "A jar that arrives damaged, cut or without a checksum is not used")
@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (Site(files=repository(sha1="0" * 40)), "its SHA-1 is "),
        (
            Site(files=repository(), cut_after=1500, ranges=False),
            "the connection ended before the file did",
        ),
        (Site(files=repository(), cut_after=1500, tells_size=False), "its SHA-1 is"),
        (
            Site(files=repository(), status={f"{KAFKA}.sha1": 404}),
            "jar.sha1: HTTP 404: it has no such file",
        ),
        (Site(files={**repository(), f"{KAFKA}.sha1": b""}), "its SHA-1 is .*, expected \\[\\]"),
        (Site(files=repository(), status={KAFKA: 500}), "jar: .* in 5 attempts: HTTP 500"),
        (
            Site(files=repository(), redirects={KAFKA: "ftp://elsewhere/a.jar"}),
            "only redirects to https are followed",
        ),
    ],
)
def test_damaged_or_cut_jars_are_not_used(
    site: Site, reason: str, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PAUSE_S", 0)
    if site.cut_after:
        site.files[f"{KAFKA}.sha1"] += b" " * 10  # shorter than the cut
    settings = {
        name: value for name, value in vars(site).items() if name not in ("url", "requests")
    }
    with served(**settings) as there, pytest.raises(ConfigurationError, match=reason) as raised:
        jars.paths_of(["kafka"], there.url.replace("http://", "http://me:hunter2@"))
    assert "kafka:5.0.0-2.2 was not fetched from http://" in str(
        raised.value
    ) and "hunter2" not in str(raised.value)
    assert "set AKDL_MAVEN_REPOSITORY" in str(raised.value)
    assert in_cache(home) == set()


@pytest.mark.fault("files", "A jar that a mirror lacks is named, with the way to get it")
def test_a_jar_that_a_mirror_lacks_can_be_copied(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_jars, "flink_version", lambda: "1.20.5")
    with served(files={}) as mirror, pytest.raises(ConfigurationError) as raised:
        jars.paths_of(["kafka"], mirror.url)
    # The mirror says nothing about other repositories, and neither does the error.
    assert re.search(
        r"^jars: org\.apache\.flink:flink-sql-connector-kafka:3\.4\.0-1\.20 was not fetched from .*"
        r"A mirror may lack jars .* copy (flink-sql-connector-kafka-3\.4\.0-1\.20\.jar) to this",
        str(raised.value),
    )
    copied = home / "flink-sql-connector-kafka-3.4.0-1.20.jar"
    copied.write_bytes(CONTENT)
    assert jars.paths_of([str(copied)], mirror.url) == [str(copied)]


def test_programs_that_start_together_download_a_jar_once(home: pathlib.Path) -> None:
    with served(files=repository()) as site:
        threads = [
            threading.Thread(target=jars.paths_of, args=(["kafka"], site.url)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(site.requests) == 2
    assert in_cache(home) == {KAFKA[1:]}


@pytest.mark.fault("files", "A download of a jar goes on after a broken connection")
def test_a_cut_download_goes_on(home: pathlib.Path) -> None:
    with served(files=repository(), cut_after=1500, cuts=2) as site:
        (path,) = jars.paths_of(["kafka"], site.url)
    assert pathlib.Path(path).read_bytes() == CONTENT


@pytest.mark.fault("files", "A jar that was changed in the cache is fetched again")
@pytest.mark.parametrize("damage", ["changed", "cut", "put there without a checksum"])
def test_a_jar_of_the_cache_is_compared_with_its_checksum(damage: str, home: pathlib.Path) -> None:
    with served(files=repository()) as site:
        (path,) = map(pathlib.Path, jars.paths_of(["kafka"], site.url))
        assert sum("there" in line for line in jars._listed()) == 1
        if damage == "put there without a checksum":
            pathlib.Path(f"{path}.sha256").unlink()
        else:
            path.write_bytes(CONTENT[:-1] if damage == "cut" else CONTENT.upper())
        assert sum("there" in line for line in jars._listed()) == 0
        assert jars.paths_of(["kafka"], site.url) == [str(path)] and path.read_bytes() == CONTENT


@pytest.mark.fault("security", "Jars are not taken from a cache that other users can write to")
def test_a_cache_that_others_can_write_to_is_refused(home: pathlib.Path) -> None:
    with served(files=repository()) as site:
        jars.paths_of(["kafka"], site.url)
        (home / ".cache/akdl/jars").chmod(0o777)
        with pytest.raises(
            ConfigurationError,
            match=r"akdl/jars, for jars, is not a folder .* mode 0777, expected 0700",
        ):
            jars.paths_of(["kafka"], site.url)
    (home / ".cache").chmod(0o700)
    other = home / "elsewhere"
    other.mkdir(0o700)
    (home / ".cache/akdl/jars").rename(home / "before")
    (home / ".cache/akdl/jars").symlink_to(other)
    with pytest.raises(ConfigurationError, match="it is a link"):
        jars.paths_of(["kafka"], site.url)


@pytest.mark.parametrize(
    "name",
    [
        "..:a:1",
        "a:..:1",
        "a:b:..",
        "a:b:1:..",
        "a..b:c:1",
        "a:b:1..2",
        ".:a:1",
        "a:.b:1",
        "a:b/c:1",
        "a:b:../../x",
        "a:b:-",
    ],
)
def test_coordinates_stay_inside_the_cache(name: str, home: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="jars: unknown name"):
        jars.paths_of([name], "http://127.0.0.1:9")


def test_the_login_of_a_repository_is_that_of_netrc(home: pathlib.Path) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login me@shop password hunter/2+:@\n")
    (home / ".netrc").chmod(0o600)
    login = f"Basic {base64.b64encode(b'me@shop:hunter/2+:@').decode()}"
    with served(files=repository(), login=login) as site:
        assert jars.paths_of(["kafka"], site.url)
        with pytest.raises(ConfigurationError, match="HTTP 401: it asks for a login") as raised:
            jars.paths_of(["avro"], site.url.replace("http://", "http://you:wrong@"))
    assert "wrong" not in str(raised.value)


SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
<mirror><id>a</id><mirrorOf>other</mirrorOf><url>http://other.example</url></mirror>
<mirror><id>b</id><mirrorOf>*,!central</mirrorOf><url>http://wrong.example</url></mirror>
<mirror><id>c</id><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>
</mirrors></settings>"""


@pytest.mark.parametrize("of", ["central", "*", "internal, external:*"])
def test_jars_come_from_the_mirror_of_the_user(
    of: str, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".m2").mkdir()
    with served(files=repository()) as site:
        (home / ".m2/settings.xml").write_text(SETTINGS.format(of=of, url=site.url))
        assert jars.paths_of(["kafka"]) == [f"{home}/.cache/akdl/jars{KAFKA}"]
    monkeypatch.setenv("AKDL_MAVEN_REPOSITORY", "http://first.example")
    assert jars._configured() == "http://first.example"


def test_no_mirror_without_settings_or_with_damaged_ones(home: pathlib.Path) -> None:
    assert jars._configured() is None
    (home / ".m2").mkdir()
    (home / ".m2/settings.xml").write_text("<settings><mirrors>")
    assert jars._configured() is None


def test_unknown_names_and_paths_of_jars_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        jars.main(["kafak"])
    assert (
        ended.value.code == 1
        and "unknown name 'kafak' (did you mean 'kafka'?). Expected kafka, "
        in capsys.readouterr().err
    )
    with pytest.raises(ConfigurationError, match="jars: there is no file nowhere.jar"):
        jars.paths_of(["nowhere.jar"])
    monkeypatch.setattr(missing_jars, "flink_version", lambda: "1.19.3")
    with pytest.raises(
        ConfigurationError,
        match="no release of paimon for Flink .* is known, only for Flink 1.20, 2.0, 2.1+",
    ):
        jars.paths_of(["paimon"])
    with pytest.raises(SystemExit):
        jars.main([])


def test_jars_are_those_for_the_release_of_flink(monkeypatch: pytest.MonkeyPatch) -> None:
    def versions(name: str, flink: str) -> list[str]:
        monkeypatch.setattr(missing_jars, "flink_version", lambda: flink)
        return [each.rpartition(":")[2] for each in coordinates(name)]

    assert versions("parquet", "2.1.3")[0] == "2.1.3" and versions("upsert-kafka", "2.1.3") == [
        "4.0.1-2.0"
    ]
    assert versions("kafka", "2.3.0") == versions("kafka", "2.2.1") == ["5.0.0-2.2"] and versions(
        "kafka", "1.20.5"
    ) == ["3.4.0-1.20"]
    assert (
        versions("jdbc", "1.20.5")[0] == "3.3.0-1.20"
        and versions("jdbc", "2.3.0")[0] == "4.0.0-2.0"
    )
    assert versions("paimon", "2.0.2")[0] == "2.0.0" and versions(
        "paimon", "1.19.3"
    ) == [] == versions("nothing", "2.3.0")
    assert all(
        len(each.split(":")) == 3
        for name in JARS
        for release in JARS[name].values()
        for each in release
    )


def test_each_name_of_a_jar_has_releases_for_each_flink() -> None:
    assert {(flink, name) for flink, name, jars in released() if not jars} == {
        ("1.20.5", "akdl"),
        ("2.0.2", "akdl"),
    }


def released() -> list[tuple[str, str, Sequence[str]]]:
    """Return each name with the coordinates of its jars, for each release of Flink."""
    found = []
    for flink in ("1.20.5", "2.0.2", "2.1.3", "2.2.1", "2.3.0"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(missing_jars, "flink_version", lambda flink=flink: flink)
            found += [(flink, name, coordinates(name)) for name in JARS]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "jar", sorted({jar for _, name, jars in released() for jar in jars if name != "akdl"})
)
def test_a_repository_has_the_jars_of_the_table(jar: str, tmp_path: pathlib.Path) -> None:
    from maven_artifact import Artifact, Resolver

    url = Artifact.parse(jar).uri((REPOSITORY or Resolver.default().base).rstrip("/"))
    try:
        checksum = pathlib.Path(files.fetch(f"{url}.sha1", str(tmp_path))).read_text()
    # mirrors may be partial, so that only the name of a jar that is there is proven
    except files.FileError as error:
        pytest.skip(f"the repository of this machine does not have it: {error}")
    assert re.match("[0-9a-f]{40}", checksum)


@pytest.mark.flink
def test_the_provider_of_models_is_compiled_once(home: pathlib.Path) -> None:
    (path,) = jars.paths_of(["akdl"])
    with zipfile.ZipFile(path) as jar:
        assert {"SqlModels.class", "SqlModels$Function.class"} < set(jar.namelist())
        assert (
            jar.read("META-INF/services/org.apache.flink.table.factories.Factory") == b"SqlModels\n"
        )
    made = os.stat(path).st_mtime_ns
    assert jars.paths_of(["akdl"]) == [path] and os.stat(path).st_mtime_ns == made
    assert any(line.split()[:2] == ["akdl", "there"] for line in jars._listed())


def test_the_provider_of_models_needs_ml_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_jars, "flink_version", lambda: "2.0.1")
    monkeypatch.setattr(jars, "flink_version", lambda: "2.0.1")
    with pytest.raises(
        ConfigurationError,
        match="akdl is for ML_PREDICT, which Flink has since 2.1, and this is Flink 2.0.1",
    ):
        jars.paths_of(["akdl"])


def test_jars_of_an_environment_may_be_names_or_paths(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own one.jar").write_bytes(b"")
    with served(files=repository()) as site:
        monkeypatch.setenv("AKDL_MAVEN_REPOSITORY", site.url)
        config = {
            "jars": ["kafka", str(tmp_path / "own one.jar")],
            "pipeline.jars": "file:///a.jar",
        }
        entries, _ = _checked("useLocalEnv", 1, None, config)
    cached = f"file://{tmp_path}/.cache/akdl/jars{KAFKA}"
    assert entries == {
        "pipeline.jars": f"file:///a.jar;{cached};file://{tmp_path}/own%20one.jar",
        "akdl.plugins": "",
    }
    for wrong in ("kafka", [1], {"kafka"}):
        with pytest.raises(
            ConfigurationError,
            match="'jars': expected a list of names, coordinates and paths of jars, got",
        ):
            useLocalEnv(1, config={"jars": wrong})
    (tmp_path / "flink-s3-fs-hadoop-2.3.0.jar").write_bytes(b"")
    jars = [str(tmp_path / "flink-s3-fs-hadoop-2.3.0.jar"), str(tmp_path / "own one.jar")]
    entries, _ = _checked("useLocalEnv", 1, None, {"jars": jars})
    assert entries == {
        "pipeline.jars": f"file://{tmp_path}/own%20one.jar",
        "akdl.plugins": f"file://{tmp_path}/flink-s3-fs-hadoop-2.3.0.jar",
    }
    resetEnv()


def test_akdl_jars_is_an_installed_command() -> None:
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("akdl"), "jars", "--help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith("usage: akdl jars ")
