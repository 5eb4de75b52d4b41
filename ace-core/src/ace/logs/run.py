"""What every reader of logs yields: runs of an agent with their steps, and the problems of what cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, cast

from ace.traces import (
    StandardTraceDict,
    StepKind,
    TraceStep,
    failed_steps,
    steps_as_text,
    trace_step,
)

__all__ = ["Problem", "Run", "Speaker", "Step", "Tokens"]

Speaker = Literal["person", "agent", "tool", "harness"]
"""Who speaks in a step. Messages of the role `user` that no person wrote are those of the harness."""

_OWN: Final = ("check", "corrections", "skill_ids", "metrics")
_REASONING: Final = ("reasoning", "thoughts", "rationale")
_NAMES: dict[Speaker, str] = {"person": "user", "agent": "assistant", "tool": "tool", "harness": "harness"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run: a message, a thought, the call of a tool or its result."""

    kind: StepKind
    """Whether it is a message, a thought of the model, the call of a tool or its result."""
    speaker: Speaker
    """Who speaks: calls and thoughts are those of the agent, results those of a tool."""
    name: str = ""
    """The tool, for calls and results; for thoughts the sub-agent, if one thinks; otherwise the name that the log gives
    the speaker, mostly empty."""
    content: str = ""
    """The text; for a call, its arguments as JSON, or the raw text that was passed."""
    is_error: bool = False
    """Whether the tool or the model failed, or the call was denied."""
    place: str = ""
    """Its position in the log: the number of a line, or `2.1` for a part of it."""
    call_id: str = ""
    """The id that connects a call with its result; empty if the log has none."""
    is_rejected: bool = False
    """Whether a person rejected the call; not set where only a rule of the client denied it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a run cost, in tokens; None where the log does not say."""

    input: int | None = None
    """Tokens of the prompts, including cached ones."""
    output: int | None = None
    """Tokens of the answers, including thoughts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an agent, as a log records it. Everything but the steps may be missing in a log.

    Example:
        >>> run = Run(task="2+2?", answer="5", success=False, reason="It is 4.")
        >>> run.to_trace()["question"], run.to_trace()["feedback"]
        ('2+2?', 'It is 4.')
    """

    id: str = ""
    """The name that the log gives the run; empty if it gives none."""
    task: str = ""
    """What the agent was asked to do."""
    context: str = ""
    """Further text for the task, such as retrieved documents."""
    steps: tuple[Step, ...] = ()
    """What happened, in order."""
    answer: str = ""
    """The final answer of the agent."""
    success: bool | None = None
    """Whether the run succeeded; None if the log does not say."""
    score: float | None = None
    """The number from which success was derived, or that the log gives without saying what is a success."""
    reason: str = ""
    """Why the run succeeded or failed, or what a person or a judge said about it."""
    names_failures: bool = False
    """Whether `reason` names the failures of tools already; otherwise they are added to the feedback."""
    outcome_from: str = ""
    """The field from which success and score were read, such as `reward`; for reports."""
    truth: str | None = None
    """The right answer, if the log has it."""
    model: str = ""
    """The model of the agent."""
    tokens: Tokens = field(default_factory=Tokens)
    """What the run cost."""
    cost: float | None = None
    """What the run cost, in US dollars."""
    started: datetime | None = None
    """When the run began."""
    ended: datetime | None = None
    """When the run ended."""
    cwd: str = ""
    """The working directory of the agent."""
    commit: str = ""
    """The commit of the repository that the agent worked in."""
    parent: str = ""
    """The id of the run that started this one; sub-agents in the same log are steps of their parent instead."""
    is_interrupted: bool = False
    """Whether the run ended before the agent was done, for example because a person stopped it."""
    place: str = ""
    """Where the run was found. A reader may give the number of a line or a name of its own; the file is added to a
    number, and is the place of a run that is alone in it."""
    format: str = ""
    """The name of the reader."""
    skill_ids: tuple[str, ...] = ()
    """The skills that the agent cited."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    """What else is known about the run, for the metadata of the trace: a version, or what of the log is not read."""
    rest: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the record which a reader of the trace may want to see, as JSON values."""

    def to_trace(self) -> StandardTraceDict:
        """Return the standard trace from which a reflector learns."""
        steps = _trace_steps(self.steps)
        seconds = (self.ended - self.started).total_seconds() if self.started and self.ended else None
        metrics = {
            "input_tokens": self.tokens.input,
            "output_tokens": self.tokens.output,
            "cost_usd": self.cost,
            "duration_seconds": seconds,
            "score": self.score,
        }
        # Fields of a record with the names of ours mean the same.
        own = {name: self.rest[name] for name in _OWN if self.rest.get(name)}
        reasoning = next((text for name in _REASONING if isinstance(text := self.rest.get(name), str)), "")
        known = {"format": self.format, "model": self.model, "cwd": self.cwd, "commit": self.commit}
        trace = {
            "schema": 1,
            "trace_id": self.id,
            "question": self.task,
            "context": self.context,
            "reasoning": steps_as_text(steps) or reasoning,
            "answer": self.answer,
            "success": self.success,
            "skill_ids": list(self.skill_ids),
            "feedback": "\n".join(self._feedback(steps)),
            "ground_truth": self.truth,
            "steps": steps,
            "metrics": {name: float(value) for name, value in metrics.items() if value is not None},
            "metadata": {**{name: value for name, value in known.items() if value}, **self.metadata},
            "rest": {name: value for name, value in self.rest.items() if name not in (*_OWN, *_REASONING)},
            **own,
        }
        return cast("StandardTraceDict", trace)

    def _feedback(self, steps: Sequence[TraceStep]) -> list[str]:
        """Return what was said about the run, and the failures in it, which need not have failed the whole run."""
        interrupted = ["The run was interrupted."] if self.is_interrupted else []
        failures = [] if self.names_failures else failed_steps(map(_plain, self.steps))
        return [*interrupted, *([self.reason] if self.reason else []), *failures]


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a log that cannot be read. The rest of the log is read nevertheless."""

    file: str
    """The file."""
    line: int | None
    """The line, from 1; None if the problem is the file itself."""
    reason: str
    """What is wrong, and what to do about it."""
    count: int = 1
    """How often it occurs in the file, for damage that is named once."""
    kind: Literal["loss", "notice", "doubt"] = "loss"
    """`loss` if something is not read, `notice` if everything is, `doubt` if a person should decide before paying."""

    @property
    def place(self) -> str:
        """The file, and the line in it, such as `logs/a.jsonl#12`."""
        return self.file if self.line is None else f"{self.file}#{self.line}"

    @property
    def where(self) -> str:
        """The file, and the line in it, in words."""
        return self.file if self.line is None else f"{self.file}, line {self.line}"

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def _trace_steps(steps: tuple[Step, ...]) -> list[TraceStep]:
    """Return the steps of a trace, in which only calls that are not followed by their results need an id."""
    adjacent = {
        step.call_id
        for step, following in itertools.pairwise(steps)
        if step.kind == "call" and following.kind == "result" and step.call_id == following.call_id
    }
    return [
        trace_step(step.kind, _name(step, adjacent), step.content, step.place, is_error=step.is_error) for step in steps
    ]


def _plain(step: Step) -> TraceStep:
    """Return a step without the id of its call, so that equal failures are told once."""
    return trace_step(step.kind, step.name, step.content, step.place, is_error=step.is_error)


def _name(step: Step, adjacent: set[str]) -> str:
    if step.kind == "message" and step.speaker in ("person", "agent"):
        return _NAMES[step.speaker]  # whatever the log calls them: who corrects whom is read from these names
    if step.kind == "message":
        return step.name or _NAMES[step.speaker]
    if step.kind == "thought":
        return step.name
    return step.name if not step.call_id or step.call_id in adjacent else f"{step.name} #{step.call_id}".strip()
