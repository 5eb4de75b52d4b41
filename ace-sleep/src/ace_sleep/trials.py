"""Tries a lesson with the user's coding agent: the prompt of a session, several times without the lesson and with it.

What the agent says does not count. A run succeeds if what it did shows that the lesson is followed: the commands that
the agent ran, with their exit codes; the files that it changed; and a check in the copy that it leaves.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from ace.integrations import own_file
from ace.logs import Run, read_runs
from ace.redaction import Redactor
from ace_sleep.agents import CodingAgent
from ace_sleep.budget import Budget, BudgetSpentError, cost_of
from ace_sleep.mining import CommandPair, ShellCall, error_line, is_same_line, shell_calls
from ace_sleep.proof import folder_of, last_line
from ace_sleep.repository import NoCopyError, Repository, copy_at
from ace_sleep.sandbox import Access, Limits, Place, Sandbox, SandboxError
from ace_sleep.shell import doing, programs
from ace_sleep.wishes import Wish
from ace_sleep.workspace import remove_tree

__all__ = ["RUNS", "AgentFailedError", "Trial", "Trials"]

RUNS: Final = 3
"""How often an agent runs without a lesson, and with it."""
_LIMITS: Final = Limits(seconds=600, processes=512, memory_bytes=4 << 30, output_bytes=64 << 20)
_PROMPT: Final = '"$HOME/prompt"'


class AgentFailedError(Exception):
    """An agent did not work, for example because its model cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What trying a lesson with an agent showed."""

    agent: str
    """The name of the agent, for people."""
    task: str = ""
    """What it was asked, without secrets."""
    without: int = 0
    """How many runs without the lesson succeeded."""
    with_lesson: int = 0
    """How many runs with the lesson succeeded."""
    skipped: str = ""
    """Why it was not tried, or not to the end."""

    @property
    def verdict(self) -> Literal["proven", "no difference", "worse", "not tried"]:
        """What follows. It is proven if every run with the lesson succeeded, and not every one without it."""
        if self.skipped:
            return "not tried"
        if self.with_lesson < self.without:
            return "worse"
        return "proven" if self.with_lesson == RUNS and self.without < RUNS else "no difference"

    def __str__(self) -> str:
        if self.skipped:
            return f"Not tried with {self.agent}: {self.skipped}"
        without = f"{self.without} of {RUNS} runs without the lesson"
        return f'{self.agent} on "{self.task}": success in {without}, {self.with_lesson} of {RUNS} with it'


@dataclass(kw_only=True)
class Trials:
    """Tries lessons with an agent."""

    agent: CodingAgent
    sandbox: Sandbox
    scratch: Path
    """A folder for the copies, each of which is removed after a run."""
    budget: Budget
    redactor: Redactor
    """Replaces secrets in prompts."""
    limits: Limits = field(default_factory=Limits)
    """What the check after a run may use."""
    _numbers: Iterator[int] = field(default_factory=itertools.count, init=False)

    def compare(self, lesson: str, wanted: CommandPair | Wish, run: Run, repository: Repository, commit: str) -> Trial:
        """Return what the agent does without a lesson, and with it.

        Args:
            lesson: Its text.
            wanted: The commands that the lesson is about, or what a person asked for.
            run: The session with the prompt.
            repository: The repository of the session.
            commit: The commit of the session.

        Raises:
            AgentFailedError: The agent did not work.
        """
        task = self.redactor.redact(run.task)
        shown = " ".join(task.split())[:100]
        try:
            self.budget.check(2 * RUNS, 2 * RUNS * cost_of(run))  # rather none than some, which prove nothing
            counts = [
                sum(self._succeeds(text, task, wanted, run, repository, commit) for _ in range(RUNS))
                for text in ("", lesson)
            ]
        except (BudgetSpentError, NoCopyError, SandboxError, OSError) as error:
            return Trial(agent=self.agent.title, task=shown, skipped=str(error))
        return Trial(agent=self.agent.title, task=shown, without=counts[0], with_lesson=counts[1])

    def _succeeds(
        self, lesson: str, task: str, wanted: CommandPair | Wish, run: Run, repository: Repository, commit: str
    ) -> bool:
        self.budget.check()
        with self.copied(repository, commit) as place:
            if lesson:
                _show(lesson, place.tree)
            runs = self.ask(task, place, folder_of("", run, place))
            calls = [call for own in runs for call in shell_calls(own.steps)]
            if isinstance(wanted, Wish):
                return self._is_granted(wanted, calls, place)
            return self._is_followed(wanted, calls, place, folder_of(wanted.worked.folder, run, place))

    @contextmanager
    def copied(self, repository: Repository, commit: str) -> Iterator[Place]:
        """Make a copy for one run, and remove it afterwards.

        Args:
            repository: What to copy.
            commit: What to check out.

        Raises:
            NoCopyError: The commit cannot be checked out.
        """
        folder = self.scratch / f"trial-{next(self._numbers)}"
        try:
            yield copy_at(repository, commit, folder, shows_copy_as_root=self.sandbox.shows_copy_as_root)
        finally:
            if folder.exists():
                remove_tree(folder)

    def ask(self, prompt: str, place: Place, folder: str = "") -> list[Run]:
        """Run the agent in a copy, and return the sessions that it stored; none if it was ended at a limit.

        Args:
            prompt: What it is asked.
            place: The copy.
            folder: The folder to start it in, relative to the repository.

        Raises:
            AgentFailedError: It did not work.
        """
        home = place.tree.parent / "home"
        home.mkdir()
        self.agent.lay_out(home, prompt)
        access = Access(
            home=home, environment=self.agent.environment, programs=self.agent.programs, hosts=self.agent.hosts
        )
        command = f"{shlex.join(self.agent.command)} < {_PROMPT}"
        outcome = self.sandbox.run(command, place, folder, _LIMITS, access)
        stored = home / self.agent.sessions
        runs = [found for found in read_runs(stored) if isinstance(found, Run)] if stored.is_dir() else []
        self.budget.note_run(runs)
        if outcome.limit:
            return []
        if not outcome.worked or not runs:
            raise AgentFailedError(f"{self.agent.title} did not work: {last_line(outcome.output)}")
        return runs

    def _is_followed(self, pair: CommandPair, calls: Sequence[ShellCall], place: Place, folder: str) -> bool:
        """Return whether a run shows what the lesson says, and leaves a copy in which the check passes."""
        if pair.grade == "A":
            is_followed = _did(pair, calls) and not any(_is_mistake(pair, call) for call in calls)
        else:
            names = {os.path.basename(edit.path) for edit in pair.between}
            is_followed = not names or bool(names & set(map(os.path.basename, self._changed_files(place))))
            is_followed = is_followed and all(_has_run(command.command, calls) for command in pair.commands)
        return is_followed and self.sandbox.run(pair.worked.command, place, folder, self.limits).worked

    def _is_granted(self, wish: Wish, calls: Sequence[ShellCall], place: Place) -> bool:
        """Return whether a run did what a person asked for, and nothing that they rejected."""
        changed = self._changed_files(place)
        tried = [replace(call, failed=False) for call in calls]
        return (
            all(_has_run(command, calls) for command in wish.commands)
            and changed >= set(wish.files)
            and not changed & set(wish.rejected_files)
            and not any(_has_run(command, tried) for command in wish.rejected_commands)
        )

    def _changed_files(self, place: Place) -> set[str]:
        """Return the files that differ from the commit; git runs in the sandbox, as the copy may lie."""
        listed = self.sandbox.run("git status --porcelain --untracked-files=all", place).output
        return {line[3:].strip('"') for line in listed.splitlines()}


def _show(lesson: str, tree: Path) -> None:
    """Add a lesson to the files of a copy that agents read."""
    others = [tree / name for name in ("CLAUDE.md", "GEMINI.md") if (tree / name).exists()]
    for path, line in [(tree / "AGENTS.md", f"- {lesson}"), *((other, "@AGENTS.md") for other in others)]:
        with own_file(path).open("a", encoding="utf-8") as file:  # not through a link that leads out of the copy
            file.write(f"\n{line}\n")


def _is_mistake(pair: CommandPair, call: ShellCall) -> bool:
    """Whether a command failed as in the session."""
    line = error_line(pair.failed.output)
    return call.failed and (is_same_line(line, call.output) if line else call.command == pair.failed.command)


def _did(pair: CommandPair, calls: Sequence[ShellCall]) -> bool:
    """Whether the command that works was run, and worked.

    A command of the agent is the same if it has the program, the arguments, and the options that the command that
    failed lacks.
    """
    return _has_run(pair.worked.command, calls, {word for words in _programs(pair.failed.command) for word in words})


def _has_run(command: str, calls: Sequence[ShellCall], avoided: Collection[str] = ()) -> bool:
    """Whether a command was run, and worked; options that are avoided need not be the same."""
    done = [set(words) for call in calls if not call.failed for words in _programs(call.command)]
    for name, *arguments in doing(command):
        needed = {name, *(word for word in arguments if not word.startswith("-") or word not in avoided)}
        if not any(needed <= words for words in done):
            return False
    return True


def _programs(command: str) -> list[list[str]]:
    try:
        return programs(command)
    except ValueError:
        return []
