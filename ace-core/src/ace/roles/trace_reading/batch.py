"""Several traces in one: how a batch is recognised, and how its traces are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ace.redaction import Redactor
from ace.roles.trace_reading.reader import StandardTrace, read_trace

__all__ = ["read_batch", "shown_names", "traces_in_batch"]

_OF_TRACES = frozenset({"question", "task", "steps", "messages"})


def traces_in_batch(trace: object) -> dict[str, object] | None:
    """Return the traces in a batch by their names; None if it is a single trace.

    A batch is a dict with nothing but `items` or `traces`, or a list of dicts that are traces: messages and steps, of
    which a single trace may be a list, have neither a question nor steps or messages of their own.

    Args:
        trace: The record, of any type.

    Example:
        >>> traces_in_batch({"items": {"run-1": {"question": "2+2?"}}})
        {'run-1': {'question': '2+2?'}}
        >>> traces_in_batch([{"trace_id": "a", "question": "2+2?"}, {"question": "1+1?"}]).keys()
        dict_keys(['a', '2'])
        >>> print(traces_in_batch([{"role": "user", "content": "2+2?"}]))
        None
    """
    held = trace
    if isinstance(trace, Mapping):
        if len(trace) != 1 or next(iter(trace)) not in ("items", "traces"):
            return None
        held = next(iter(trace.values()))
        if isinstance(held, Mapping):
            return {str(name): item for name, item in held.items()}
    if not isinstance(held, list | tuple) or not held:
        return None
    if held is trace and not all(isinstance(item, Mapping) and _OF_TRACES.intersection(item) for item in held):
        return None
    items: dict[str, object] = {}
    for number, item in enumerate(held, 1):
        given = (item.get("trace_id") or item.get("id")) if isinstance(item, Mapping) else None
        name = str(given or number)
        items[name if name not in items else f"{name}#{number}"] = item
    return items


def read_batch(batch: Mapping[str, object]) -> tuple[dict[str, StandardTrace], dict[str, Exception]]:
    """Read the traces in a batch: one that cannot be read costs only itself.

    Args:
        batch: The traces by their names.

    Returns:
        What was read, and why the others cannot be read; both by name.
    """
    read: dict[str, StandardTrace] = {}
    problems: dict[str, Exception] = {}
    for name, trace in batch.items():
        try:
            read[name] = read_trace(trace)
        except Exception as error:  # of a file, or of a converter that a plugin has registered
            problems[name] = error
    return read, problems


def shown_names(names: Iterable[str], redactor: Redactor) -> dict[str, str]:
    """Return the names of the traces in a batch by the names that a model is shown, in the same order.

    Args:
        names: The names.
        redactor: Redacts what is sensitive in them. Names that become equal get a number.

    Example:
        >>> list(shown_names(["ann@acme.com", "bob@acme.com", "run-3"], Redactor()))
        ['[hidden: email_address]', '[hidden: email_address] (2)', 'run-3']
    """
    shown: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        redacted = redactor.redact_name(name)
        shown[redacted if redacted not in shown else f"{redacted} ({number})"] = name
    return shown
