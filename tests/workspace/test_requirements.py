"""The exported requirements fit what the pyproject files declare."""

from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.workspace.project import ROOT, distributions, read_toml


def pinned(file: str) -> dict[str, list[str]]:
    """Each package of an exported file with the versions that it pins (one for each range of Python)."""
    versions: dict[str, list[str]] = {}
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    for entry in text.replace("\\\n", " ").splitlines():
        pin, *hashes = entry.split("--hash=sha256:")
        assert hashes, f"{file} pins without a hash: {entry}"
        requirement = Requirement(pin)
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        versions.setdefault(canonicalize_name(requirement.name), []).append(specifier.version)
    return versions


def dependency_groups() -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
    return groups


def declared_for_development() -> Iterator[Requirement]:
    """What `.venv` needs from a registry."""
    members = {folder.name for folder in distributions()}
    for group, entries in dependency_groups().items():
        if group != "bootstrap":
            yield from (Requirement(entry) for entry in entries if isinstance(entry, str))
    for folder in distributions():
        project = read_toml(folder / "pyproject.toml")["project"]
        extras = project.get("optional-dependencies", {})
        for entry in [*project["dependencies"], *(entry for extra in extras.values() for entry in extra)]:
            requirement = Requirement(entry)
            if requirement.name not in members:
                yield requirement


@pytest.mark.parametrize("requirement", sorted(set(declared_for_development()), key=str), ids=str)
def test_a_declared_requirement_is_pinned(requirement: Requirement) -> None:
    versions = pinned("dev.txt").get(canonicalize_name(requirement.name), [])
    assert versions, f"{requirement} is not in requirements/dev.txt: run `make requirements`"
    assert [version for version in versions if version not in requirement.specifier] == []


def test_uv_is_bootstrapped_at_the_declared_version() -> None:
    (declared,) = dependency_groups()["bootstrap"]
    assert pinned("bootstrap.txt") == {"uv": [declared.removeprefix("uv==")]}
