"""A machine with one repository, and `ace sleep` on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_sessions import Act, ClaudeSession, CodexSession, Repo, new_repo
from tests.support.command_line import Done, ace


@dataclass
class Machine:
    """A home folder with sessions and a repository."""

    home: Path
    repo: Repo
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """What `ace sleep` remembers."""
        return self.home / ".local" / "state" / "ace" / "sleep"

    def claude(self, *acts: Act, **options: Any) -> Path:
        """Write a session of Claude Code in the repository."""
        return ClaudeSession(self.home, options.pop("cwd", self.repo.root), **options).write(*acts)

    def codex(self, *acts: Act, **options: Any) -> Path:
        """Write a session of Codex in the repository."""
        commit = options.pop("commit", None) or self.repo.git("rev-parse", "HEAD")
        return CodexSession(self.home, options.pop("cwd", self.repo.root), commit, **options).write(*acts)

    def ace(self, *arguments: str | Path, folder: Path | None = None) -> Done:
        """Run `ace` in the repository."""
        environ = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config"), **self.environ}
        return ace(*arguments, folder=folder or self.repo.root, environ=environ)

    def sleep(self, *arguments: str | Path) -> dict[str, Any]:
        """Run `ace sleep` without a model, which must succeed, and return what it says."""
        done = self.ace("sleep", "--no-model", "--json", *arguments)
        assert done.code == 0, done.err
        return done.data


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    return Machine(home, new_repo(tmp_path / "shop"))
