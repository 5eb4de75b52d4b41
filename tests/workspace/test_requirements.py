"""The exported requirements fit what the pyproject files declare."""

from collections.abc import Iterator
from typing import Any

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


def test_every_declared_requirement_is_pinned() -> None:
    pins = pinned("dev.txt")
    wrong = {}
    for requirement in declared_for_development():
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions or any(version not in requirement.specifier for version in versions):
            wrong[str(requirement)] = versions
    assert wrong == {}, "requirements/dev.txt is out of date: run `make requirements`"


def test_uv_is_bootstrapped_at_the_declared_version() -> None:
    (declared,) = dependency_groups()["bootstrap"]
    assert pinned("bootstrap.txt") == {"uv": [declared.removeprefix("uv==")]}
