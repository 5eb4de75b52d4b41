"""Tries whether a coding agent opens a skill for the prompts that need it, and only for those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, Field

from ace.logs import Run
from ace.protocols import UnusableAnswerError
from ace_sleep.budget import BudgetSpentError
from ace_sleep.mining import arguments_of, calls_of
from ace_sleep.projects import StagedLesson
from ace_sleep.repository import NoCopyError, Repository
from ace_sleep.sandbox import SandboxError
from ace_sleep.trials import Trials

if TYPE_CHECKING:
    from ace.protocols import LLMClientLike

__all__ = ["NEEDING", "NOT_NEEDING", "Trigger", "try_trigger"]

NEEDING: Final = 3
"""The prompts that need the skill: that of a session, and two rewordings."""
NOT_NEEDING: Final = 2
"""The prompts that only sound as if they did."""

_PROMPT: Final = """\
Coding agents in one software project have a skill called {name}:

{text}

It was needed for this task: {task}

Write two rewordings of the task, for which an agent needs the skill just as much. Write two near misses: short tasks in
the same project with some of the same words, for which the skill is of no use.
"""

_Two = Annotated[list[str], Field(min_length=2, max_length=2)]


class _Prompts(BaseModel):
    """The answer of the model."""

    rewordings: _Two
    near_misses: _Two


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When an agent opened a skill."""

    agent: str
    """The name of the agent, for people."""
    needed: int = 0
    """How many of the prompts that need it made the agent open it."""
    needless: int = 0
    """How many of the others did."""
    skipped: str = ""
    """Why it was not tried, or not to the end."""

    def __str__(self) -> str:
        if self.skipped:
            return f"Not tried with {self.agent}: {self.skipped}"
        is_proven = self.needed == NEEDING and not self.needless
        opened = f"opened for {self.needed} of {NEEDING} prompts that need it, {self.needless} of {NOT_NEEDING} others"
        return f"{'PROVEN (grade D): ' if is_proven else ''}{opened} ({self.agent})"


def try_trigger(
    trials: Trials,
    client: LLMClientLike | None,
    lesson: StagedLesson,
    files: Mapping[str, bytes],
    repository: Repository,
) -> Trigger:
    """Return for which prompts an agent opens a skill.

    Args:
        trials: Start the agent.
        client: The model that writes the further prompts.
        lesson: The skill, whose section is its name.
        files: The files of its folders, by their paths in the repository.
        repository: The repository, whose current commit is used.

    Raises:
        LLMCallError: The model did not answer.
        AgentFailedError: The agent did not work.
    """
    agent = trials.agent.title
    if client is None:
        return Trigger(agent=agent, skipped="a model has to reword the prompt")
    try:
        trials.budget.check(1 + NEEDING + NOT_NEEDING)
        prompts = _prompts(client, lesson, trials)
        needed = _count(trials, [lesson.task, *prompts.rewordings], lesson.section, files, repository)
        needless = _count(trials, prompts.near_misses, lesson.section, files, repository)
    except (BudgetSpentError, NoCopyError, SandboxError, UnusableAnswerError, OSError) as error:
        return Trigger(agent=agent, skipped=str(error))
    return Trigger(agent=agent, needed=needed, needless=needless)


def _prompts(client: LLMClientLike, lesson: StagedLesson, trials: Trials) -> _Prompts:
    asked = _PROMPT.format(name=lesson.section, text=lesson.text, task=lesson.task)
    trials.budget.note_call()
    return client.complete_structured(asked, _Prompts)


def _count(
    trials: Trials, prompts: Sequence[str], name: str, files: Mapping[str, bytes], repository: Repository
) -> int:
    """Return for how many prompts the agent opened the skill."""
    opened = 0
    for prompt in prompts:
        trials.budget.check()
        with trials.copied(repository, repository.head()) as place:
            for path, data in files.items():
                target = place.tree / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            opened += any(_opens(run, name) for run in trials.ask(prompt, place))
    return opened


def _opens(run: Run, name: str) -> bool:
    """Whether a run opened a skill: with the tool for skills, or by reading the file."""
    for _, step, result in calls_of(run.steps):
        arguments = arguments_of(step.content)
        is_tool = step.name == "Skill" and isinstance(arguments, Mapping) and arguments.get("skill") == name
        if not result.is_error and (is_tool or f"{name}/SKILL.md" in step.content):
            return True
    return False
