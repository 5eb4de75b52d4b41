"""The standard trace and its steps: the thoughts, tool calls, results and messages of an agent, in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "AnswerTrace",
    "StandardTraceDict",
    "StepKind",
    "TraceCorrection",
    "TraceStep",
    "failed_steps",
    "step_title",
    "steps_as_text",
    "trace_step",
]

# Feedback goes into a prompt, and a session can hold thousands of failures with megabytes of output.
_MOST_FAILURES = 30
_MOST_PLACES = 10
_LONGEST_LINE = 300
_DEEPEST_ERROR = 5
# The more telling ones come first: a `message` may also be in an object that tells what went well.
_ERROR_FIELDS = (
    *("error", "errors", "stderr", "errorMessage", "error_message", "message", "reason", "detail", "details"),
    *("text", "content", "aggregated", "output"),
)

StepKind = Literal["thought", "call", "result", "message"]


class TraceStep(TypedDict):
    """One step of a standard trace."""

    kind: StepKind
    """Whether it is a thought of the model, a call of a tool, its result or a message."""
    name: str
    """The tool or the speaker; empty if it is not known."""
    content: str
    """The thought, the arguments as JSON, the output or the text."""
    is_error: bool
    """Whether the tool or the model failed, or the call was denied."""
    place: str
    """The position of the step in the source, such as the line of a file, or `2.1`."""


class TraceCorrection(TypedDict):
    """A correction of the agent by a person or an environment."""

    question: str
    """The question that was answered incorrectly."""
    wrong: str
    """The answer that is corrected."""
    correction: str
    """The text of the correction."""
    right: str
    """The answer that was finally accepted; empty if it is not known."""
    place: str
    """The position of the correction in the source, such as the line of a file."""


class StandardTraceDict(TypedDict):
    """The standard trace, to which converters convert the result of a framework. `trace_id`, its name, is optional."""

    schema: int
    """1."""
    question: str
    """The question or task."""
    context: str
    """Additional text for the question, or the conversation before it."""
    reasoning: str
    """The steps as text, see `steps_as_text`."""
    answer: str
    """The final answer; empty if there is none."""
    success: bool | None
    """Whether the framework reports success; None if it reports neither."""
    skill_ids: list[str]
    """The ids of the skills that the agent cited."""
    feedback: str
    """The outcome, and the failures during the run."""
    ground_truth: str | None
    """The correct answer, if it is known."""
    steps: list[TraceStep]
    """The steps, in order."""
    corrections: NotRequired[list[TraceCorrection]]
    """The corrections by a person, if they are already known; others are recognised when a trace is learned from."""
    dialogue: NotRequired[list[TraceStep]]
    """What person and agent said to each other, up to the end of the run, if it is more than the messages in `steps`:
    those of earlier turns of the conversation, or what a person said about a call that was rejected."""
    metrics: dict[str, float]
    """Numbers, such as `duration_seconds`, `input_tokens` and `cost_usd`."""
    metadata: dict[str, object]
    """Additional data, such as `integration`."""


class AnswerTrace(dict[str, Any]):
    """The trace of an answer that an agent of this library gave: a dict with fields of the standard trace.

    Its type says where it comes from, so no converter of a framework is asked whether it recognises the fields.
    """


def trace_step(kind: StepKind, name: str, content: str, place: str, *, is_error: bool = False) -> TraceStep:
    """Return one step.

    Args:
        kind: Its kind.
        name: The tool or the speaker.
        content: Its text.
        place: Its position in the source.
        is_error: Whether it failed.
    """
    return TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=place)


def step_title(step: TraceStep) -> str:
    """Return the heading of a step.

    Example:
        >>> step_title(trace_step("result", "search", "no such host", "2", is_error=True))
        '[2] result search (failed)'
    """
    failed = " (failed)" if step["is_error"] else ""
    name = f" {step['name']}" if step["name"] else ""
    return f"[{step['place']}] {step['kind']}{name}{failed}"


def steps_as_text(steps: Iterable[TraceStep]) -> str:
    """Return steps as text, in order: the `reasoning` of a standard trace.

    Example:
        >>> print(steps_as_text([trace_step("call", "add", '{"a": 2}', "1"), trace_step("result", "add", "4", "2")]))
        [1] call add
        {"a": 2}
        [2] result add
        4
    """
    return "\n".join(f"{step_title(step)}\n{step['content']}" for step in steps)


def failed_steps(steps: Iterable[TraceStep]) -> list[str]:
    """Return one sentence for each kind of failure among the results, for the feedback: it need not fail the whole run.

    The text of an error is looked for in results that are JSON. Long texts are cut, a failure that repeats is told
    once with all its places, and of very many failures the first and the last ones are told and the others counted.

    Args:
        steps: The steps of a trace.

    Example:
        >>> failed_steps([trace_step("result", "bash", "2 tests\\n======\\nFAILED", "7", is_error=True)])
        ['bash failed at 7: 2 tests ... FAILED']
        >>> failed_steps([trace_step("result", "read", '{"status": "error", "error": "ENOENT"}', "3", is_error=True)])
        ['read failed at 3: ENOENT']
    """
    places: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        if step["kind"] == "result" and step["is_error"]:
            places.setdefault((step["name"], _cause_in(step["content"])), []).append(step["place"])
    sentences = [f"{name} failed at {_listed(found)}: {cause}" for (name, cause), found in places.items()]
    omitted = len(sentences) - _MOST_FAILURES
    if omitted <= 0:
        return sentences
    half = _MOST_FAILURES // 2
    return [*sentences[:half], *sentences[-half:], f"{omitted} more results are failures."]


def _listed(places: Sequence[str]) -> str:
    shown = ", ".join(places[:_MOST_PLACES])
    return shown if len(places) <= _MOST_PLACES else f"{shown} and {len(places) - _MOST_PLACES} more places"


def _cause_in(output: str) -> str:
    """Return the description of a failure in an output: the error in JSON, or else its first and last line."""
    if output.lstrip()[:1] in ("{", "["):
        try:
            data = json.loads(output)
        except (ValueError, RecursionError):  # text that merely begins like JSON
            pass
        else:
            return _ends_of(_error_text_in(data) or json.dumps(data, ensure_ascii=False))
    return _ends_of(output)


def _error_text_in(data: object, depth: int = 0) -> str:
    """Return the text of the error in an object of a tool; empty if none of the usual fields holds one."""
    if isinstance(data, str):
        return data.strip()
    if depth > _DEEPEST_ERROR:
        return ""
    if isinstance(data, list):
        return next(
            (text for item in data if not isinstance(item, str) and (text := _error_text_in(item, depth + 1))), ""
        )
    if not isinstance(data, dict):
        return ""
    return next(
        (text for name in _ERROR_FIELDS if name in data and (text := _error_text_in(data[name], depth + 1))), ""
    )


def _ends_of(output: str) -> str:
    """Return the first and the last line of an output, ignoring separator lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip().strip("=-")]
    return " ... ".join(dict.fromkeys([_cut(lines[0]), _cut(lines[-1])])) if lines else "no output"


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} [cut]"
