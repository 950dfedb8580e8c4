"""Files with the names of our packages."""

from __future__ import annotations

import os
import pathlib
import zipfile

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.shipped import refuse_shadowing, shadowed_packages
from tests.support.installs import ROOT, wheel


def test_our_own_packages_and_plain_folders_shadow_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bridge").mkdir()  # without __init__.py Python goes on looking
    (tmp_path / "bridge" / "span.py").touch()
    for entry in (str(ROOT), str(wheel()), str(tmp_path), str(tmp_path / "none")):
        assert shadowed_packages(entry) == {}


@pytest.mark.parametrize(
    "name", ["akdl.py", "bridge.py", "operators.py", "akdl/__init__.py", "operators/__init__.py"]
)
def test_file_of_the_user_with_the_name_of_a_package_is_refused(
    tmp_path: pathlib.Path, name: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    package = name.split(".")[0].split("/")[0]
    assert shadowed_packages(str(tmp_path)) == {package: str(path)}
    if name.endswith(f"{package}.py"):
        assert shadowed_packages(str(path)) == {package: str(path)}
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(path, name)
    with pytest.raises(ConfigurationError) as caught:
        refuse_shadowing("python.files", f"{tmp_path / 'other.py'},{archive}")
    assert str(caught.value) == (
        f"python.files: {os.path.join(archive, name)} would be shipped with the job and hide the package {package!r} from Flink's "
        "Python workers. Rename it, or leave it out"
    )
