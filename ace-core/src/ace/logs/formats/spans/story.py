"""Collects the steps of a run from the spans of its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ace.logs.building import text_of
from ace.logs.formats.spans.span import Span
from ace.logs.formats.spans.tree import SpanTree, step_key
from ace.logs.formats.spans.values import parsed
from ace.logs.run import Step

__all__ = ["Story"]

_OWN_KEY: Final = "call without an id, at "


class Story:
    """Collects the steps of a trace.

    Each model call repeats the conversation so far, so a step is only added if it has not been added as often as it
    occurs in the input of the call.
    """

    def __init__(self, tree: SpanTree) -> None:
        self._tree = tree
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._open_calls: dict[str, str] = {}
        """The name of each call without a result, by its id or, if it has none, by a key of our own."""
        self._ids_of_spans: dict[str, str] = {}
        """The ids of calls, by the spans of the tools that carried them out."""
        self._names: dict[str, str] = {}
        self._answered: Counter[str] = Counter()
        """How many results of a tool came from its own span, and have not been repeated by a model call."""
        self._answered_ids: set[str] = set()
        self.steps: list[Step] = []
        self._walk()

    def _walk(self) -> None:
        """Add each span before those inside it, and its outcome after them."""
        waiting = [(span, False) for span in reversed(self._tree.roots)]
        while waiting:
            span, is_done = waiting.pop()
            if is_done:
                self._end(span)
                continue
            self._start(span)
            waiting.append((span, True))
            waiting += [(child, False) for child in reversed(self._tree.below(span))]

    def _is_whole(self, span: Span) -> bool:
        """Whether what a span was asked and answered is that of a run or of an agent whose models left no spans."""
        return span.id in self._tree.top_ids or (span.kind == "agent" and span.id not in self._tree.around_models)

    def _start(self, span: Span) -> None:
        if span.kind == "retriever":
            self._add_call(span, span.question)
        elif span.kind == "tool":
            self._start_tool(span)
        elif span.kind == "model" or self._is_whole(span):
            self._add_new(span.inputs, span)
            if span.question and not span.inputs and not self.steps and not self._is_for_program(span):
                self._add(Step(kind="message", speaker="person", content=span.question), span)
        if span.kind == "model" and _has_calls(span):  # the tools that it called may be inside
            self._add_outputs(span)

    def _is_for_program(self, span: Span) -> bool:
        """Whether the input is an object for a program, which asks its models in its own words."""
        return span.id in self._tree.around_models and parsed(span.question) != span.question

    def _start_tool(self, span: Span) -> None:
        call_id = self._call_of(span)
        if call_id is None:
            self._add_call(span, text_of(parsed(span.question)))
        else:
            del self._open_calls[call_id]
            self._ids_of_spans[span.id] = "" if call_id.startswith(_OWN_KEY) else call_id

    def _add_call(self, span: Span, arguments: str) -> None:
        self._add(Step(kind="call", speaker="agent", name=span.name, content=arguments, call_id=span.call_id), span)

    def _end(self, span: Span) -> None:
        if span.kind in ("tool", "retriever"):
            self._answered[span.name] += 1
            self._fail_or_return(span, span.error or span.answer)
            return
        if span.kind == "model" and not _has_calls(span):
            self._add_outputs(span)
        elif self._is_whole(span):
            self._add_new(span.outputs, span)
        if span.answer and not span.outputs and not span.error and (span.kind == "model" or self._is_whole(span)):
            self._add_new([Step(kind="message", speaker="agent", content=span.answer)], span)
        if span.error and not any(child.error for child in self._tree.below(span)):
            self._fail_or_return(span, span.error)

    def _add_outputs(self, span: Span) -> None:
        for step in span.outputs:
            self._add_said(step, span)

    def _fail_or_return(self, span: Span, content: str) -> None:
        is_error = bool(span.error) or span.is_failed_result
        call_id = self._ids_of_spans.get(span.id, span.call_id)
        self._answered_ids.add(call_id)
        self._add(
            Step(kind="result", speaker="tool", name=span.name, content=content, is_error=is_error, call_id=call_id),
            span,
        )

    def _call_of(self, span: Span) -> str | None:
        """Return the id of the call in a model's answer that a span of a tool carries out."""
        if span.call_id in self._open_calls:
            return span.call_id
        named = (call_id for call_id, name in self._open_calls.items() if name == span.name)
        return next(named, None)

    def _add_new(self, steps: Iterable[Step], span: Span) -> None:
        found: Counter[tuple[str, ...]] = Counter()
        for step in steps:
            key = step_key(step)
            found[key] += 1
            if found[key] > self._seen[key]:
                self._add_said(step, span)

    def _add_said(self, step: Step, span: Span) -> None:
        if step.kind == "result":
            self._add_result(step, span)
            return
        self._add(step, span)
        if step.kind == "call":
            call_id = step.call_id or f"{_OWN_KEY}{len(self.steps)}"
            self._open_calls[call_id] = self._names[call_id] = step.name

    def _add_result(self, step: Step, span: Span) -> None:
        """Add a result in the input of a model, unless the span of the tool has been added."""
        name = self._names.get(step.call_id) or step.name or next(iter(self._open_calls.values()), "")
        answered = step.call_id or next((key for key, open_name in self._open_calls.items() if open_name == name), "")
        self._open_calls.pop(answered, None)
        self._seen[step_key(step)] += 1
        if self._answered[name] > 0:
            self._answered[name] -= 1
        elif not step.call_id or step.call_id not in self._answered_ids:
            self._append(replace(step, name=name), span)

    def _add(self, step: Step, span: Span) -> None:
        self._seen[step_key(step)] += 1
        self._append(step, span)

    def _append(self, step: Step, span: Span) -> None:
        agents = [
            ancestor.name
            for ancestor in self._tree.above(span)
            if ancestor.kind == "agent" and ancestor.id not in self._tree.top_ids
        ]
        place = str(len(self.steps) + 1) + (f" in {agents[0]}" if agents else "")
        self.steps.append(replace(step, place=place))


def _has_calls(span: Span) -> bool:
    return any(step.kind == "call" for step in span.outputs)
