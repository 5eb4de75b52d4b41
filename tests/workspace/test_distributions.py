"""Every distribution of the workspace is complete, and none is forgotten."""

from pathlib import Path

import pytest

from noxfile import TESTS_OF_WHEELS
from tests.workspace.project import ROOT, distributions, read_toml

each_distribution = pytest.mark.parametrize("folder", distributions(), ids=lambda folder: str(folder.name))


def import_package(folder: Path) -> str:
    name: str = read_toml(folder / "pyproject.toml")["tool"]["uv"]["build-backend"]["module-name"]
    return name


def test_every_distribution_is_a_member_of_the_workspace() -> None:
    assert sorted(path.parent for path in ROOT.glob("*/pyproject.toml")) == sorted(distributions())


@each_distribution
def test_a_distribution_describes_itself(folder: Path) -> None:
    project = read_toml(folder / "pyproject.toml")["project"]
    assert project["name"] == folder.name
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "Apache-2.0"
    assert project["version"]
    assert project["description"].endswith(".")
    assert "dependencies" in project


@each_distribution
def test_a_distribution_carries_its_readme_and_license(folder: Path) -> None:
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# {folder.name}\n")
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@each_distribution
def test_a_distribution_has_one_typed_import_package_below_src(folder: Path) -> None:
    package = folder / "src" / import_package(folder)
    assert [path for path in (folder / "src").iterdir() if path.name != "__pycache__"] == [package]
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()


@each_distribution
def test_a_distribution_has_tests(folder: Path) -> None:
    tests = ROOT / "tests" / folder.name.removeprefix("ace-").replace("-", "_")
    assert list(tests.rglob("test_*.py"))


def test_the_tests_of_every_wheel_exist() -> None:
    listed = [test for tests in TESTS_OF_WHEELS.values() for test in tests]
    assert sorted(TESTS_OF_WHEELS) == sorted(folder.name for folder in distributions())
    assert all(TESTS_OF_WHEELS.values())
    assert [test for test in listed if not (ROOT / test).is_file()] == []


@each_distribution
def test_the_changelog_names_the_version(folder: Path) -> None:
    version = read_toml(folder / "pyproject.toml")["project"]["version"]
    assert f"**{folder.name} {version}**" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
