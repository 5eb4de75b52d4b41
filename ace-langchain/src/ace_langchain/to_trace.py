"""Converts results, live or stored, to the standard trace dict. Works without the framework."""

from __future__ import annotations

from collections.abc import Mapping

from ace.context import ACESample, ACEStepContext
from ace.integrations import checked_arguments
from ace.traces import StandardTraceDict
from ace_langchain.logs import run_of_result
from ace_langchain.result import LangChainResult
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
    run = run_of_result(result)
    trace = run.to_trace()
    numbers: Mapping[str, int] = result.usage
    trace["metrics"] = {**numbers, "duration_seconds": result.duration_seconds, "steps": len(run.steps)}
    return trace
