"""The same sources give the same wheels, byte for byte."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.requirement import missing
from tests.workspace.project import ROOT, distributions

LONG_AGO = 1_000_000_000


def copy_of_the_sources(folder: Path) -> Path:
    """What `make wheels` reads, in another place, with other times and permissions."""
    for source in distributions():
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(folder: Path) -> dict[str, bytes]:
    """Build all wheels of a copy, as `make wheels` does, and return their bytes by name."""
    uv = shutil.which("uv") or missing("uv", "uv is not on the path; `make` puts it there")
    command = [uv, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", "dist"]
    subprocess.run(command, cwd=folder, check=True)
    return {path.name: path.read_bytes() for path in (folder / "dist").glob("*.whl")}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    first = build(copy_of_the_sources(tmp_path_factory.mktemp("here")))
    elsewhere = copy_of_the_sources(tmp_path_factory.mktemp("elsewhere-with-a-longer-name"))
    for path in elsewhere.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
        os.utime(path, (LONG_AGO, LONG_AGO))
    return first, build(elsewhere)


def test_every_distribution_has_a_wheel(wheels: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    built = {name.partition("-")[0].replace("_", "-") for name in wheels[0]}
    assert built == {folder.name for folder in distributions()}


def test_place_time_and_permissions_of_the_sources_do_not_show(
    wheels: tuple[dict[str, bytes], dict[str, bytes]],
) -> None:
    first, second = wheels
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_another_source_gives_another_wheel(tmp_path: Path, wheels: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    folder = copy_of_the_sources(tmp_path)
    changed = folder / "ace-core" / "src" / "ace" / "skill.py"
    changed.write_text(changed.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    different = [name for name, data in build(folder).items() if data != wheels[0][name]]
    assert [name.partition("-")[0] for name in different] == ["ace_core"]


def test_no_wheel_brings_bytecode_or_a_file_twice(
    wheels: tuple[dict[str, bytes], dict[str, bytes]], tmp_path: Path
) -> None:
    for name, data in wheels[0].items():
        path = tmp_path / name
        path.write_bytes(data)
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
        assert len(names) == len(set(names))
        assert not [entry for entry in names if entry.endswith(".pyc")]
