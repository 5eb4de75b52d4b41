"""An environment with ace-core and all sample plugins, installed from wheels that were built for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.requirement import missing
from tests.workspace.plugins.sample_plugins import write_workspace
from tests.workspace.project import ROOT


@dataclass(frozen=True)
class Environment:
    """Where things are installed."""

    folder: Path
    wheels: Path
    notes: Path

    def command(
        self, *command: str | Path, environ: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run something of the environment; what it imports of the samples is noted."""
        self.notes.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACE_", "PYTHON"))}
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=cwd or self.folder,
            env={**kept, "NOTED_IMPORTS": str(self.notes), "HOME": str(self.folder), **(environ or {})},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def python(self, code: str, **environ: str) -> str:
        """Run code, which must succeed, and return what it printed."""
        done = self.command("python", "-I", "-W", "error", "-c", code, environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run `ace` and return the object that it printed."""
        found: dict[str, Any] = json.loads(self.command("ace", *arguments).stdout)
        return found

    def imported(self) -> list[str]:
        """The sample packages that the last command imported."""
        return self.notes.read_text(encoding="utf-8").split() if self.notes.exists() else []


def uv() -> str:
    found = shutil.which("uv") or shutil.which("uv", path=ROOT / ".tools" / "bin")
    if found is None:
        missing("uv", "uv is not installed")
    return found


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("plugins")
    sources, wheels, environment = folder / "sources", folder / "wheels", folder / "environment"
    sources.mkdir()
    write_workspace(sources)
    run(uv(), "build", "--quiet", "--all-packages", "--wheel", "--out-dir", wheels, sources)
    run(uv(), "build", "--quiet", "--wheel", "--out-dir", wheels, ROOT / "ace-core")
    run(uv(), "venv", "--quiet", "--python", sys.executable, environment)
    install: list[str | Path] = [uv(), "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    install += ["--constraint", ROOT / "requirements" / "dev.txt", *sorted(wheels.glob("*.whl"))]
    try:
        run(*install, "--offline")  # what `make` has fetched is in uv's cache
    except AssertionError:
        run(*install)
    return Environment(environment, wheels, folder / "imports.txt")


def run(*command: str | Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environ["UV_COMPILE_BYTECODE"] = "0"  # little of what is installed will be imported
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
