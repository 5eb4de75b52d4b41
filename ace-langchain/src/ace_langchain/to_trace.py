"""Converts results, live or stored, to the standard trace dict. Works without the framework."""

from __future__ import annotations

from collections.abc import Mapping

from ace.context import ACESample, ACEStepContext
from ace.integrations import checked_arguments, corrections_in
from ace.traces import StandardTraceDict, TraceStep, steps_as_text
from ace_langchain.result import LangChainResult
from ace_langchain.steps import steps_of_messages
from ace_langchain.stored import read_stored

__all__ = ["LangChainToTrace", "result_to_trace"]


class LangChainToTrace:
    """Converts the `LangChainResult` in `ctx.trace` to the standard trace dict.

    If the input was a sample with a ground truth, the trace contains it. A run that waits for an answer is not learned
    from; the trace of its resumption contains both parts.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace dict.

        Raises:
            TypeError: The trace is not a result of LangChain.
        """
        trace = result_to_trace(ctx.trace)
        if isinstance(ctx.sample, ACESample) and ctx.sample.ground_truth is not None:
            trace["ground_truth"] = ctx.sample.ground_truth
        if trace["metadata"].get("waits_for"):
            # The following steps skip such a sample; the trace of its resumption is learned from.
            return ctx.replace(trace=trace, metadata={**ctx.metadata, "already_learned": True})
        return ctx.replace(trace=trace)


@checked_arguments()
def result_to_trace(record: object) -> StandardTraceDict:
    """Return the standard trace dict of a result or of a stored record.

    Args:
        record: A `LangChainResult` or what its `to_dict` returned; the messages of a conversation; the state of a
            graph, its `StateSnapshot` or the history of a thread; a run of LangSmith, or all runs of one trace; the
            events of `astream_events`; what an AgentExecutor returned. They may be live, dumped as dicts or serialised
            by LangChain, and all of it may be the text or the path of a JSON or JSONL file; see `records_in` for a file
            of many traces.

    Raises:
        TypeError: It is none of these.

    Example:
        >>> trace = result_to_trace([{"type": "human", "data": {"content": "2+2?"}},
        ...                          {"type": "ai", "data": {"content": "4"}}])
        >>> trace["question"], trace["answer"], trace["success"]
        ('2+2?', '4', None)
    """
    result = record if isinstance(record, LangChainResult) else read_stored(record)
    steps = list(result.steps) or steps_of_messages(result.messages)
    numbers: Mapping[str, int] = result.usage
    return StandardTraceDict(
        schema=1,
        question=result.task,
        context=result.context,
        reasoning=steps_as_text(steps),
        answer=result.output,
        success=result.success,
        skill_ids=list(result.skill_ids),
        feedback=_feedback(result, steps),
        ground_truth=None,
        steps=steps,
        corrections=corrections_in(steps),
        metrics={**numbers, "duration_seconds": result.duration_seconds, "steps": len(steps)},
        metadata={
            "integration": "langchain",
            "result_type": result.result_type,
            "error": result.error,
            "failed_at": result.failed_at,
            **({"thread_id": result.thread_id} if result.thread_id else {}),
            **({"waits_for": result.waits_for} if result.waits_for else {}),
        },
    )


def _feedback(result: LangChainResult, steps: list[TraceStep]) -> str:
    """Describe the outcome of the run and its failed parts."""
    if result.waits_for:
        ended = f"The run is paused, and waits for an answer to: {result.waits_for}. This is not a failure."
    elif result.success is None:
        ended = "This is a record; whether the task was done is not known."
    elif result.success:
        ended = "The run came to its end with an answer."
    else:
        place = f" in {result.failed_at}" if result.failed_at else ""
        error = str(result.error)
        ended = f"The run failed{place}: {error}" + ("" if error.endswith((".", "!", "?")) else ".")
    parts = [f"{step['name']} (step {step['place']})" for step in steps if step["is_error"]]
    if parts:
        ended = f"{ended} Failed parts: {', '.join(parts)}."
    return f"{ended}\n{result.feedback}" if result.feedback else ended
