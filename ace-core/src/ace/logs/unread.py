"""Finds the texts of a record that its run does not have, so that nothing is lost without a word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ace.logs.run import Run

__all__ = ["with_unread_texts"]

_FEWEST_SPACES: Final = 2
"""A text with fewer is a name, an id, a type or a number, of which formats are full and which tell nothing alone."""
_DEEPEST: Final = 40


def with_unread_texts(run: Run, record: Any) -> Run:
    """Return a run with the texts that were not read in `rest`, by the path of their field without numbers.

    Args:
        run: What was read.
        record: What it was read from, a JSON value.

    Example:
        >>> record = {"messages": [{"role": "user", "content": "Hi", "note": "She is a new customer."}]}
        >>> with_unread_texts(Run(task="Hi"), record).rest
        {'messages.note': ['She is a new customer.']}
    """
    texts = {run.task, run.answer, run.context, run.reason, run.truth or ""}
    texts.update(step.content for step in run.steps)
    together = ""
    unread: dict[str, list[str]] = {}
    for path, text in _texts_in(record, "", 0):
        stripped = text.strip()
        if stripped.count(" ") < _FEWEST_SPACES or stripped in texts or path.partition(".")[0] in run.rest:
            continue
        # Built only where it is needed: most texts are a step as a whole.
        together = together or "\n".join(texts)
        if stripped not in together and json.dumps(stripped, ensure_ascii=False)[1:-1] not in together:
            unread.setdefault(path, []).append(text)
    return replace(run, rest={**run.rest, **unread}) if unread else run


def _texts_in(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for name, item in value.items():
            yield from _texts_in(item, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _texts_in(item, path, depth + 1)
