"""The files for Kubernetes: what can be said of them without Docker and Kubernetes."""

from __future__ import annotations

import copy
import os
import pathlib
import re
import runpy
import subprocess
import zipfile
from importlib.metadata import version
from typing import Any
from unittest import mock

import pytest
import yaml
from dockerfile_parse import DockerfileParser
from packaging.requirements import Requirement

from akdl import versions
from bridge.exceptions import ConfigurationError
from operators.flink.jars import paths_of
from tests.support.installs import ROOT

KUBERNETES = ROOT / "docs" / "kubernetes"
README = (KUBERNETES / "README.md").read_text()
FLINKS = ("", "flink-1.20")  # folders of the files, by Flink
# Has the CRDs of the operator's chart. Of the releases that know Flink 1.20, the first one is enough: what
# a later one accepts is a question of its list of Flinks.
OPERATOR = "org.apache.flink:flink-kubernetes-operator-api:1.10.0"
INSTRUCTIONS = {"ARG", "FROM", "RUN", "COPY", "ENV"}  # those that it needs, of all that there are


@pytest.fixture(scope="module", params=FLINKS, ids=["newest", "1.20"])
def folder(request: pytest.FixtureRequest) -> pathlib.Path:
    """The files for a Flink."""
    return KUBERNETES / request.param


@pytest.fixture(scope="module")
def dockerfile(
    folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, str]]:
    """The instructions with their values, comments left out."""
    copy = tmp_path_factory.mktemp("docker") / "Dockerfile"  # the parser opens the file for writing
    copy.write_text((folder / "Dockerfile").read_text())
    return [
        (each["instruction"], each["value"])
        for each in DockerfileParser(str(copy)).structure
        if each["instruction"] != "COMMENT"
    ]


def values(dockerfile: list[tuple[str, str]], instruction: str) -> list[str]:
    return [value for each, value in dockerfile if each == instruction]


def test_instructions_are_known(dockerfile: list[tuple[str, str]]) -> None:
    assert {instruction for instruction, _ in dockerfile} == INSTRUCTIONS


def default(dockerfile: list[tuple[str, str]], name: str) -> str:
    """Default of an argument of the image."""
    return dict(value.split("=", 1) for value in values(dockerfile, "ARG"))[name]


def test_the_image_is_of_our_release_of_flink(
    folder: pathlib.Path, dockerfile: list[tuple[str, str]]
) -> None:
    flink = default(dockerfile, "FLINK")
    minor = "1.20" if folder.name == "flink-1.20" else version("apache-flink").rpartition(".")[0]
    if folder == KUBERNETES and minor == "1.20":
        pytest.skip("these tests run with Flink 1.20")
    assert flink.startswith(f"{minor}.") and flink.endswith("-java17")
    assert values(dockerfile, "FROM") == ["flink:${FLINK}"]
    for name in ("application", "session"):
        text = (folder / f"operator-{name}.yaml").read_text()
        assert f"flink-python-{flink.split('-')[0]}.jar" in text
        assert f"flinkVersion: v{minor.replace('.', '_')}\n" in text


def test_installed_files_are_copied_and_exist(dockerfile: list[tuple[str, str]]) -> None:
    copied = {}
    for value in values(dockerfile, "COPY"):
        *sources, target = value.replace("${SIDES}", default(dockerfile, "SIDES")).split()
        for source in sources:
            assert (ROOT / source).exists(), source
            copied[source] = (
                target if target.endswith("/") else str(pathlib.PurePath(target).parent) + "/"
            )
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    pins = {
        f"docs/kubernetes/requirements-{name}.txt" for name in ("uv", default(dockerfile, "SIDES"))
    }
    assert copied == {
        **dict.fromkeys(
            {"setup.py", "pyproject.toml", "README.md", "LICENSE", *packages, *pins}, "/tmp/akdl/"
        ),
        "scripts/build_stubs.py": "/tmp/akdl/scripts/",
    }
    extras = default(dockerfile, "SIDES").split(",")
    assert all(f'"{extra}": ' in (ROOT / "setup.py").read_text() for extra in extras)


@pytest.mark.parametrize("sides", ["flink", "flink,tf", "flink-1.20", "flink-1.20,tf"])
@pytest.mark.fault(
    "security", "Each package of the Kubernetes image is pinned by version and checksum"
)
def test_each_package_of_the_image_is_pinned_by_version_and_checksum(sides: str) -> None:
    """And the pins are what setup.py asks for: they are renewed when that changes."""
    text = (KUBERNETES / f"requirements-{sides}.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", text, re.MULTILINE))
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(pins) > 30 and all(
        re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries
    )
    here = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    declared = requirements()
    for text in (
        *declared["install_requires"],
        *(each for side in sides.split(",") for each in declared["extras_require"][side]),
    ):
        wanted = Requirement(text)
        # Beam of Flink 1.20 takes no protobuf as new as the extra `tf` asks for where it is alone.
        if sides == "flink-1.20,tf" and wanted.name == "protobuf":
            continue
        if wanted.marker is None or wanted.marker.evaluate(here):
            assert wanted.specifier.contains(pins[wanted.name]), text
    assert "setuptools" in pins, "akdl itself is built with it"


def requirements() -> dict[str, Any]:
    """What setup.py declares."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    return dict(setup.call_args.kwargs)


def test_commands_of_the_image_are_valid_and_use_existing_environments(
    dockerfile: list[tuple[str, str]],
) -> None:
    run = values(dockerfile, "RUN")
    for command in run:
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    environments = set(re.findall(r"venv (?:--\S+ 3\.11 )?(/\S+)", " ".join(run)))
    assert environments == {"/opt/uv", "/opt/akdl"}
    used = {
        path.rsplit("/bin/", 1)[0]
        for command in run
        for path in re.findall(r"/\S+/bin/\w+", command)
    }
    assert used == environments
    assert "PATH=/opt/akdl/bin:${PATH}" in values(dockerfile, "ENV")


@pytest.fixture(scope="module")
def objects(folder: pathlib.Path) -> dict[tuple[str, str], Any]:
    loaded = list(yaml.safe_load_all((folder / "session.yaml").read_text()))
    return {(each["kind"], each["metadata"]["name"]): each for each in loaded}


def container(objects: dict[tuple[str, str], Any], role: str) -> Any:
    (found,) = objects["Deployment", f"flink-{role}"]["spec"]["template"]["spec"]["containers"]
    return found


def properties(objects: dict[tuple[str, str], Any], role: str) -> dict[str, str]:
    """Flink's configuration of a container, as the image's entrypoint reads it: a line each,
    without any space.
    """
    (text,) = [
        each["value"]
        for each in container(objects, role)["env"]
        if each["name"] == "FLINK_PROPERTIES"
    ]
    return dict(re.sub(r"\s", "", line).split(":", 1) for line in text.splitlines())


def test_kubernetes_objects_are_the_expected_ones(objects: dict[tuple[str, str], Any]) -> None:
    assert {name: each["apiVersion"] for name, each in objects.items()} == {
        ("Service", "flink-jobmanager"): "v1",
        ("Deployment", "flink-jobmanager"): "apps/v1",
        ("Deployment", "flink-taskmanager"): "apps/v1",
        ("NetworkPolicy", "flink"): "networking.k8s.io/v1",
    }


@pytest.mark.parametrize("release", ["1.29", "newest"])
def test_objects_fit_the_schemas_of_kubernetes(
    objects: dict[tuple[str, str], Any], release: str
) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    release = validator.latest_version() if release == "newest" else release
    for each in objects.values():
        validator.validate(each, release, strict=True)
    misspelled = copy.deepcopy(objects["Deployment", "flink-taskmanager"])
    misspelled["spec"]["template"]["spec"]["containers"][0]["ressources"] = {}
    with pytest.raises(validator.ValidationError, match="ressources"):
        validator.validate(misspelled, release, strict=True)


@pytest.mark.parametrize("role", ["jobmanager", "taskmanager"])
def test_pods_have_no_rights_that_they_do_not_need(
    objects: dict[tuple[str, str], Any], role: str
) -> None:
    spec = objects["Deployment", f"flink-{role}"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 9999, "runAsGroup": 9999, "fsGroup": 9999, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert container(objects, role)["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert all("sizeLimit" in each["emptyDir"] for each in spec.get("volumes", []))


@pytest.mark.fault("security", "Only pods of Flink reach each other on Kubernetes")
def test_network_policy_lets_only_pods_of_the_cluster_reach_each_other(
    objects: dict[tuple[str, str], Any],
) -> None:
    spec = objects["NetworkPolicy", "flink"]["spec"]
    everybody = {"matchLabels": {"app": "flink"}}
    assert spec == {
        "podSelector": everybody,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": everybody}]}],
    }
    for role in ("jobmanager", "taskmanager"):
        labels = objects["Deployment", f"flink-{role}"]["spec"]["template"]["metadata"]["labels"]
        assert everybody["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("role", ["jobmanager", "taskmanager"])
def test_deployments_select_their_own_pods_and_run_our_image(
    folder: pathlib.Path, objects: dict[tuple[str, str], Any], role: str
) -> None:
    spec = objects["Deployment", f"flink-{role}"]["spec"]
    assert (
        spec["selector"]["matchLabels"]
        == spec["template"]["metadata"]["labels"]
        == {"app": "flink", "component": role}
    )
    assert container(objects, role)["args"] == [role]
    (built,) = re.findall(
        rf"docker build --file {folder.relative_to(ROOT)}/Dockerfile --tag (\S+) \.",
        (folder / "Dockerfile").read_text(),
    )
    assert container(objects, role)["image"] == built
    assert built.removesuffix("-1.20") in README and built.rpartition(":")[2] in README


def test_the_service_leads_to_the_jobmanager(objects: dict[tuple[str, str], Any]) -> None:
    service = objects["Service", "flink-jobmanager"]
    labels = [
        objects["Deployment", f"flink-{role}"]["spec"]["template"]["metadata"]["labels"]
        for role in ("jobmanager", "taskmanager")
    ]
    assert [service["spec"]["selector"].items() <= each.items() for each in labels] == [True, False]
    opened = {
        each["name"]: each["containerPort"] for each in container(objects, "jobmanager")["ports"]
    }
    # Flink's own defaults, and that of the blob server in the image's entrypoint
    assert (
        {each["name"]: each["port"] for each in service["spec"]["ports"]}
        == opened
        == {"rpc": 6123, "blob": 6124, "rest": 8081}
    )
    assert container(objects, "jobmanager")["readinessProbe"]["httpGet"]["port"] in opened
    assert "port-forward service/flink-jobmanager 8081:8081" in README
    for role in ("jobmanager", "taskmanager"):
        assert properties(objects, role)["jobmanager.rpc.address"] == service["metadata"]["name"]


def test_slots_of_the_deployment_are_those_on_the_page(
    folder: pathlib.Path, objects: dict[tuple[str, str], Any]
) -> None:
    each = int(properties(objects, "taskmanager")["taskmanager.numberOfTaskSlots"])
    replicas = objects["Deployment", "flink-taskmanager"]["spec"]["replicas"]
    assert f"There are {each * replicas} slots, {each} in each of {replicas} TaskManagers" in README
    assert (
        f"{replicas} TaskManagers with {each} slots each" in (folder / "session.yaml").read_text()
    )


def test_pods_have_memory_in_addition_to_that_of_flink(objects: dict[tuple[str, str], Any]) -> None:
    def limit(role: str) -> float:
        return float(container(objects, role)["resources"]["limits"]["memory"].removesuffix("Gi"))

    slots = int(properties(objects, "taskmanager")["taskmanager.numberOfTaskSlots"])
    assert (
        limit("taskmanager")
        >= float(
            properties(objects, "taskmanager")["taskmanager.memory.process.size"].removesuffix("g")
        )
        + 1.5 * slots
    )
    assert (
        limit("jobmanager") * 1024
        >= float(
            properties(objects, "jobmanager")["jobmanager.memory.process.size"].removesuffix("m")
        )
        + 1024
    )


def test_mounted_volumes_are_declared(objects: dict[tuple[str, str], Any]) -> None:
    spec = objects["Deployment", "flink-taskmanager"]["spec"]["template"]["spec"]
    assert {each["name"] for each in container(objects, "taskmanager")["volumeMounts"]} == {
        each["name"] for each in spec["volumes"]
    }


# The objects of Flink's operator for Kubernetes.


@pytest.fixture(scope="module")
def crds() -> dict[str, Any]:
    """Schemas of the operator's objects by kind, which accept nothing that they do not list.

    AKDL_TEST_CRDS names the folder `crds` of the chart of another release.
    """
    texts: list[bytes] = []
    if given := os.environ.get("AKDL_TEST_CRDS"):
        texts += [path.read_bytes() for path in pathlib.Path(given).glob("*-v1.yml")]
    else:
        try:
            (jar,) = paths_of([OPERATOR])
        except ConfigurationError as error:
            pytest.skip(str(error))
        with zipfile.ZipFile(jar) as archive:
            texts += [archive.read(name) for name in archive.namelist() if name.endswith("-v1.yml")]
    found = {}
    for text in texts:
        spec = yaml.load(text, yaml.CSafeLoader)["spec"]
        (schema,) = [each["schema"]["openAPIV3Schema"] for each in spec["versions"]]
        schema["properties"].update({key: {} for key in ("apiVersion", "kind", "metadata")})
        found[spec["names"]["kind"]] = closed(schema)
    return found


def closed(schema: Any) -> Any:
    """The schema, in which an object has no other properties than those listed, as for `kubectl`."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    # A property may itself be called "properties"; it has a type then.
    if "type" in made and "properties" in made and isinstance(made["type"], str):
        made.setdefault("additionalProperties", False)
    return made


def of_operator(folder: pathlib.Path, name: str) -> dict[str, Any]:
    """The objects of a file by kind."""
    loaded = yaml.safe_load_all((folder / f"operator-{name}.yaml").read_text())
    return {each["kind"]: each for each in loaded}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["application", "session"])
def test_objects_fit_the_crds_of_the_operator(
    folder: pathlib.Path, crds: dict[str, Any], name: str
) -> None:
    jsonschema = pytest.importorskip("jsonschema")

    def wrong(each: dict[str, Any]) -> list[str]:
        errors = jsonschema.Draft202012Validator(crds[each["kind"]]).iter_errors(each)
        return [error.message for error in errors]

    objects = {kind: each for kind, each in of_operator(folder, name).items() if kind in crds}
    assert set(objects) == {"FlinkDeployment", "FlinkSessionJob"} - (
        {"FlinkSessionJob"} if name == "application" else set()
    )
    for each in objects.values():
        newest = each["spec"].get("flinkVersion") == f"v{versions.FLINKS[-1].replace('.', '_')}"
        # This release of the operator does not list the newest Flink yet.
        assert all("'v1_20'" in error for error in wrong(each)) if newest else wrong(each) == []
    misspelled = copy.deepcopy(objects["FlinkDeployment"])
    misspelled["spec"]["taskManager"]["ressource"] = misspelled["spec"]["taskManager"].pop(
        "resource"
    )
    misspelled["spec"]["podTemplate"]["spec"]["volumes"][0]["name"] = 1
    assert len(set(wrong(misspelled)) - set(wrong(objects["FlinkDeployment"]))) == 2


@pytest.mark.parametrize("name", ["application", "session"])
def test_objects_of_the_operator_agree_with_the_image_and_each_other(
    folder: pathlib.Path, name: str, objects: dict[tuple[str, str], Any]
) -> None:
    found = of_operator(folder, name)
    spec = found["FlinkDeployment"]["spec"]
    template = spec["podTemplate"]["spec"]
    (main,) = template["containers"]
    assert spec["image"] == container(objects, "jobmanager")["image"]
    assert main["name"] == "flink-main-container", "the name that Flink looks for"
    assert {each["name"] for each in main["volumeMounts"]} == {
        each["name"] for each in template["volumes"]
    }
    # The rights of a pod are those of session.yaml, but for the token that starts TaskManagers.
    session = objects["Deployment", "flink-taskmanager"]["spec"]["template"]["spec"]
    assert template["securityContext"] == session["securityContext"]
    assert main["securityContext"] == container(objects, "taskmanager")["securityContext"]
    # So is their memory.
    flink = float(spec["taskManager"]["resource"]["memory"].removesuffix("g"))
    factor = float(spec["flinkConfiguration"]["kubernetes.taskmanager.memory.limit-factor"])
    assert f"{flink * factor:.0f}Gi" == container(objects, "taskmanager")["resources"]["limits"]["memory"]  # fmt: skip
    job = (found["FlinkSessionJob"]["spec"] if name == "session" else spec)["job"]
    if name == "session":
        deployment = found["FlinkDeployment"]["metadata"]["name"]
        assert found["FlinkSessionJob"]["spec"]["deploymentName"] == deployment
        assert job["jarURI"].startswith("https://"), "the operator reads no other addresses"
    program = job["args"][job["args"].index("-py") + 1]
    (configured,) = [
        each["configMap"]["name"] for each in template["volumes"] if "configMap" in each
    ]
    assert f"create configmap {configured} --from-file=examples/on_a_cluster\n" in README
    mounts = {each["name"]: each["mountPath"] for each in main["volumeMounts"]}
    assert program == f"{mounts['jobs']}/job.py" and job["args"][-1].startswith(mounts["shared"])
    assert "ENV PATH=/opt/akdl/bin:${PATH}" in (folder / "Dockerfile").read_text()
    assert "/opt/akdl/bin/python" in job["args"]
