"""One machine with all repositories, with the sessions of coding agents in them, and with what agents are shown."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.sleep.samples import Ran, Sample, Session, change
from tests.support import agent_sessions as agents

__all__ = ["Machine", "Result", "instructions_in", "recorded_acts", "run_command"]

_RULES: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md")
_SKILLS = (".claude/skills", ".agents/skills")
_SECONDS = 60


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    output: str


def run_command(command: str, tree: Path) -> Result:
    """Run a command of a sample in a folder."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tree,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Result(done.returncode, done.stdout.strip())


@dataclass(frozen=True)
class Machine:
    """A home folder and repositories.

    Args:
        folder: Where they are.
        samples: The repositories.
        seed: Decides which agent had which session, and in what order the sessions were.
        now: When the method is run; the sessions were in the last two days.
        only_claude: Whether all sessions are those of Claude Code.
    """

    folder: Path
    samples: Sequence[Sample]
    seed: int
    now: datetime
    only_claude: bool = False

    @property
    def home(self) -> Path:
        """The home folder."""
        return self.folder / "home"

    def root(self, sample: Sample) -> Path:
        """The folder of a repository."""
        return self.folder / "src" / sample.name

    def set_up(self) -> None:
        """Create the repositories and the sessions."""
        self.home.mkdir(parents=True)
        began = self.now.astimezone(UTC) - timedelta(hours=40)
        for number, sample in enumerate(self.samples):
            repo = agents.new_repo(self.root(sample), sample.files, when=began - timedelta(hours=1))
            self._write_sessions(sample, repo, began + timedelta(minutes=number))
            repo.commit({"NOTES.txt": "Later.\n"}, when=self.now.astimezone(UTC) - timedelta(hours=1))

    def _write_sessions(self, sample: Sample, repo: agents.Repo, began: datetime) -> None:
        chance = random.Random(f"{sample.name} {self.seed}")
        sessions = chance.sample(list(sample.sessions), len(sample.sessions))
        commit = repo.git("rev-parse", "HEAD")
        for number, session in enumerate(sessions):
            id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            acts = list(recorded_acts(session, repo.root))
            when = began + timedelta(hours=8 * number)
            pause = timedelta(seconds=chance.randint(5, 40))
            if self.only_claude or number % 2 == self.seed % 2:
                about = agents.ClaudeSession(self.home, repo.root, when, id=id, task=session.task)
                about.answer, about.pause = session.answer, pause
                about.write(*acts)
            else:
                rollout = agents.CodexSession(self.home, repo.root, commit, when, id=id, task=session.task)
                rollout.answer, rollout.pause = session.answer, pause
                rollout.write(*acts)

    def instructions(self, sample: Sample) -> str:
        """Return all that an agent is shown in a repository before it begins."""
        return instructions_in(self.root(sample), self.home)

    def state(self, sample: Sample) -> str:
        """Return what agents are shown in a repository, and what else is changed there."""
        changed = agents.Repo(self.root(sample)).git("status", "--porcelain", "--untracked-files=all")
        return f"{changed}\n{self.instructions(sample)}"


def instructions_in(root: Path, home: Path) -> str:
    """Return the rules and skills of a repository and of its user."""
    files = [home / ".claude" / "CLAUDE.md", *(root / name for name in _RULES)]
    for skills in (home / ".claude/skills", *(root / name for name in _SKILLS)):
        files += sorted(skills.glob("*/SKILL.md"))
    texts = dict.fromkeys(file.read_text(encoding="utf-8") for file in files if file.exists())
    return "\n".join(text for text in texts if re.sub(r"<!--.*?-->|@AGENTS\.md", "", text).strip())


def recorded_acts(session: Session, root: Path) -> Iterator[agents.Act]:
    """Yield the acts of a session, with what the commands print in a copy of the repository."""
    tree = root.with_name(f"{root.name}-session")
    shutil.copytree(root, tree)
    try:
        for act in session.acts:
            yield _in_session(act, tree)
    finally:
        shutil.rmtree(tree)


def _in_session(act: agents.Act | Ran, tree: Path) -> agents.Act:
    match act:
        case Ran():
            result = run_command(act.command, tree)
            return agents.Shell(act.command, result.output, result.code)
        case agents.Replace():
            change(tree, act)
            return agents.Replace(act.path, act.old.removesuffix("\n"), act.new.removesuffix("\n"))
        case agents.Write():
            change(tree, act)
    return act
