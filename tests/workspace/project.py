"""The project as it lies on disk: its root, its distributions, its files."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from tests.requirement import missing

ROOT = Path(__file__).resolve().parents[2]


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def distributions() -> list[Path]:
    """The folders of the distributions, as the workspace lists them."""
    members: list[str] = read_toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
    return [ROOT / member for member in members]


def committed_files() -> list[Path]:
    """All files that are committed or could be: those that git does not ignore."""
    return [path for path in _git_files("--cached", "--others", "--exclude-standard") if path.is_file()]


def tracked_names() -> list[str]:
    """The files that git has, as paths from the root."""
    return [path.relative_to(ROOT).as_posix() for path in _git_files("--cached")]


def _git_files(*options: str) -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        missing("git", "this is no git checkout, or git is not installed")
    listed = subprocess.run(
        ["git", "ls-files", "-z", *options], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name]
