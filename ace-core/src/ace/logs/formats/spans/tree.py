"""The hierarchy of the spans of one trace, in which two records of one call are one span."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ace.logs.formats.spans.span import Span
from ace.logs.run import Step

__all__ = ["SpanTree", "step_key"]

_CONTENT_KINDS: Final = ("model", "agent", "tool", "retriever")


class SpanTree:
    """The hierarchy of the spans of a trace, without those of evaluators.

    A model or tool call that two libraries have recorded is in it once.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_id = {span.id: span for span in _in_order(spans)}
        self._open_circles()
        self._adopt_orphans()
        self._drop_evaluators()
        self._find_tools()
        for span in list(self._by_id.values()):
            self._join_duplicate(span)
        self.spans = list(self._by_id.values())
        self._below: dict[str, list[Span]] = {}
        for span in self.spans:
            self._below.setdefault(span.parent if span.parent in self._by_id else "", []).append(span)
        self.roots = self._below.get("", [])
        """The spans without a parent in the export, in order of time."""
        self.top = [span for root in self.roots for span in self._outermost(root)]
        """The outermost spans that say something: an HTTP request around an agent does not."""
        self.top_ids = frozenset(span.id for span in self.top)
        models = [span for span in self.spans if span.kind == "model"]
        self.around_models = frozenset(around.id for span in models for around in self.above(span))
        """The spans in which a model was called."""

    def below(self, span: Span) -> list[Span]:
        """Return the spans directly inside a span, in order of time."""
        return self._below.get(span.id, [])

    def above(self, span: Span) -> Iterator[Span]:
        """Yield the spans around a span, from the inside out."""
        while (parent := self._by_id.get(span.parent)) is not None:
            yield parent
            span = parent

    def failure(self) -> tuple[str, str]:
        """Return where the last of the outermost spans failed, and why; empty texts if it did not.

        The place is the names from below the outermost span that says something down to the innermost that failed.
        """
        last = span = self.roots[-1]
        while failed := [child for child in self.below(span) if child.error]:
            span = failed[-1]
        above = () if span.id in self.top_ids else self.above(span)
        inside = itertools.takewhile(lambda around: around.id not in self.top_ids, above)
        return "/".join([*reversed([around.name for around in inside]), span.name]) if last.error else "", last.error

    def total(self, name: Literal["input_tokens", "output_tokens", "cost"]) -> Any:
        """Return the sum of a number over the calls of models; those of an agent are the sum of its models' already."""
        for spans in ([span for span in self.spans if span.kind == "model"], self.top):
            numbers = [number for span in spans if (number := getattr(span, name)) is not None]
            if numbers:
                return sum(numbers)
        return None

    def _outermost(self, root: Span) -> list[Span]:
        waiting, found = [root], []
        while waiting:
            span = waiting.pop(0)
            is_silent = span.kind not in _CONTENT_KINDS and not (
                span.inputs or span.outputs or span.question or span.answer
            )
            if is_silent and self.below(span):
                waiting = [*self.below(span), *waiting]
            else:
                found.append(span)
        return found

    def _open_circles(self) -> None:
        """Let no span be inside itself, as the parents in a damaged export may claim."""
        for span in list(self._by_id.values()):
            seen = {span.id}
            parent = self._by_id.get(span.parent)
            while parent is not None and parent.id not in seen:
                seen.add(parent.id)
                parent = self._by_id.get(parent.parent)
            if parent is not None:
                self._by_id[span.id] = replace(span, parent="")

    def _adopt_orphans(self) -> None:
        """Put spans whose parent was not exported into the only span that has none."""
        roots = [span for span in self._by_id.values() if not span.parent]
        for span in list(self._by_id.values()) if len(roots) == 1 else ():
            if span.parent and span.parent not in self._by_id:
                self._by_id[span.id] = replace(span, parent=roots[0].id)

    def _drop_evaluators(self) -> None:
        """Remove the spans of evaluators and those inside, which are not part of what the agent did."""
        judged = [span for span in self._by_id.values() if self._is_judged(span)]
        for span in judged:
            del self._by_id[span.id]

    def _is_judged(self, span: Span) -> bool:
        return any(around.kind == "evaluator" for around in (span, *self.above(span)))

    def _find_tools(self) -> None:
        """Take a span without others inside for the call of a tool, if a model called a tool of its name."""
        spans = list(self._by_id.values())
        parents = {span.parent for span in spans}
        called = {step.name for span in spans for step in span.outputs if step.kind == "call"}
        for span in spans:
            if span.kind == "other" and span.id not in parents and span.name in called:
                self._by_id[span.id] = replace(span, kind="tool")

    def _join_duplicate(self, span: Span) -> None:
        """Merge a call with the call around it, if these are records of one call by two instrumentation libraries."""
        if span.kind not in ("model", "tool"):
            return
        for around in self.above(span):
            if around.kind == span.kind and _may_be_same(around, span):
                self._by_id[around.id] = replace(
                    around,
                    inputs=around.inputs or span.inputs,
                    outputs=around.outputs or span.outputs,
                    input_tokens=span.input_tokens if around.input_tokens is None else around.input_tokens,
                    output_tokens=span.output_tokens if around.output_tokens is None else around.output_tokens,
                    call_id=around.call_id or span.call_id,
                )
                emptied = Span(id=span.id, parent=span.parent, kind="other", name=span.name)
                self._by_id[span.id] = replace(emptied, start=span.start, end=span.end, error=span.error)
                return
            if around.kind != "other":
                return


def _in_order(spans: Sequence[Span]) -> list[Span]:
    """Return spans in order of time; one without a time follows the one before it in the export."""
    timed: list[tuple[int, Span]] = []
    for span in spans:
        timed.append((span.start or (timed[-1][0] if timed else 0), span))
    return [span for _, span in sorted(timed, key=lambda pair: pair[0])]


def _may_be_same(around: Span, span: Span) -> bool:
    if span.kind == "tool":
        return around.name == span.name
    said, said_inside = ([step_key(step) for step in either.outputs] for either in (around, span))
    return not said or not said_inside or said == said_inside


def step_key(step: Step) -> tuple[str, ...]:
    """Return what is the same if another span repeats a step."""
    if step.kind == "result" and step.call_id:
        return step.kind, step.call_id
    return step.kind, step.speaker, "" if step.kind == "result" else step.name, step.content
