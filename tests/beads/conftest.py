"""A project with an issue in beads: the real program if `ACE_BD_BINARY` names one, else one that behaves like it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ace.loop import InsightLog
from tests.support.command_line import Done, Run, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

FAKE_BD = Path(__file__).parents[1] / "support" / "fake_bd.py"
BD = os.environ.get("ACE_BD_BINARY", str(FAKE_BD))
"""Read before a fixture removes the variables of ACE."""

only_fake = pytest.mark.skipif(str(FAKE_BD) != BD, reason="a real bd cannot be told to fail")


@dataclass(frozen=True)
class Tracker:
    """A project with issues."""

    folder: Path
    environ: Mapping[str, str]
    """What the commands need to find the model and `bd`."""
    run: Run
    """Runs `ace` in this process."""

    def bd(self, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
        """Run `bd`, which must succeed, and return what it printed."""
        done = subprocess.run(
            [BD, *arguments],
            cwd=self.folder,
            env=command_environment(self.folder, {**self.environ, **(environ or {})}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, title: str, description: str = "") -> str:
        """Create an issue and return its id."""
        return _issue_in(self.bd("create", title, "-d", description, "--json"))["id"]

    def status_of(self, id: str) -> str:
        """Return the status of an issue."""
        return _issue_in(self.bd("show", id, "--json"))["status"]

    def ace_process(self, *arguments: str) -> Done:
        """Run `ace beads` in a process of its own, for a command that starts a learner: Python would miss its end."""
        return ace("beads", *arguments, folder=self.folder, environ=self.environ)

    def ace(self, *arguments: str | Path, environ: Mapping[str, str] | None = None, folder: str = "") -> Done:
        """Run `ace beads` in the project and in this process."""
        return self.run("beads", *arguments, folder=self.folder / folder, environ={**self.environ, **(environ or {})})

    def traces(self) -> list[dict[str, Any]]:
        """The trace log."""
        log = self.folder / "logs" / "execution_traces.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def insights(self) -> list[str]:
        """What was learned from attempts. It takes several tasks until a skill comes of it."""
        log = InsightLog(self.folder / "logs" / "insights.jsonl")
        return [insight.recommendation for insight in log.insights()]


def _issue_in(printed: str) -> dict[str, str]:
    found = json.loads(printed)
    issue: dict[str, str] = found[0] if isinstance(found, list) else found
    return issue


@pytest.fixture
def model_answers() -> threading.Event:
    """While it is cleared, the model does not answer."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def server(model_answers: threading.Event) -> Iterator[ScriptedServer]:
    script = learning_script()

    def held(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        model_answers.wait()
        return script(request)

    with ScriptedServer(held) as started:
        yield started
        model_answers.set()


@pytest.fixture
def tracker(tmp_path: Path, server: ScriptedServer, here: Run) -> Tracker:
    folder = tmp_path / "project"
    folder.mkdir()
    environ = {"ACE_BD_BINARY": BD, "ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
    made = Tracker(folder, environ, here)
    made.bd("init", "--prefix", "bd")
    return made


@pytest.fixture
def issue(tracker: Tracker) -> str:
    """The id of an open issue."""
    return tracker.create("Fix the imports", "LESSON imports")
