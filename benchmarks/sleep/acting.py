"""Has an agent work on a prompt: it chooses what to do next until the work is done, and code judges the result."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from benchmarks.sleep.literal import wishes_of
from benchmarks.sleep.machine import Result, run_command
from benchmarks.sleep.samples import Option, Prompt, Sample, change
from tests.support.agent_sessions import Write

__all__ = ["Acted", "Agent", "Done", "LiteralAgent", "Situation", "work"]

_MOST: Final = 8
"""How many things an agent may do for one prompt."""


@dataclass(frozen=True)
class Done:
    """Something that was done, and what came of it."""

    option: Option
    result: Result


@dataclass(frozen=True)
class Situation:
    """What an agent knows when it chooses."""

    instructions: str
    prompt: Prompt
    step: Sequence[Option]
    """What belongs to the present step."""
    menu: Sequence[Option]
    """What was not tried since the last change, of this step first."""
    log: Sequence[Done]


class Agent(Protocol):
    """Chooses from the menu."""

    def choose(self, situation: Situation) -> Option:
        """Return the next thing to do."""
        ...


@dataclass(frozen=True)
class Acted:
    """What an agent did for a prompt."""

    passes: bool
    """Whether the hidden test passes."""
    first_right: bool
    """Whether the first choice of each step was right."""
    trapped: bool
    """Whether it did what a trap suggests."""
    did: tuple[str, ...] = ()


class LiteralAgent:
    """A scripted agent that obeys the instructions literally, and otherwise does what is obvious."""

    def choose(self, situation: Situation) -> Option:
        """Return what is wanted, else what is obvious, else what is left."""
        failed = [name for done in situation.log if done.result.code for name in done.option.called]
        wishes = wishes_of(situation.instructions, failed)
        here = [option for option in situation.menu if option in situation.step]
        obvious = [option for option in here[:1] if option is situation.step[0] and not _named(option, wishes.unwanted)]
        before = [option for option in situation.menu if option not in here]
        return [*_wanted(here, wishes.wanted), *obvious, *_wanted(before, wishes.wanted), *here, *before][0]


def _wanted(options: Sequence[Option], wanted: Sequence[str]) -> list[Option]:
    found = [(wanted.index(name), option) for option in options for name in option.called if name in wanted]
    return [option for _, option in sorted(found, key=lambda pair: pair[0])]


def _named(option: Option, names: Sequence[str]) -> bool:
    return any(name in names for name in option.called)


@dataclass
class _Work:
    tree: Path
    prompt: Prompt
    log: list[Done] = field(default_factory=list)
    tried: list[Option] = field(default_factory=list)

    def do(self, option: Option) -> Result:
        if isinstance(option.does, str):
            result = run_command(option.does, self.tree)
        else:
            change(self.tree, option.does)
            result = Result(0, "")
        if not result.code:  # what failed before may work now
            self.tried = [known for known in self.tried if not isinstance(known.does, str)]
        self.tried.append(option)
        self.log.append(Done(option, result))
        return result


def work(sample: Sample, prompt: Prompt, instructions: str, agent: Agent) -> Acted:
    """Have an agent work on a prompt in a new copy of the repository, without git.

    Args:
        sample: The repository.
        prompt: The task.
        instructions: What the agent is shown.
        agent: Chooses what to do.
    """
    with tempfile.TemporaryDirectory(prefix="ace-sleep-benchmark-") as folder:
        state = _Work(Path(folder) / sample.name, prompt)
        for name, text in sample.files.items():
            (state.tree / name).parent.mkdir(parents=True, exist_ok=True)
            change(state.tree, Write(name, text))
        if prompt.first:
            state.log.append(Done(Option(prompt.first), run_command(prompt.first, state.tree)))
        rights = [_step(state, number, instructions, agent) for number in range(len(prompt.steps))]
        passes = run_command(prompt.test, state.tree).code == 0
    trapped = any(done.option.trap for done in state.log)
    return Acted(passes, all(rights), trapped, tuple(done.option.shown for done in state.log))


def _step(state: _Work, number: int, instructions: str, agent: Agent) -> bool:
    """Work on one step, and return whether the first choice was right."""
    steps = state.prompt.steps
    step, earlier = steps[number], [option for options in steps[:number] for option in options]
    first: Option | None = None
    while len(state.log) < _MOST:
        menu = [option for option in (*step, *earlier) if option not in state.tried]
        if not menu:
            break
        option = agent.choose(Situation(instructions, state.prompt, step, menu, state.log))
        first = first or option
        if not state.do(option).code and option.ends and option in step:
            break
    return first is not None and (first.right or not any(option.right for option in step))
