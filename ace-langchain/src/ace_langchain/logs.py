"""Reads stored records of LangChain and LangGraph: conversations, states, snapshots, recorded runs, results."""

from __future__ import annotations

from collections.abc import Iterator

from ace.logs import LogHead, Problem, Run, Source, Speaker, Step, Tokens, spoken_by_user
from ace.traces import TraceStep
from ace_langchain.result import LangChainResult
from ace_langchain.steps import steps_of_messages
from ace_langchain.stored import parts_of, read_stored, recognise, values_of

__all__ = ["LangChainLogs", "run_of_result"]


class LangChainLogs:
    """Reads everything that LangChain, LangGraph and LangSmith store."""

    name = "langchain"
    title = "LangChain and LangGraph: messages, states, LangSmith runs, events"
    places = ()
    side_files = ()
    note = "Only a stored `LangChainResult` and a recorded error say whether a run succeeded."

    def recognises(self, head: LogHead) -> float:
        """Return how certainly these are records of LangChain, from 0 to 1.

        Args:
            head: The beginning of the source.
        """
        of_list = recognise(list(head.records)) if head.shape in ("list", "live") else 0.0
        scores = list(filter(None, map(recognise, head.records)))
        of_records = max(scores) if len(scores) * 2 > len(head.records) else 0.0
        return max(of_list, of_records)

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the conversations and states in order, then what consists of several records.

        Args:
            source: A file of JSON or JSONL.
        """
        parts: dict[str, list[object]] = {}
        for value in values_of(source):
            for key, part in parts_of(value) if isinstance(value, dict | list) else ():
                if key is None:
                    yield from _read(source, part)
                else:
                    parts.setdefault(key, []).append(part)
        for own in parts.values():
            yield from _read(source, own[0] if len(own) == 1 else own)


def _read(source: Source, record: object) -> Iterator[Run | Problem]:
    try:
        yield run_of_result(read_stored(record))
    except (TypeError, ValueError) as error:
        yield source.problem(f"not a record of LangChain: {error}")


def run_of_result(result: LangChainResult) -> Run:
    """Return the run of a result, live or stored.

    Args:
        result: What a chain, an agent or a graph did.
    """
    metadata = {
        "integration": "langchain",
        "result_type": result.result_type,
        "error": result.error,
        "failed_at": result.failed_at,
        **({"thread_id": result.thread_id} if result.thread_id else {}),
        **({"waits_for": result.waits_for} if result.waits_for else {}),
    }
    return Run(
        id=result.thread_id,
        task=result.task,
        context=result.context,
        steps=tuple(map(_step, _steps_of(result))),
        answer=result.output,
        success=result.success,
        reason="\n".join(filter(None, (_ended(result), result.feedback))),
        outcome_from="" if result.success is None else "success",
        tokens=Tokens(input=result.usage.get("input_tokens"), output=result.usage.get("output_tokens")),
        skill_ids=result.skill_ids,
        metadata=metadata,
    )


def _steps_of(result: LangChainResult) -> list[TraceStep]:
    """Return the steps of a result, or else those of its messages."""
    return list(result.steps) or steps_of_messages(result.messages)


def _step(step: TraceStep) -> Step:
    speaker, name, content = _speaker(step), step["name"], step["content"]
    if speaker == "person":
        speaker, content = spoken_by_user(content)
    if step["kind"] == "message" and speaker in ("person", "agent"):
        name = ""
    return Step(
        kind=step["kind"],
        speaker=speaker,
        name=name,
        content=content,
        is_error=step["is_error"],
        place=step["place"],
    )


def _speaker(step: TraceStep) -> Speaker:
    if step["kind"] == "message":
        speakers: dict[str, Speaker] = {"user": "person", "assistant": "agent"}
        return speakers.get(step["name"], "harness")
    return "tool" if step["kind"] == "result" else "agent"


def _ended(result: LangChainResult) -> str:
    if result.waits_for:
        return f"The run is paused, and waits for an answer to: {result.waits_for}. This is not a failure."
    if result.success is None:
        return ""
    if result.success:
        return "The run came to its end with an answer."
    place = f" in {result.failed_at}" if result.failed_at else ""
    error = str(result.error)
    return f"The run failed{place}: {error}" + ("" if error.endswith((".", "!", "?")) else ".")
