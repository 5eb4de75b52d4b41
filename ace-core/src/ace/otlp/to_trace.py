"""Converts the spans of one trace to the standard trace dict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ace._internal.json_fields import Record, text_in
from ace.cases import corrections_in
from ace.context import ACEStepContext
from ace.otlp.documents import SpanRecords, span_records
from ace.otlp.spans import Message, Span, span_of
from ace.protocols.trace_converters import TraceConversionError
from ace.skill import extract_cited_skill_ids
from ace.traces import StandardTraceDict, StepKind, TraceStep, failed_steps, steps_as_text, trace_step

__all__ = ["OtlpToTrace", "spans_to_trace"]

_NANOSECONDS: Final = 1e9


class OtlpToTrace:
    """Converts the OTLP export in `ctx.trace` to the standard trace dict."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace dict.

        Raises:
            TraceConversionError: See `spans_to_trace`.
        """
        return ctx.replace(trace=spans_to_trace(ctx.trace))


def spans_to_trace(trace: object) -> StandardTraceDict:
    """Return the standard trace dict of the spans of one trace.

    Args:
        trace: A record of `records_in`, or an export with a single trace: the parsed document, its text, or its path.

    Raises:
        TraceConversionError: The export has no span of a model, a tool or an agent, it has several traces, or its spans
            have no texts.

    Example:
        >>> attributes = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "2+2?", "gen_ai.completion": "4"}
        >>> trace = spans_to_trace({"traceId": "7", "spanId": "1", "name": "chat", "attributes": attributes})
        >>> trace["question"], trace["answer"], trace["success"]
        ('2+2?', '4', None)
    """
    records = span_records(trace)
    tree = _Tree(_spans_of(records))
    steps = _Steps(tree)
    if not any(step["content"] for step in steps.steps) and not any(span.answer for span in tree.spans):
        raise TraceConversionError(
            "the spans of this trace have no texts of messages or tools; let your application record them, such as "
            "with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
        )
    last = tree.top[-1]
    error = last.error
    failed_at = tree.path(tree.cause(last)) if error else ""
    words = "\n".join(step["content"] for step in steps.steps if step["name"] == "assistant" or step["kind"] == "call")
    cut_values = sum(span.cut_values for span in tree.spans)
    return StandardTraceDict(
        schema=1,
        question=_question(tree, steps),
        context="",
        reasoning=steps_as_text(steps.steps),
        answer="" if error else _answer(tree, steps),
        success=False if error else None,
        skill_ids=extract_cited_skill_ids(words),
        feedback="\n".join(_feedback(tree, steps.steps, error, failed_at, cut_values)),
        ground_truth=None,
        steps=steps.steps,
        corrections=corrections_in(steps.steps),
        metrics=_metrics(tree, steps.steps, cut_values),
        metadata={
            "integration": "otlp",
            "otlp_trace_id": text_in(records.spans[0], "traceId", "trace_id"),
            "services": records.services,
            "error": error or None,
            "failed_at": failed_at,
        },
    )


def _spans_of(records: SpanRecords) -> list[Span]:
    """Return the spans, each with the log records that name it; a span that was exported twice once."""
    logs: dict[str, list[Record]] = {}
    for log in records.logs:
        logs.setdefault(text_in(log, "spanId", "span_id"), []).append(log)
    read = (span_of(span, logs.get(text_in(span, "spanId", "span_id"), ())) for span in records.spans)
    return list({span.id: span for span in read}.values())


class _Tree:
    """The hierarchy of the spans of a trace. A model or tool call that two libraries have recorded is in it once."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_id = {span.id: span for span in sorted(spans, key=lambda span: span.start)}
        self._open_circles()
        for span in list(self._by_id.values()):
            self._join_duplicate(span)
        self.spans = list(self._by_id.values())
        self._below: dict[str, list[Span]] = {}
        for span in self.spans:
            self._below.setdefault(span.parent if span.parent in self._by_id else "", []).append(span)
        self.top = self._below[""]
        """The spans without a parent in the export, in order of time."""
        self.top_ids = frozenset(span.id for span in self.top)

    def below(self, span: Span) -> list[Span]:
        return self._below.get(span.id, [])

    def above(self, span: Span) -> Iterator[Span]:
        """Yield the spans around a span, from the inside out."""
        while (parent := self._by_id.get(span.parent)) is not None:
            yield parent
            span = parent

    def path(self, span: Span) -> str:
        """Return the names from below the outermost span down to a span; of the outermost one, its own name."""
        around = [ancestor.name for ancestor in self.above(span)]
        return "/".join([*reversed(around[:-1]), span.name])

    def cause(self, span: Span) -> Span:
        """Return the innermost span from which the error of a span came."""
        while failed := [child for child in self.below(span) if child.error]:
            span = failed[-1]
        return span

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

    def _join_duplicate(self, span: Span) -> None:
        """Merge a call with the call around it, if these are records of one call by two instrumentation libraries."""
        if span.kind not in ("model", "tool"):
            return
        for around in self.above(span):
            if around.kind == span.kind and _may_be_same(around, span):
                self._by_id[around.id] = replace(
                    around,
                    inputs=around.inputs or span.inputs,
                    answers=around.answers or span.answers,
                    tokens=around.tokens or span.tokens,
                    call_id=around.call_id or span.call_id,
                )
                self._by_id[span.id] = replace(span, kind="other", answers=(), inputs=(), tokens={})
                return
            if around.kind != "other":
                return


def _may_be_same(around: Span, span: Span) -> bool:
    if span.kind == "tool":
        return around.name == span.name
    said, said_inside = (list(map(_key, either.answers)) for either in (around, span))
    return not said or not said_inside or said == said_inside


class _Steps:
    """Collects the steps of a trace.

    Each model call repeats the conversation so far, so a message is only added if it has not been added as often as it
    occurs in the input of the call.
    """

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self._seen_answers: Counter[tuple[object, ...]] = Counter()
        self._open_calls: dict[str, str] = {}
        """The name of each call without a result, by its id."""
        self._calls: dict[str, str] = {}
        self._answered: Counter[str] = Counter()
        """How many results of a tool came from its own span, and have not been repeated by a model call."""
        self._answered_ids: set[str] = set()
        self.steps: list[TraceStep] = []
        self._walk()

    def _walk(self) -> None:
        """Add each span before those inside it, and its outcome after them."""
        waiting = [(span, False) for span in reversed(self._tree.top)]
        while waiting:
            span, is_done = waiting.pop()
            if is_done:
                self._end(span)
                continue
            self._start(span)
            waiting.append((span, True))
            waiting += [(child, False) for child in reversed(self._tree.below(span))]

    def _start(self, span: Span) -> None:
        if span.kind == "model" or span.id in self._tree.top_ids:
            self._add_new(span.inputs, span)
            if not self.steps and span.question and not span.inputs and span.kind not in ("tool", "retriever"):
                self._add("message", "user", span.question, span)
        elif span.kind == "retriever":
            self._add("call", span.name, span.question, span)
        if span.kind == "tool":
            call_id = self._call_of(span)
            if call_id is None:
                self._add("call", span.name, span.question, span)
            else:
                del self._open_calls[call_id]

    def _end(self, span: Span) -> None:
        if span.kind == "model":
            for answer in span.answers:
                self._seen_answers[_key(answer)] += 1
                self._add_message(answer, span)
            if not span.answers and not span.error and span.answer:
                self._add("message", "assistant", span.answer, span)
        if span.kind in ("tool", "retriever"):
            self._answered[span.name] += 1
            self._answered_ids.add(span.call_id)
            self._add("result", span.name, span.error or span.answer, span, is_error=bool(span.error))
        elif span.error and not any(child.error for child in self._tree.below(span)):
            self._add("result", span.name, span.error, span, is_error=True)

    def _call_of(self, span: Span) -> str | None:
        """Return the id of the call in a model's answer that a span of a tool carries out."""
        if span.call_id in self._open_calls:
            return span.call_id
        named = (call_id for call_id, name in self._open_calls.items() if name == span.name)
        return next(named, None)

    def _add_new(self, messages: Sequence[Message], span: Span) -> None:
        seen: Counter[tuple[object, ...]] = Counter()
        for message in messages:
            key = _key(message)
            seen[key] += 1
            if message.role != "system" and seen[key] > self._seen_answers[key]:
                self._seen_answers[key] += 1
                self._add_message(message, span)

    def _add_message(self, message: Message, span: Span) -> None:
        if message.role == "tool":
            self._add_result(message, span)
            return
        if message.thought:
            self._add("thought", message.role, message.thought, span)
        if message.text:
            self._add("message", message.role, message.text, span)
        for number, call in enumerate(message.calls):
            call_id = call.id or f"{span.id} {number}"
            self._open_calls[call_id] = self._calls[call_id] = call.name
            self._add("call", call.name, call.arguments, span)

    def _add_result(self, message: Message, span: Span) -> None:
        """Add a result in the input of a model, unless the span of the tool has been added."""
        name = self._calls.get(message.call_id) or next(iter(self._open_calls.values()), "tool")
        self._open_calls.pop(message.call_id, None)
        if self._answered[name] > 0:
            self._answered[name] -= 1
        elif not message.call_id or message.call_id not in self._answered_ids:
            self._add("result", name, message.text, span, is_error=message.is_error)

    def _add(self, kind: StepKind, name: str, content: str, span: Span, *, is_error: bool = False) -> None:
        agents = [
            ancestor.name
            for ancestor in self._tree.above(span)
            if ancestor.kind == "agent" and ancestor.id not in self._tree.top_ids
        ]
        place = str(len(self.steps) + 1) + (f" in {agents[0]}" if agents else "")
        self.steps.append(trace_step(kind, name, content, place, is_error=is_error))


def _key(message: Message) -> tuple[object, ...]:
    """Return what is the same if another span repeats a message; thoughts are often not repeated."""
    if message.role == "tool" and message.call_id:
        return message.role, message.call_id
    return message.role, message.text, tuple((call.name, call.arguments) for call in message.calls)


def _question(tree: _Tree, steps: _Steps) -> str:
    first = tree.top[0]
    said = next((message.text for message in first.inputs if message.role == "user" and message.text), "")
    asked = (step["content"] for step in steps.steps if step["kind"] == "message" and step["name"] == "user")
    whole = first.question if first.kind not in ("tool", "retriever") else ""
    return said or whole or next(asked, "")


def _answer(tree: _Tree, steps: _Steps) -> str:
    last = tree.top[-1]
    said = [message.text for message in last.answers if message.text]
    if said:
        return said[-1]
    spoken = [step for step in steps.steps if step["kind"] == "message" and step["name"] == "assistant"]
    return (last.answer if last.kind != "tool" else "") or (spoken[-1]["content"] if spoken else "")


def _feedback(tree: _Tree, steps: Sequence[TraceStep], error: str, failed_at: str, cut_values: int) -> Iterator[str]:
    if error:
        yield f"The run failed in {failed_at}: {error}" + ("" if error.endswith((".", "!", "?")) else ".")
    else:
        yield "This is a record; whether the task was done is not known."
    yield from failed_steps(steps)
    yield from (evaluation for span in tree.spans for evaluation in span.evaluations)
    if cut_values:
        yield f"{cut_values} values were cut when the spans were exported."


def _metrics(tree: _Tree, steps: Sequence[TraceStep], cut_values: int) -> dict[str, float]:
    models = [span for span in tree.spans if span.kind == "model"]
    # The tokens of an agent are the sum of those of its models.
    counted = models if any(span.tokens for span in models) else tree.top
    tokens = {name: sum(span.tokens.get(name, 0) for span in counted) for name in ("input_tokens", "output_tokens")}
    starts = [span.start for span in tree.spans if span.start]
    ends = [span.end for span in tree.spans if span.end]
    return {
        **tokens,
        "total_tokens": sum(tokens.values()),
        "model_calls": len(models),
        "tool_calls": sum(step["kind"] == "call" for step in steps),
        "duration_seconds": max(0.0, (max(ends) - min(starts)) / _NANOSECONDS) if starts and ends else 0.0,
        "steps": len(steps),
        **({"cut_values": cut_values} if cut_values else {}),
    }
