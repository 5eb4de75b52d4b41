"""Turns the spans of one trace into a run: what happened in order, the answer, and why it failed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from ace.logs.building import text_of, time_of
from ace.logs.formats.spans.assessments import outcome_of
from ace.logs.formats.spans.span import Span, Trace
from ace.logs.formats.spans.values import parsed
from ace.logs.run import Run, Step, Tokens
from ace.roles.prompts import extract_cited_skill_ids

__all__ = ["run_of"]


def run_of(trace: Trace) -> Run:
    """Return the run that a trace records; without steps and answer if its spans have no texts.

    Args:
        trace: The spans, in the order of the export.
    """
    tree = _Tree(trace.spans)
    story = _Story(tree)
    last = tree.roots[-1] if tree.roots else None
    error = last.error if last is not None else ""
    failed_at = tree.path(tree.cause(last)) if last is not None and error else ""
    assessments = [*trace.assessments, *(found for span in trace.spans for found in span.assessments)]
    outcome = outcome_of([found for found in assessments if not found.is_truth])
    reason = [_failure(failed_at, error)] if error else []
    reason += itertools.chain.from_iterable(found.lines() for found in assessments if not found.is_truth)
    truths = (text_of(found.value) for found in assessments if found.is_truth)
    words = "\n".join(step.content for step in story.steps if step.kind == "call" or step.speaker == "agent")
    answer = "" if error else _answer(tree, story.steps)
    starts, ends = [span.start for span in tree.spans if span.start], [span.end for span in tree.spans if span.end]
    cut_values = sum(span.cut_values for span in trace.spans)
    return Run(
        id=trace.id,
        task=_task(tree, story.steps),
        steps=tuple(story.steps),
        answer=answer,
        success=False if error else outcome.success,
        score=outcome.score,
        reason="\n".join(reason),
        outcome_from="status" if error else outcome.source,
        truth=trace.truth or next(truths, None),
        model=next((span.model for span in tree.spans if span.model), ""),
        tokens=Tokens(input=tree.total("input_tokens"), output=tree.total("output_tokens")),
        cost=tree.total("cost"),
        started=time_of(min(starts, default=0)),
        ended=time_of(max(ends, default=0)),
        skill_ids=tuple(extract_cited_skill_ids(words)),
        rest={
            **trace.rest,
            **({"failed_at": failed_at} if failed_at else {}),
            **({"cut_values": cut_values} if cut_values else {}),
        },
    )


def _failure(place: str, error: str) -> str:
    return f"The run failed in {place}: {error}" + ("" if error.endswith((".", "!", "?")) else ".")


_OWN_KEY: Final = "call without an id, at "
_CONTENT_KINDS: Final = ("model", "agent", "tool", "retriever")


class _Tree:
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
        return self._below.get(span.id, [])

    def above(self, span: Span) -> Iterator[Span]:
        """Yield the spans around a span, from the inside out."""
        while (parent := self._by_id.get(span.parent)) is not None:
            yield parent
            span = parent

    def path(self, span: Span) -> str:
        """Return the names from below the outermost span that says something down to a span; of that one, its own."""
        above = () if span.id in self.top_ids else self.above(span)
        inside = itertools.takewhile(lambda around: around.id not in self.top_ids, above)
        return "/".join([*reversed([around.name for around in inside]), span.name])

    def cause(self, span: Span) -> Span:
        """Return the innermost span from which the error of a span came."""
        while failed := [child for child in self.below(span) if child.error]:
            span = failed[-1]
        return span

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
    said, said_inside = ([_key(step) for step in either.outputs] for either in (around, span))
    return not said or not said_inside or said == said_inside


class _Story:
    """Collects the steps of a trace.

    Each model call repeats the conversation so far, so a step is only added if it has not been added as often as it
    occurs in the input of the call.
    """

    def __init__(self, tree: _Tree) -> None:
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
            key = _key(step)
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
        self._seen[_key(step)] += 1
        if self._answered[name] > 0:
            self._answered[name] -= 1
        elif not step.call_id or step.call_id not in self._answered_ids:
            self._append(replace(step, name=name), span)

    def _add(self, step: Step, span: Span) -> None:
        self._seen[_key(step)] += 1
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


def _key(step: Step) -> tuple[str, ...]:
    """Return what is the same if another span repeats a step."""
    if step.kind == "result" and step.call_id:
        return step.kind, step.call_id
    return step.kind, step.speaker, "" if step.kind == "result" else step.name, step.content


def _said(steps: Iterable[Step], speaker: str) -> list[str]:
    return [step.content for step in steps if step.kind == "message" and step.speaker == speaker]


def _task(tree: _Tree, steps: Sequence[Step]) -> str:
    first = tree.top[0] if tree.top else None
    asked = _said(first.inputs, "person") if first else []
    whole = first.question if first and first.kind not in ("tool", "retriever") and not asked else ""
    said = _said(steps, "person")
    is_text = parsed(whole) == whole
    return next(filter(None, [*asked, whole if is_text else "", *said, whole]), "")


def _answer(tree: _Tree, steps: Sequence[Step]) -> str:
    last = tree.top[-1] if tree.top else None
    said = _said(last.outputs, "agent") if last else []
    whole = last.answer if last and last.kind not in ("tool", "retriever") else ""
    spoken = _said(steps, "agent")
    return next(filter(None, [*said[-1:], whole if not (last and last.outputs) else "", *spoken[-1:]]), "")
