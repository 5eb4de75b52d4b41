"""What must not be in the repository."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.project import ROOT, committed_files, distributions, tracked_names

LINES_AT_MOST = 1300  # one cohesive class or table may be long, such as `Skillbook`; more is several concepts

REGISTRY_HOSTS = re.compile(
    r"pythonhosted\.org|pypi\.org/(simple|pypi)|registry\.npmjs\.org|registry\.yarnpkg\.com|deb\.debian\.org"
)
# Preceded by nothing that could make it a part of a longer path or of an address.
MACHINE_PATHS = re.compile(r"(?<![\w.:/-])/(work|farm|root|tmp)/[\w.]")


def matches(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in committed_files():
        for number, line in enumerate(read(path).splitlines(), 1):
            if found := pattern.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {found[0]}"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_package_registry() -> None:
    assert list(matches(REGISTRY_HOSTS)) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert list(matches(MACHINE_PATHS)) == []


@pytest.mark.parametrize(
    "line",
    [
        "index-url = https://" + "py" + "pi.org/simple",
        "url = https://files." + "python" + "hosted.org/packages/a.whl",
    ],
)
def test_an_address_of_a_registry_would_be_found(line: str) -> None:
    assert REGISTRY_HOSTS.search(line)


@pytest.mark.parametrize("folder", ["work", "farm", "root", "tmp"])
def test_a_path_of_a_machine_would_be_found(folder: str) -> None:
    assert MACHINE_PATHS.search(f'open("/{folder}/main/notes.txt")')
    assert not MACHINE_PATHS.search(f"https://example.org/{folder}/main/notes.txt")


def test_the_lock_file_is_not_tracked() -> None:
    assert not [name for name in tracked_names() if Path(name).name == "uv.lock"]


def test_nothing_is_left_lying_at_the_top() -> None:
    named = {".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "noxfile.py"}
    named |= {"pyproject.toml", "requirements", "tests", "docs", "examples", "benchmarks"}
    named |= {folder.name for folder in distributions()}
    assert {name.partition("/")[0] for name in tracked_names()} == named


def test_python_files_stay_readable_in_one_go() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(read(path).splitlines())
        for path in committed_files()
        if path.suffix == ".py"
    }
    assert lengths, "no Python file was found at all"
    assert {name: length for name, length in lengths.items() if length > LINES_AT_MOST} == {}
