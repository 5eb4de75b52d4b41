"""Converts results and histories, live or stored, to the standard trace dict. Works without the framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from ace.context import ACESample, ACEStepContext
from ace.integrations import checked_arguments, checked_class, corrections_in, extract_cited_skill_ids
from ace.redaction import Redactor
from ace.traces import StandardTraceDict, TraceCorrection, steps_as_text, trace_step
from ace_browser_use.history import read_history
from ace_browser_use.outcome import outcome_of
from ace_browser_use.redaction import secrets_redactor
from ace_browser_use.result import BrowserResult
from ace_browser_use.site_skills import sites_in
from ace_browser_use.stored import load_history
from ace_browser_use.trace_steps import trace_steps, words_of

__all__ = ["BrowserToTrace", "history_to_trace", "result_to_trace"]

_REQUEST: Final = re.compile(r"<(initial|follow_up)_user_request>(.*?)</\1_user_request>", re.DOTALL)
"""The format in which `Agent.add_new_task` adds a request after the agent has finished."""


@checked_class
class BrowserToTrace:
    """Converts the `BrowserResult` in `ctx.trace`, or a history, to the standard trace dict.

    If the input was a sample with a ground truth, the trace contains it.

    Args:
        sensitive_data: The `sensitive_data` of the agent. A history contains these values if a page or an address
            showed them; they are replaced by their names.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __init__(self, *, sensitive_data: Mapping[str, Any] | None = None) -> None:
        self.sensitive_data = sensitive_data

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace dict.

        Raises:
            TypeError: The trace is neither a result nor a history of browser-use.
        """
        found = ctx.trace
        if isinstance(found, BrowserResult):
            trace = secrets_redactor(self.sensitive_data).redact_value(result_to_trace(found))
        else:
            trace = history_to_trace(found, sensitive_data=self.sensitive_data)
        if isinstance(ctx.sample, ACESample) and ctx.sample.ground_truth is not None:
            trace["ground_truth"] = ctx.sample.ground_truth
        return ctx.replace(trace=trace)


@checked_arguments()
def history_to_trace(
    history: object, task: str = "", *, sensitive_data: Mapping[str, Any] | None = None
) -> StandardTraceDict:
    """Return the standard trace dict of a history of browser-use.

    Args:
        history: An `AgentHistoryList`, the path of a file written by its `save_to_file`, or the contents of that file
            as text or parsed.
        task: The task, if the history does not contain it.
        sensitive_data: The `sensitive_data` of the agent, in the format of browser-use: names and values, optionally
            by site. A stored history contains these values if a page or an address showed them, even one written by
            `save_to_file(sensitive_data=...)`; they are replaced by their names.

    Raises:
        TypeError: The object is not a history.
        ValueError: The file is not JSON.
        OSError: The file cannot be read.

    Example:
        >>> done = {"is_done": True, "success": True, "extracted_content": "Berth 7"}
        >>> trace = history_to_trace({"history": [{"model_output": None, "result": [done], "state": {}}]}, "Book.")
        >>> trace["question"], trace["answer"], trace["success"]
        ('Book.', 'Berth 7', True)
    """
    redactor = secrets_redactor(sensitive_data)
    return redactor.redact_value(result_to_trace(_result_of(history, redactor.redact(task), redactor)))


@checked_arguments()
def result_to_trace(result: BrowserResult) -> StandardTraceDict:
    """Return the standard trace dict of a result."""
    steps = trace_steps(result.chronological_steps)
    return StandardTraceDict(
        schema=1,
        question=result.task,
        context=result.context,
        reasoning=steps_as_text(steps),
        answer=result.output,
        success=result.success,
        skill_ids=list(result.cited_skill_ids),
        feedback=_feedback(result),
        ground_truth=None,
        steps=steps,
        corrections=_corrections(result),
        metrics={**result.usage, "duration_seconds": result.duration_seconds, "steps": result.steps_count},
        metadata={
            "integration": "browser_use",
            "error": result.error,
            "problems": list(result.problems),
            "sites": sites_in(result.chronological_steps),
        },
    )


def _result_of(record: object, task: str, redactor: Redactor) -> BrowserResult:
    history = read_history(load_history(record), redactor)
    outcome = outcome_of(history)
    return BrowserResult(
        task=task or history.task,
        success=outcome.success,
        output=history.last_word,
        error=outcome.error,
        steps_count=len(history.steps),
        duration_seconds=sum(step["seconds"] or 0.0 for step in history.steps),
        cited_skill_ids=tuple(extract_cited_skill_ids(f"{words_of(history.steps)}\n{history.last_word}")),
        chronological_steps=history.steps,
        problems=outcome.problems,
        usage=history.usage,
    )


def _corrections(result: BrowserResult) -> list[TraceCorrection]:
    """Return the corrections in follow-up requests; the corrected answer is the agent's previous final answer."""
    asked = [text.strip() for _, text in _REQUEST.findall(result.task)]
    answers = [
        (str(step["number"]), str(action["arguments"].get("text", "")))
        for step in result.chronological_steps
        for action in step["actions"]
        if action["name"] == "done" and isinstance(action["arguments"], Mapping)
    ]
    if len(answers) > len(asked):
        return []  # it is not known which request follows which answer
    place, said = "", []
    for question, answer in zip_longest(asked, answers):
        said.append(trace_step("message", "user", question, place or "1"))
        if answer is not None:
            place = answer[0]
            said.append(trace_step("message", "assistant", answer[1], place))
    return corrections_in(said)


def _feedback(result: BrowserResult) -> str:
    """Describe the outcome and the problems of the run."""
    steps = "1 step" if result.steps_count == 1 else f"{result.steps_count} steps"
    if result.success:
        ended = f"By the agent's own word, the task was done, in {steps}."
    else:
        ended = _sentence(f"The task failed after {steps}: {result.error}")
    others = [problem for problem in result.problems if problem not in (result.error or "")]
    return f"{ended} On the way: {_sentence('; '.join(others))}" if others else ended


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
