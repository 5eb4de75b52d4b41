"""The steps that send samples and recursive reflections to Opik."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ace.calls import redactor_for
from ace.integrations import checked_arguments
from ace_opik.connection import Connection, SpanRecord, TraceRecord, connect, connect_or_warn, flush, redacted

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol

__all__ = ["OpikStep", "RROpikStep", "extra_steps"]

_PROJECT: Final = "ace-framework"
_QUESTION_FIELDS: Final = ("question", "context", "ground_truth")
_POSITION_FIELDS: Final = ("epoch", "total_epochs", "step_index", "total_steps", "global_sample_index")
_OPERATION_FIELDS: Final = ("type", "section", "skill_id", "content", "justification", "evidence")


class OpikStep:
    """Sends an Opik trace `ace_sample` for each sample that reaches it.

    The input of the trace is the question, and its output is the agent's answer. Its metadata contains that of the
    pipeline, the reflection, and the operations on the skillbook, as far as the sample has them. Secrets and personal
    data are redacted. The step does nothing if `opik` is not installed, or if `OPIK_DISABLED=true` or
    `OPIK_ENABLED=false` was set when the step was created.

    Args:
        project_name: The project in Opik.
        tags: The tags of the traces.

    Example:
        >>> import os
        >>> from ace import ACEStepContext
        >>> os.environ["OPIK_DISABLED"] = "true"
        >>> ctx = ACEStepContext(sample="2+2?")
        >>> OpikStep(tags=["nightly"])(ctx) is ctx
        True
        >>> del os.environ["OPIK_DISABLED"]
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()

    @checked_arguments()
    def __init__(self, project_name: str = _PROJECT, tags: Sequence[str] | None = None) -> None:
        self.project_name = project_name
        self.tags = tuple(tags or ())
        self._connection = connect_or_warn()

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Send the trace in the background; the context is returned unchanged."""
        if self._connection is not None:
            _send_or_warn(self._connection, lambda: self._trace_of(ctx))
        return ctx

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until everything is received; the same as `ace_opik.flush`.

        Args:
            timeout: The maximum wait, in seconds.
        """
        return flush(timeout)

    def _trace_of(self, ctx: ACEStepContext) -> TraceRecord:
        now = datetime.now(UTC)
        answer = getattr(ctx, "agent_output", None)
        return TraceRecord(
            project=self.project_name,
            name="ace_sample",
            start=now,
            end=now,
            input=redacted(_question_of(ctx)),
            output=None if answer is None else redacted(answer.model_dump(exclude={"raw"})),
            metadata={"trace_id": _trace_id(ctx), **redacted(_metadata_of(ctx))},
            tags=self.tags,
        )


class RROpikStep:
    """Sends an Opik trace `rr_reflect` for each reflection of the recursive reflector, with a span for each iteration.

    A span contains the code, its output, its error, and whether `FINAL` was accepted. The metadata of the trace
    contains the questions to the second model. A reflection without `raw["rr_trace"]` is ignored. In all other
    respects, it works like `OpikStep`.

    Args:
        project_name: The project in Opik.
        tags: The tags of the traces.
    """

    requires = frozenset({"reflection"})
    provides: frozenset[str] = frozenset()

    @checked_arguments()
    def __init__(self, project_name: str = "ace-rr", tags: Sequence[str] | None = None) -> None:
        self.project_name = project_name
        self.tags = tuple(tags or ())
        self._connection = connect_or_warn()

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Send the trace in the background; the context is returned unchanged."""
        rr_trace = getattr(ctx.reflection, "raw", {}).get("rr_trace")
        if self._connection is not None and isinstance(rr_trace, Mapping):
            _send_or_warn(self._connection, lambda: self._trace_of(ctx, rr_trace))
        return ctx

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until everything is received; the same as `ace_opik.flush`.

        Args:
            timeout: The maximum wait, in seconds.
        """
        return flush(timeout)

    def _trace_of(self, ctx: ACEStepContext, rr_trace: Mapping[str, Any]) -> TraceRecord:
        turns: Sequence[Mapping[str, Any]] = rr_trace.get("iterations") or ()
        rest = {name: value for name, value in rr_trace.items() if name != "iterations"}
        now = datetime.now(UTC)
        spans = _spans_of(turns, now)
        return TraceRecord(
            project=self.project_name,
            name="rr_reflect",
            start=spans[0].start if spans else now,
            end=spans[-1].end if spans else now,
            input=redacted(_question_of(ctx)),
            output=redacted(_reflection_of(ctx)),
            metadata={"trace_id": _trace_id(ctx), **redacted(rest)},
            tags=self.tags,
            spans=spans,
        )


def extra_steps(project: str = _PROJECT, tags: Sequence[str] | None = None) -> list[StepProtocol[ACEStepContext]]:
    """Report each LiteLLM call, and return the step that sends samples, for `ACELiteLLM.from_model(..., opik=True)`.

    Args:
        project: The project in Opik; the argument `opik_project`.
        tags: The tags of the traces; the argument `opik_tags`.

    Returns:
        The step; nothing if Opik is disabled.

    Raises:
        ImportError: `opik` is not installed.
        RuntimeError: Opik's client cannot start.
    """
    connection = connect()
    if connection is None:
        return []
    from ace_opik.litellm_calls import report_calls  # it imports litellm

    report_calls(connection, project, tags)
    return [OpikStep(project, tags)]


def _send_or_warn(connection: Connection, build: Callable[[], TraceRecord]) -> None:
    """Send a trace. If it cannot be built, a warning says so: the contents of a sample must not fail the run."""
    try:
        trace = build()
    except Exception as error:
        connection.warn(f"a trace was not sent: {type(error).__name__}: {error}")
    else:
        connection.send(trace)


def _question_of(ctx: ACEStepContext) -> dict[str, str]:
    """Return the question of a sample, from the sample of a live run or else from a recorded trace."""
    sources = (getattr(ctx, "sample", None), getattr(ctx, "trace", None))
    found = {name: next(filter(None, (_text_of(source, name) for source in sources)), "") for name in _QUESTION_FIELDS}
    if not found["question"]:
        found["question"] = next((source for source in sources if isinstance(source, str)), "")
    return {name: text for name, text in found.items() if text}


def _text_of(source: object, name: str) -> str:
    value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    return value if isinstance(value, str) else ""


def _metadata_of(ctx: ACEStepContext) -> dict[str, object]:
    skillbook, batch = getattr(ctx, "skillbook", None), getattr(ctx, "skill_manager_output", None)
    found: dict[str, object] = {
        "pipeline": _simple(ctx.metadata),
        "position": {name: getattr(ctx, name, None) for name in _POSITION_FIELDS},
        "skills": None if skillbook is None else len(skillbook),
        "reflection": _reflection_of(ctx),
        "operations": None
        if batch is None
        else [{name: getattr(operation, name) for name in _OPERATION_FIELDS} for operation in batch.operations],
    }
    return {name: value for name, value in found.items() if value is not None}


def _trace_id(ctx: ACEStepContext) -> str:
    return redactor_for().redact_name(str(ctx.metadata.get("trace_id", "")))


def _simple(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the entries that are texts, numbers or lists of them; the others are objects of the pipeline."""

    def is_simple(value: object) -> bool:
        return isinstance(value, str | int | float) or (
            isinstance(value, list | tuple) and all(isinstance(item, str | int | float) for item in value)
        )

    return {name: value for name, value in metadata.items() if is_simple(value) and name != "trace_id"}


def _reflection_of(ctx: ACEStepContext) -> dict[str, object] | None:
    reflection = getattr(ctx, "reflection", None)
    return None if reflection is None else reflection.model_dump(exclude={"raw"})


def _spans_of(turns: Sequence[Mapping[str, Any]], end: datetime) -> list[SpanRecord]:
    """Return the spans of the iterations, of which the last one has just ended."""
    starts = []
    for turn in reversed(turns):
        end_of_turn, end = end, end - timedelta(seconds=float(turn.get("seconds") or 0))
        starts.append((end, end_of_turn))
    return [
        SpanRecord(
            name=f"iteration {turn.get('iteration', number)}",
            start=start,
            end=end_of_turn,
            input=redacted({"code": turn.get("code", "")}),
            output=redacted({"stdout": turn.get("stdout", ""), "stderr": turn.get("stderr", "")}),
            metadata=redacted(
                {
                    "final": bool(turn.get("terminated")),
                    **{name: turn[name] for name in ("seconds", "input_tokens", "output_tokens") if name in turn},
                }
            ),
        )
        for number, (turn, (start, end_of_turn)) in enumerate(zip(turns, reversed(starts), strict=True), 1)
    ]
