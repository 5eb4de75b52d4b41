"""Reads histories of browser-use, live or stored, into steps of plain data. Works without the framework."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ace.logs import fields_of, text_of
from ace.redaction import Redactor
from ace_browser_use.redaction import marked_secrets_redactor
from ace_browser_use.result import BrowserAction, BrowserStep
from ace_browser_use.shortening import shortened

__all__ = ["History", "is_history", "read_history"]

_LONGEST_PAGE = 2000
_LONGEST_RESULT = 4000
_TASK = re.compile(r"\A\s*<user_request>\n(.*?)\n</user_request>\s*(?:<agent_history>|\Z)", re.DOTALL)
_PAGE = re.compile(r"<browser_state>(.*)</browser_state>", re.DOTALL)
_FILES = re.compile(r"<available_file_paths>(.*?)\nUse with absolute paths</available_file_paths>", re.DOTALL)
_THOUGHTS = {
    "thinking": "thinking",
    "evaluation_previous_goal": "evaluation",
    "memory": "memory",
    "next_goal": "next_goal",
}


@dataclass(frozen=True)
class History:
    """The contents of a history."""

    steps: tuple[BrowserStep, ...]
    task: str = ""
    """The task, if the history contains it."""
    is_done: bool = False
    is_successful: bool | None = None
    """Whether the agent reported success."""
    is_approved: bool | None = None
    """The verdict of the judge; None without a judge."""
    judgement: str = ""
    """The reason for the verdict."""
    last_word: str = ""
    ran_out_of_steps: bool = False
    started: object = None
    """When the first step began, in seconds since 1970."""
    ended: object = None
    """When the last step ended."""
    usage: Mapping[str, int] = field(default_factory=dict)


def is_history(record: object) -> bool:
    """Return whether an object is a history of browser-use: a live object, or the contents of its JSON file.

    Example:
        >>> is_history({"history": [{"model_output": None, "result": [], "state": {}}]}), is_history({"history": []})
        (True, False)
    """
    if type(record).__name__ == "AgentHistoryList" and type(record).__module__.startswith("browser_use."):
        return True
    items = record.get("history") if isinstance(record, Mapping) else None
    return isinstance(items, list) and bool(items) and all(map(_is_step, items))


def _is_step(item: object) -> bool:
    return isinstance(item, Mapping) and item.keys() >= {"model_output", "result", "state"}


def read_history(record: object, redactor: Redactor | None = None) -> History:
    """Read a history.

    Args:
        record: An `AgentHistoryList`, or the contents of its JSON file as a dict.
        redactor: Replaces secrets before texts are shortened, because part of a secret would not be found.

    Raises:
        TypeError: The object is not a history of browser-use.
    """
    if not is_history(record):
        raise TypeError(f"a {type(record).__name__} is not a history of browser-use")
    dumped: Any = record if isinstance(record, Mapping) else record.model_dump()  # type: ignore[attr-defined]  # live
    # Converted through JSON, so that a live history is read like its file.
    items = json.loads(json.dumps(dumped["history"], default=str))
    items = marked_secrets_redactor(items).redact_value(items)
    if redactor is not None:
        items = redactor.redact_value(items)
    ran_out_of_steps = bool(items) and _is_end_mark(items[-1])
    real = items[:-1] if ran_out_of_steps else items
    last = (_results(real[-1]) or [{}])[-1] if real and not ran_out_of_steps else {}
    is_done = bool(last.get("is_done"))
    verdict = fields_of(last.get("judgement"))
    times = [fields_of(item.get("metadata")) for item in real]
    return History(
        steps=tuple(
            _step(number, item, downloads)
            for number, (item, downloads) in enumerate(zip(real, _downloads(real), strict=True), 1)
        ),
        task=next(_tasks(real), ""),
        is_done=is_done,
        is_successful=last.get("success") if is_done else None,
        is_approved=verdict.get("verdict"),
        judgement=str(verdict.get("failure_reason") or verdict.get("reasoning") or ""),
        last_word=str(last.get("extracted_content") or "") if is_done else "",
        ran_out_of_steps=ran_out_of_steps,
        started=next((time.get("step_start_time") for time in times), None),
        ended=next((time.get("step_end_time") for time in reversed(times)), None),
        usage=_usage(getattr(record, "usage", None)) or _usage_of_steps(times),
    )


def _is_end_mark(item: Mapping[str, Any]) -> bool:
    """Return whether this is the item that the framework adds when the agent runs out of steps."""
    errors = [str(result.get("error")) for result in _results(item)]
    return not item.get("model_output") and not item.get("metadata") and any("maximum steps" in text for text in errors)


def _downloads(items: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the names of the files that each step downloaded, which are in the prompt of the next step."""
    downloads = [_files_of(text_of(item.get("state_message"))) for item in items]
    after = [*downloads[1:], *downloads[-1:]]
    return [
        [re.split(r"[\\/]", path)[-1] for path in files if path not in known]
        for known, files in zip(downloads, after, strict=True)
    ]


def _files_of(message: str) -> list[str]:
    # The text of a page follows after this, and may contain anything.
    found = _FILES.search(message.partition("<browser_state>")[0])
    return found[1].splitlines() if found else []


def _step(number: int, item: Mapping[str, Any], downloads: list[str]) -> BrowserStep:
    state, output = fields_of(item.get("state")), fields_of(item.get("model_output"))
    # Releases before 0.3 keep the thoughts in an object of their own.
    said = {**fields_of(output.get("current_state")), **output}
    results = _results(item)
    actions = output.get("action")
    chosen = [action for action in actions if isinstance(action, dict) and action] if isinstance(actions, list) else []
    outside = [str(result["error"]) for result in results[len(chosen) :] if result.get("error")]
    return BrowserStep(
        number=number,
        url=text_of(state.get("url")),
        title=text_of(state.get("title")),
        page=_page_of(text_of(item.get("state_message"))),
        arrived_at="",
        http_status=None,
        thoughts={name: text_of(said[key]) for key, name in _THOUGHTS.items() if said.get(key)},
        actions=[
            _action(action, results[place] if place < len(results) else {}) for place, action in enumerate(chosen)
        ],
        downloads=downloads,
        error=shortened("; ".join(outside), _LONGEST_RESULT) if outside else None,
        seconds=_duration(fields_of(item.get("metadata"))),
    )


def _duration(metadata: Mapping[str, Any]) -> float | None:
    start, end = metadata.get("step_start_time"), metadata.get("step_end_time")
    if not isinstance(start, int | float) or not isinstance(end, int | float):
        return None
    return round(end - start, 3)


def _action(action: Mapping[str, Any], result: Mapping[str, Any]) -> BrowserAction:
    ((name, arguments), *_) = action.items()
    text = result.get("extracted_content") or result.get("long_term_memory") or ""
    error = result.get("error")
    return BrowserAction(
        name=name,
        arguments=arguments,
        result=shortened(str(text), _LONGEST_RESULT),
        error=shortened(str(error), _LONGEST_RESULT) if error else None,
    )


def _results(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    results = item.get("result")
    return [result for result in results if isinstance(result, dict)] if isinstance(results, list) else []


def _tasks(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the task at the very beginning of the prompt; the rest may contain any text of a page."""
    for item in items:
        if found := _TASK.match(text_of(item.get("state_message"))):
            yield found[1]


def _page_of(message: str) -> str:
    found = _PAGE.search(message)
    return shortened(found[1].strip(), _LONGEST_PAGE) if found else ""


def _usage(summary: object) -> dict[str, int]:
    if summary is None:
        return {}
    names = {
        "model_calls": "entry_count",
        "input_tokens": "total_prompt_tokens",
        "output_tokens": "total_completion_tokens",
    }
    return {ours: int(getattr(summary, theirs)) for ours, theirs in names.items() if hasattr(summary, theirs)}


def _usage_of_steps(times: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the usage that releases before 0.3 keep with the times of each step."""
    counts = [count for time in times if isinstance(count := time.get("input_tokens"), int)]
    return {"model_calls": len(counts), "input_tokens": sum(counts)} if counts else {}
