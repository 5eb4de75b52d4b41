"""Converts the events of runs into spans.

Who calls what, and on which thread: the core calls `SpanBuilder.observe` on the thread on which an event happens, so on
several threads at once. A span is built when its last event arrives, and goes to `ended`, which must not wait.

Invariants:

- The trace id of a run, and the id of its first `ace.run` span, are computed from the name of the run. So a resumed run
  continues its trace, and spans of a killed process get their root when the run is resumed.
- A context variable holds the current step, as the events guarantee, so a model call that the step makes on another
  thread finds it. Its span is also the current span of OpenTelemetry, for other instrumentations.
- All times come from one monotonic clock, so a child never begins before its parent or ends after it.
- `_lock` protects the open runs and samples. It is never held while a span is built.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from ace.calls import redactor_for
from ace.pipeline import PipelineCancelled
from ace.protocols import observers
from ace.redaction import Redactor
from ace_otel import conventions as names
from ace_otel.log_events import LogEvent

__all__ = ["SpanBuilder", "check_span", "outcome_of", "run_context"]

_LONGEST_TEXT: Final = 20_000
"""The maximum length of a text, in characters; longer ones are truncated."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


@dataclass(slots=True)
class _Open:
    """A span that has started and not ended."""

    context: SpanContext
    parent: SpanContext | None
    start: int
    events: list[SpanEvent] = field(default_factory=list)
    links: Sequence[Link] = ()


@dataclass(slots=True)
class _Run:
    span: _Open
    runner: str
    resumed: bool
    redactor: Redactor
    samples: dict[tuple[int, int], _Open] = field(default_factory=dict)


@dataclass(slots=True)
class _Step:
    """The current step of a thread or task."""

    span: _Open
    sample: _Open | None
    redactor: Redactor | None
    token: Token[_Step | None] | None = None
    otel_token: Token[Context] | None = None


_current: ContextVar[_Step | None] = ContextVar("ace_otel_step", default=None)


def run_context(run_id: str) -> SpanContext:
    """Return the trace id of a run, and the id of its first span.

    Args:
        run_id: The name of the run.

    Example:
        >>> run_context("monday") == run_context("monday"), run_context("monday") == run_context("tuesday")
        (True, False)
    """
    digest = hashlib.sha256(f"ace run {run_id}".encode("utf-8", "surrogatepass")).digest()
    return SpanContext(
        int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]), is_remote=False, trace_flags=_SAMPLED
    )


@final
class SpanBuilder:
    """Builds the spans of runs.

    Args:
        ended: Called with each span that has ended.
        resource: The resource that all spans share.
        sampler: Decides for each trace whether it is sent.
        content: Whether texts of prompts, answers and errors are sent, redacted.
        happened: Called with each log event; None if none are sent.
    """

    def __init__(
        self,
        ended: Callable[[ReadableSpan], None],
        *,
        resource: Resource,
        sampler: Sampler,
        content: bool = False,
        happened: Callable[[LogEvent], None] | None = None,
    ) -> None:
        self._ended = ended
        self._happened = happened
        self._resource = resource
        self._sampler = sampler
        self._content = content
        self._scope = InstrumentationScope("ace_otel", version("ace-otel"), names.SCHEMA)
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._wall = time.time_ns() - time.perf_counter_ns()
        self._handlers: Mapping[type, Callable[..., None]] = {
            observers.RunStarted: self._run_started,
            observers.RunEnded: self._run_ended,
            observers.SampleStarted: self._sample_started,
            observers.SampleEnded: self._sample_ended,
            observers.StepStarted: self._step_started,
            observers.StepEnded: self._step_ended,
            observers.ModelCalled: self._model_called,
            observers.ReflectionTurn: self._reflection_turn,
            observers.SubQuestionAnswered: self._question_answered,
            observers.SkillsChanged: self._skills_changed,
            observers.SkillProven: self._skill_proven,
            observers.InsightsFound: self._insights_found,
            observers.BatchJudged: self._batch_judged,
            observers.ArtifactWritten: self._artifact_written,
            observers.AnswerEvaluated: self._answer_evaluated,
        }

    def observe(self, event: observers.Event) -> None:
        """Handle one event; unknown kinds are ignored."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def close(self) -> None:
        """End all open spans, because the process ends."""
        with self._lock:
            runs, self._runs = self._runs, {}
        now = self._now()
        for run_id, run in runs.items():
            for sample in run.samples.values():
                self._end(sample, "ace.sample", now, {names.RUN_ID: run_id, names.OUTCOME: "unfinished"})
            self._end(run.span, "ace.run", now, {names.RUN_ID: run_id, names.RUNNER: run.runner})

    # Runs and samples

    def _run_started(self, event: observers.RunStarted) -> None:
        around = trace.get_current_span().get_span_context()
        first = run_context(event.run_id)
        parent = around if around.is_valid else None
        trace_id = first.trace_id if parent is None else parent.trace_id
        is_first = parent is None and (event.recovered or not event.resumed)
        flags = _SAMPLED if self._is_sampled(trace_id) else TraceFlags(TraceFlags.DEFAULT)
        span_id = first.span_id if is_first else _new_id()
        context = SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags)
        if parent is None and not is_first:
            parent = first  # it was sent when the earlier call ended
        links = [Link(first)] if event.resumed and not is_first else []
        run = _Run(_Open(context, parent, self._now(), links=links), event.runner, event.resumed, redactor_for())
        with self._lock:
            self._runs[event.run_id] = run
        attributes: dict[str, AttributeValue] = {names.RUN_ID: event.run_id, names.RUNNER: event.runner}
        text = f"run {event.run_id} {'resumed' if event.resumed else 'started'}"
        self._log("ace.run.started", text, attributes, run.span.start, context)

    def _is_sampled(self, trace_id: int) -> bool:
        return self._sampler.should_sample(None, trace_id, "ace.run").decision is Decision.RECORD_AND_SAMPLE

    def _run_ended(self, event: observers.RunEnded) -> None:
        with self._lock:
            run = self._runs.pop(event.run_id, None)
        if run is None:
            return
        attributes: dict[str, AttributeValue] = {
            names.RUN_ID: event.run_id,
            names.RUNNER: run.runner,
            "ace.run.resumed": run.resumed,
            "ace.run.learned": event.learned,
            "ace.run.already_learned": event.already_learned,
            "ace.run.failed": event.failed,
            "ace.run.cancelled": event.cancelled,
            "ace.run.stopped_by": event.stopped_by,
        }
        status = Status(StatusCode.ERROR, event.stopped_by) if event.stopped_by else Status(StatusCode.UNSET)
        now = self._now()
        self._end(run.span, "ace.run", now, attributes, status)
        text = f"run {event.run_id} ended: {event.learned} learned, {event.failed} failed"
        severity = SeverityNumber.WARN if event.stopped_by else SeverityNumber.INFO
        stopped = f", stopped by {event.stopped_by}" if event.stopped_by else ""
        self._log("ace.run.ended", text + stopped, attributes, now, run.span.context, severity)

    def _sample_started(self, event: observers.SampleStarted) -> None:
        with self._lock:
            run = self._runs.get(event.run_id)
            if run is not None:
                links = [Link(run_context(event.run_id))] if run.resumed else ()
                run.samples[event.epoch, event.index] = self._child(run.span.context, links)

    def _sample_ended(self, event: observers.SampleEnded) -> None:
        with self._lock:
            run = self._runs.get(event.run_id)
            span = None if run is None else run.samples.pop((event.epoch, event.index), None)
        if run is None or span is None:  # an earlier call of the run had learned it, so there was nothing to do
            return
        attributes: dict[str, AttributeValue] = {
            names.RUN_ID: event.run_id,
            names.TRACE_ID: run.redactor.redact_name(event.trace_id),
            names.EPOCH: event.epoch,
            names.INDEX: event.index,
            names.OUTCOME: outcome_of(event),
        }
        if event.failed_at:
            attributes[names.FAILED_AT] = event.failed_at
        status = self._failed(span, event.error, attributes)
        now = self._now()
        self._end(span, "ace.sample", now, attributes, status)
        if status.status_code is StatusCode.ERROR:
            all_attributes = {**attributes, **(span.events[-1].attributes or {})}
            text = f"sample {event.index} of epoch {event.epoch} failed at {event.failed_at}: {status.description}"
            self._log("exception", text, all_attributes, now, span.context, SeverityNumber.ERROR)

    # Steps

    def _step_started(self, event: observers.StepStarted) -> None:
        with self._lock:
            run = self._runs.get(event.run_id)
            sample = None if run is None else run.samples.get((event.epoch, event.index))
        parent = self._parent(event.run_id) if sample is None else sample.context
        step = _Step(self._child(parent), sample, None if run is None else run.redactor)
        step.token = _current.set(step)
        step.otel_token = otel_context.attach(trace.set_span_in_context(NonRecordingSpan(step.span.context)))

    def _step_ended(self, event: observers.StepEnded) -> None:
        step = _current.get()
        if step is None or step.token is None or step.otel_token is None:
            return
        otel_context.detach(step.otel_token)
        _current.reset(step.token)
        attributes: dict[str, AttributeValue] = {names.STEP: event.step, names.BACKGROUND: event.background}
        status = self._failed(step.span, event.error, attributes)
        self._end(step.span, f"ace.step {event.step}", self._now(), attributes, status)

    # Events inside steps

    def _model_called(self, event: observers.ModelCalled) -> None:
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: "chat",
            names.PROVIDER: names.provider_of(event.model),
            names.REQUEST_MODEL: event.model.rpartition("/")[2],
            names.INPUT_TOKENS: event.input_tokens,
            names.OUTPUT_TOKENS: event.output_tokens,
            names.CACHED_TOKENS: event.cached_input_tokens,
            names.CACHE_WRITE_TOKENS: event.cache_write_tokens,
            names.RECORDED: event.recorded,
            **names.request_attributes(event.request),
            **names.server_attributes(event.server),
        }
        for name, value in ((names.RESPONSE_MODEL, event.response_model), (names.RESPONSE_ID, event.response_id)):
            if value:
                attributes[name] = _text(value)
        stop = event.request.get("stop")
        if self._content and stop:
            sequences = [stop] if isinstance(stop, str) else stop
            attributes[names.STOP_SEQUENCES] = tuple(_text(str(text)) for text in sequences)  # type: ignore[attr-defined]
        if event.role:
            attributes[names.ROLE] = event.role
            attributes[names.AGENT] = event.role
        if event.cost is not None:
            attributes[names.COST] = event.cost
        if event.finish_reason:
            attributes[names.FINISH_REASONS] = (event.finish_reason,)
        if self._content:
            attributes[names.INPUT_MESSAGES] = _messages(_sent(event.prompt))
            attributes[names.OUTPUT_MESSAGES] = _messages([("assistant", [event.answer])], event.finish_reason)
        name = names.operation_and_model(event.model)
        self._ended_now(name, event.run_id, event.seconds, attributes, SpanKind.CLIENT)

    def _reflection_turn(self, event: observers.ReflectionTurn) -> None:
        attributes: dict[str, AttributeValue] = {
            "ace.reflection.iteration": event.iteration,
            "ace.reflection.code_length": event.code_length,
            "ace.reflection.output_length": event.output_length,
            "ace.reflection.failed": bool(event.error),
        }
        if self._content and event.error:
            attributes["ace.reflection.error"] = _text(event.error)
        self._ended_now("ace.reflection_turn", event.run_id, event.seconds, attributes)

    def _question_answered(self, event: observers.SubQuestionAnswered) -> None:
        attributes: dict[str, AttributeValue] = {
            "ace.sub_question.number": event.number,
            "ace.sub_question.mode": event.mode,
            "ace.sub_question.characters": event.characters,
        }
        self._ended_now("ace.sub_question", event.run_id, event.seconds, attributes)

    def _skills_changed(self, event: observers.SkillsChanged) -> None:
        for change in (*event.applied, *event.skipped):
            attributes: dict[str, AttributeValue] = {
                "ace.skill.operation": change.kind,
                "ace.skill.id": change.skill_id,
                "ace.skill.applied": not change.reason,
            }
            text = f"{change.kind} {change.skill_id}"
            if change.reason:
                attributes["ace.skill.reason"] = reason = _text(change.reason)
                text = f"{text} skipped: {reason}"
            self._add_event(event.run_id, "ace.skill.changed", attributes, text)

    def _skill_proven(self, event: observers.SkillProven) -> None:
        passed = "not judged" if event.passed is None else "passed" if event.passed else "failed"
        attributes: dict[str, AttributeValue] = {
            "ace.skill.id": event.skill_id,
            "ace.skill.proof": passed,
            "ace.skill.retries": event.retries,
        }
        if event.reason:
            attributes["ace.skill.reason"] = _text(event.reason)
        if self._content:
            attributes["ace.skill.answer_before"] = _text(event.before)
            attributes["ace.skill.answer_after"] = _text(event.after)
        self._add_event(event.run_id, "ace.skill.proven", attributes, f"proof of {event.skill_id}: {passed}")

    def _insights_found(self, event: observers.InsightsFound) -> None:
        attributes: dict[str, AttributeValue] = {
            "ace.task.id": _text(event.task_id),
            "ace.insights.ready": event.ready,
            "ace.insights.pending": event.pending,
            "ace.insights.min_confidence": event.min_confidence,
        }
        if event.success is not None:
            attributes["ace.task.success"] = event.success
        if self._content and event.description:
            attributes["ace.task.description"] = _text(event.description)
        found = f"insights: {event.ready} to learn, {event.pending} pending"
        self._add_event(event.run_id, "ace.insights.found", attributes, found)

    def _artifact_written(self, event: observers.ArtifactWritten) -> None:
        attributes: dict[str, AttributeValue] = {
            "ace.skillbook.version": event.version,
            "ace.artifact.folder": _text(event.folder),
        }
        self._add_event(event.run_id, "ace.artifact.written", attributes, f"artifacts of version {event.version}")

    def _batch_judged(self, event: observers.BatchJudged) -> None:
        attributes: dict[str, AttributeValue] = {
            "ace.gate.name": event.gate,
            "ace.gate.accepted": event.accepted,
            "ace.gate.reason": _text(event.reason),
        }
        for name, figures in (("before", event.before), ("after", event.after)):
            attributes |= {f"ace.gate.{name}.{figure}": float(value) for figure, value in figures.items()}
        verdict = "accepted" if event.accepted else "refused"
        self._add_event(event.run_id, "ace.gate.judged", attributes, f"{event.gate}: operations {verdict}")

    def _answer_evaluated(self, event: observers.AnswerEvaluated) -> None:
        for name, score in event.metrics.items():
            attributes: dict[str, AttributeValue] = {
                names.EVALUATION_NAME: f"{event.environment}.{name}",
                names.EVALUATION_SCORE: float(score),
            }
            self._add_event(event.run_id, names.EVALUATION, attributes, f"{event.environment}.{name}: {score}")

    # Helpers

    def _now(self) -> int:
        return self._wall + time.perf_counter_ns()

    def _child(self, parent: SpanContext | None, links: Sequence[Link] = ()) -> _Open:
        if parent is None:
            trace_id = random.getrandbits(128) or 1
            flags = _SAMPLED if self._is_sampled(trace_id) else TraceFlags(TraceFlags.DEFAULT)
        else:
            trace_id, flags = parent.trace_id, parent.trace_flags
        context = SpanContext(trace_id, _new_id(), is_remote=False, trace_flags=flags)
        return _Open(context, parent, self._now(), links=links)

    def _parent(self, run_id: str) -> SpanContext | None:
        """Return the innermost open span: that of the step, of the run, or of the program that uses ace."""
        step = _current.get()
        if step is not None:
            return step.span.context
        with self._lock:
            run = self._runs.get(run_id)
        if run is not None:
            return run.span.context
        around = trace.get_current_span().get_span_context()
        return around if around.is_valid else None

    def _ended_now(
        self,
        name: str,
        run_id: str,
        seconds: float,
        attributes: dict[str, AttributeValue],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        """Build the span of an operation that has just ended."""
        span = self._child(self._parent(run_id))
        end = span.start
        span.start = end - int(seconds * 1e9)
        step = _current.get()
        if step is not None:
            span.start = max(span.start, step.span.start)
        self._end(span, name, end, attributes, kind=kind)

    def _add_event(self, run_id: str, name: str, attributes: Mapping[str, AttributeValue], text: str) -> None:
        """Add an event to the span of the sample, or of the run if the event concerns no single sample."""
        step = _current.get()
        span = None if step is None else step.sample
        if span is None:
            with self._lock:
                run = self._runs.get(run_id)
            span = None if run is None else run.span
        if span is not None:
            now = self._now()
            span.events.append(SpanEvent(name, attributes, now))
            self._log(name, text, attributes, now, span.context)

    def _log(
        self,
        name: str,
        text: str,
        attributes: Mapping[str, AttributeValue],
        when: int,
        span: SpanContext,
        severity: SeverityNumber = SeverityNumber.INFO,
    ) -> None:
        if self._happened is not None:
            self._happened(LogEvent(name, text, attributes, when, span, severity))

    def _failed(self, span: _Open, error: BaseException | None, attributes: dict[str, AttributeValue]) -> Status:
        """Return the status of a span, and add the exception if there is one.

        The text of an exception may quote a prompt or an answer, so without `content` only its class is sent.
        """
        if error is None or isinstance(error, PipelineCancelled):
            return Status(StatusCode.UNSET)
        kind = type(error).__qualname__
        attributes[names.ERROR_TYPE] = kind
        details: dict[str, AttributeValue] = {"exception.type": kind}
        if self._content:
            details["exception.message"] = _text(str(error))
        span.events.append(SpanEvent("exception", details, self._now()))
        return Status(StatusCode.ERROR, str(details.get("exception.message", kind)))

    def _end(
        self,
        span: _Open,
        name: str,
        end: int,
        attributes: Mapping[str, AttributeValue],
        status: Status | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        if not span.context.trace_flags.sampled:
            return
        self._ended(
            ReadableSpan(
                name,
                span.context,
                span.parent,
                self._resource,
                attributes,
                span.events,
                span.links,
                kind,
                status=status or _UNSET,
                start_time=span.start,
                end_time=end,
                instrumentation_scope=self._scope,
            )
        )


_UNSET: Final = Status(StatusCode.UNSET)


def check_span(resource: Resource) -> ReadableSpan:
    """Return a single span, to test whether a collector receives it.

    Args:
        resource: The resource of the span.
    """
    now = time.time_ns()
    context = SpanContext(random.getrandbits(128) or 1, _new_id(), is_remote=False, trace_flags=_SAMPLED)
    return ReadableSpan("ace.otel.check", context, None, resource, {}, status=_UNSET, start_time=now, end_time=now)


def outcome_of(event: observers.SampleEnded) -> str:
    """Return the outcome of a sample: `learned`, `already_learned`, `failed` or `cancelled`.

    Args:
        event: The end of the sample.
    """
    if event.already_learned:
        return "already_learned"
    if event.error is None:
        return "learned"
    return "cancelled" if isinstance(event.error, PipelineCancelled) else "failed"


def _new_id() -> int:
    return random.getrandbits(64) or 1


def _text(text: str) -> str:
    step = _current.get()
    redactor = None if step is None else step.redactor
    redacted = (redactor or redactor_for()).redact(text)
    return redacted if len(redacted) <= _LONGEST_TEXT else f"{redacted[:_LONGEST_TEXT]}..."


def _sent(prompt: str | Sequence[Mapping[str, object]]) -> list[tuple[str, list[str]]]:
    """Return the roles of messages, and their texts."""
    if isinstance(prompt, str):
        return [("user", [prompt])]
    return [(str(message.get("role", "user")), _texts(message.get("content", ""))) for message in prompt]


def _texts(content: object) -> list[str]:
    """Return the texts of a content, which has several if the provider's cache is to keep some of them."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return [
        text if isinstance(text, str) else json.dumps(part, default=str, ensure_ascii=False)
        for text, part in zip(texts, parts, strict=True)
    ]


def _messages(messages: Sequence[tuple[str, Sequence[str]]], finish_reason: str = "") -> str:
    """Return redacted messages in the format of the conventions."""
    more = {"finish_reason": finish_reason} if finish_reason else {}
    return json.dumps(
        [
            {"role": role, "parts": [{"type": "text", "content": _text(text)} for text in texts], **more}
            for role, texts in messages
        ],
        ensure_ascii=False,
    )
