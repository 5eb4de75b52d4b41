"""What a sample is: a tiny repository with a hidden rule, the sessions to learn from, and the prompts held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support.agent_sessions import Act, Replace, Write

__all__ = ["TRAPS", "Kind", "Option", "Prompt", "Ran", "Sample", "Session", "change"]

Kind = Literal["command", "generated", "convention", "order", "transient", "wrong person", "reward hack"]
TRAPS: Sequence[Kind] = ("transient", "wrong person", "reward hack")
"""Kinds of samples in which something looks like a lesson but is not one."""


@dataclass(frozen=True)
class Ran:
    """A command in a session. Its output and exit code are recorded by running it."""

    command: str


def change(tree: Path, what: Replace | Write) -> None:
    """Change a file below a folder.

    Args:
        tree: The folder.
        what: The change.
    """
    file = tree / what.path
    if isinstance(what, Write):
        file.write_text(what.text, encoding="utf-8")
        return
    text = file.read_text(encoding="utf-8")
    assert what.old in text, f"{what.path} does not contain {what.old!r}"
    file.write_text(text.replace(what.old, what.new, 1), encoding="utf-8")


@dataclass(frozen=True)
class Session:
    """A session to learn from."""

    task: str
    acts: Sequence[Act | Ran]
    """A `Shell` has an output that was due to something that is over."""
    answer: str
    """What the agent said in the end."""


@dataclass(frozen=True)
class Option:
    """Something that an agent may do."""

    does: str | Replace | Write
    """A command, or a change of a file."""
    names: tuple[str, ...] = ()
    """What instructions call it, in backquotes; the command itself, or the file, by default."""
    right: bool = False
    """Whether the rule asks for it, where there is something to choose."""
    trap: bool = False
    ends: bool = False
    """Whether the step is done once it succeeds."""
    shows: str = ""
    """How a menu shows a change of a file; with its path by default."""

    @property
    def shown(self) -> str:
        """How a menu shows it."""
        return self.does if isinstance(self.does, str) else self.shows or f"edit {self.does.path}"

    @property
    def called(self) -> tuple[str, ...]:
        """The words of instructions that mean it."""
        return self.names or (self.does if isinstance(self.does, str) else self.does.path,)


@dataclass(frozen=True)
class Prompt:
    """A task that was held out."""

    text: str
    steps: Sequence[Sequence[Option]]
    """What can be done in each step; the first option is what an agent does that knows nothing."""
    test: str
    """A hidden command that succeeds if the task is done as the project wants it."""
    first: str = ""
    """A command that has run already."""


@dataclass(frozen=True)
class Sample:
    """A repository with a hidden rule, or with a trap."""

    name: str
    kind: Kind
    language: str
    rule: str
    """The rule as a person would write it; for a trap, what is right in its place."""
    files: Mapping[str, str]
    sessions: Sequence[Session]
    reworded: Sequence[Prompt]
    """Tasks of the sessions in other words."""
    other: Sequence[Prompt]
    """Tasks that no session is about."""

    @property
    def is_trap(self) -> bool:
        """Whether there is nothing to learn."""
        return self.kind in TRAPS

    @property
    def prompts(self) -> list[Prompt]:
        """All prompts."""
        return [*self.reworded, *self.other]
