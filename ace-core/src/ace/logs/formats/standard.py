"""Reads standard traces, which converters of frameworks return and programs store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from ace.logs.building import text_of
from ace.logs.head import LogHead
from ace.logs.run import Problem, Run, Speaker, Step
from ace.logs.source import Source
from ace.traces import StepKind

__all__ = ["READERS", "StandardReader", "is_standard_step"]

_KINDS: Final = frozenset(get_args(StepKind))
_KEYS: Final = frozenset({"kind", "name", "content", "is_error", "place"})
_SPEAKERS: Final[Mapping[str, Speaker]] = {"user": "person", "assistant": "agent", "tool": "tool"}
_TEXTS: Final = ("question", "context", "answer", "feedback")


def is_standard_step(value: object) -> bool:
    """Return whether a JSON value is a step of a standard trace.

    Args:
        value: A JSON value.

    Example:
        >>> is_standard_step({"kind": "result", "name": "sh", "content": "ok"}), is_standard_step({"kind": "result"})
        (True, False)
    """
    if not isinstance(value, dict) or not value.keys() <= _KEYS:
        return False
    if not isinstance(value.get("kind"), str) or value["kind"] not in _KINDS:
        return False
    texts = (value.get("content"), value.get("name", ""), value.get("place", ""))
    return all(isinstance(text, str) for text in texts) and isinstance(value.get("is_error", False), bool)


class StandardReader:
    """Reads standard traces, and records with steps like theirs."""

    name = "standard-trace"
    title = "Standard traces of ACE"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return 0.95 if all of the first records have the schema or the steps of standard traces."""
        return 0.95 if head.objects and all(map(_is_standard, head.objects)) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each record."""
        for record in source.records():
            if isinstance(record.value, dict) and _is_standard(record.value):
                yield _run(record.value, str(record.line) if source.shape == "lines" else "")
            else:
                yield source.problem("not a standard trace", record.line)


def _is_standard(record: Mapping[str, Any]) -> bool:
    steps = record.get("steps")
    has_steps = isinstance(steps, list) and bool(steps) and all(map(is_standard_step, steps))
    return has_steps or (record.get("schema") == 1 and isinstance(record.get("question"), str))


def _run(record: Mapping[str, Any], place: str) -> Run:
    steps = record.get("steps")
    items = steps if isinstance(steps, list) else []
    found = [_step(item) for item in items if is_standard_step(item)]
    texts = {name: text_of(record.get(name)) for name in _TEXTS}
    success = record.get("success")
    # What was derived from the steps is derived again.
    omitted = {*_TEXTS, "schema", "trace_id", "success", "ground_truth", "rest", "reasoning" if found else ""}
    rest = {name: value for name, value in record.items() if name not in omitted and (name != "steps" or not found)}
    inner = record.get("rest")
    return Run(
        task=texts["question"],
        context=texts["context"],
        answer=texts["answer"],
        reason=texts["feedback"],
        id=text_of(record.get("trace_id")),
        steps=tuple(found),
        success=success if isinstance(success, bool) else None,
        outcome_from="success" if isinstance(success, bool) else "",
        truth=text_of(record.get("ground_truth")) or None,
        rest={**rest, **(inner if isinstance(inner, dict) else {})},
        place=place,
    )


def _step(item: Mapping[str, Any]) -> Step:
    kind, full_name = item["kind"], item.get("name", "")
    name, _, call_id = full_name.partition(" #") if kind in ("call", "result") else (full_name, "", "")
    by_kind: dict[str, Speaker] = {"call": "agent", "thought": "agent", "result": "tool"}
    speaker = by_kind.get(kind) or _SPEAKERS.get(name, "harness")
    return Step(
        kind=kind,
        speaker=speaker,
        name="" if speaker == "person" or kind == "thought" or (kind == "message" and speaker == "agent") else name,
        content=item["content"],
        is_error=item.get("is_error", False),
        place=item.get("place", ""),
        call_id=call_id,
    )


READERS: Final = (StandardReader(),)
