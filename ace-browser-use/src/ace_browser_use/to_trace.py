"""Converts results and histories, live or stored, to the standard trace dict. Works without the framework."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from ace.context import ACESample, ACEStepContext
from ace.integrations import checked_arguments, checked_class
from ace.traces import StandardTraceDict, TraceStep, trace_step
from ace_browser_use.history import read_history
from ace_browser_use.logs import result_of_history, run_of_result
from ace_browser_use.redaction import secrets_redactor
from ace_browser_use.result import BrowserResult

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
    found = read_history(_loaded(history), redactor)
    return redactor.redact_value(result_to_trace(result_of_history(found, redactor.redact(task))))


def _loaded(record: object) -> object:
    """Return a history from an object, a file or a text."""
    if isinstance(record, str) and not record.lstrip().startswith("{"):
        record = Path(record)
    if isinstance(record, Path):
        return _parsed(record.read_bytes(), str(record))
    return _parsed(record, "the text") if isinstance(record, str | bytes) else record


def _parsed(text: str | bytes, origin: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{origin} is not a history of browser-use: it is not JSON ({error})") from None


@checked_arguments()
def result_to_trace(result: BrowserResult) -> StandardTraceDict:
    """Return the standard trace dict of a result."""
    trace = run_of_result(result).to_trace()
    if dialogue := _dialogue(result):
        trace["dialogue"] = dialogue
    trace["metrics"] = {**result.usage, "duration_seconds": result.duration_seconds, "steps": result.steps_count}
    return trace


def _dialogue(result: BrowserResult) -> list[TraceStep]:
    """Return the request, the follow-up requests, and the final answer of the agent before each of them."""
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
    return said
