"""Reads stored records: conversations, states of graphs, recorded runs, results of agents and of ours."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ace.integrations import checked_arguments, extract_cited_skill_ids
from ace.logs import NotALogError, Source, file_source, text_source
from ace.traces import TraceStep
from ace_langchain.messages import PlainMessage, is_message, messages_in, plain_message, text_of
from ace_langchain.recorded_runs import (
    is_event,
    is_langsmith_run,
    key_of_event,
    key_of_run,
    parts_of_events,
    parts_of_runs,
    result_of_parts,
)
from ace_langchain.result import LangChainResult, ToolUse
from ace_langchain.steps import arguments_text, steps_of_messages, words_of

__all__ = ["parts_of", "read_stored", "recognise", "records_in", "records_of_values", "values_of"]

_logger = logging.getLogger(__name__)
_RESULT_FIELDS = frozenset({"task", "output", "result_type", "success"})
_SNAPSHOT_FIELDS = ("values", "next", "config", "metadata", "created_at", "parent_config", "tasks", "interrupts")


def recognise(record: object) -> float:
    """Return the probability that an object is a record of LangChain, from 0 to 1.

    Args:
        record: Any object.

    Example:
        >>> recognise([{"type": "ai", "data": {"content": "4"}}]), recognise([{"role": "user", "content": "2+2?"}])
        (0.9, 0.0)
    """
    if isinstance(record, LangChainResult):
        return 1.0
    if isinstance(record, Mapping):
        return _score_of_fields(record)
    if _is_graph_output(record) or is_message(record) or is_langsmith_run(record) or _snapshot(record):
        return 0.9
    if not isinstance(record, list | tuple) or not record:
        return 0.0
    return 0.9 if any(all(map(is_one, record)) for is_one in (is_message, *_RECORDED, _snapshot)) else 0.0


def parts_of(value: object) -> list[tuple[str | None, object]]:
    """Return the records in a line or a document of a file, each with the key of the trace that it belongs to.

    A list of messages is a conversation, and so are messages in lines of their own; runs, events and snapshots belong
    to the trace, the run or the thread that they name. Everything else is a trace of its own.

    Args:
        value: A JSON value.

    Example:
        >>> parts_of([{"event": "on_tool_end", "run_id": "7", "data": {}}, {"messages": []}])
        [('event 7', {'event': 'on_tool_end', 'run_id': '7', 'data': {}}), (None, {'messages': []})]
    """
    if not isinstance(value, list) or _snapshot(value) is not None:
        return list(_keyed(value))
    holds_several = all(isinstance(item, list) for item in value) or any(map(recognise, value))
    if _are_messages(value) or not holds_several:
        return [(None, value)]
    return [part for item in value for part in parts_of(item)]


@checked_arguments()
def records_in(path: str | Path) -> list[object]:
    """Return the records of a file, each of which is one trace, for `TraceAnalyser.run`.

    Args:
        path: A file of JSON or JSONL: stored conversations, states, `StateSnapshot`s, runs of LangSmith, events of
            `astream_events`, or results. A file may contain many, and the parts of a run in any order.

    Raises:
        OSError: The file cannot be read.
        TypeError: The file is not JSON or JSONL.
    """
    return records_of_values(values_of(_opened(Path(path))))


def _opened(path: Path) -> Source:
    try:
        return file_source(path)
    except NotALogError as error:
        raise TypeError(f"{path} is not a record of LangChain: {error}") from None


def values_of(source: Source) -> Iterator[object]:
    """Yield the documents of a source: a list is one, and of other files every value is."""
    values = (record.value for record in source.records())
    if source.shape == "list" or (source.shape == "live" and len(source.head.records) > 1):
        yield list(values)
    else:
        yield from values


def read_stored(record: object) -> LangChainResult:
    """Read a stored record as a result. Only a stored `LangChainResult` says whether the run succeeded.

    Args:
        record: See `result_to_trace`.

    Raises:
        TypeError: The object is not a record of LangChain.
    """
    if isinstance(record, Path):
        return _of_records(records_in(record))
    if isinstance(record, str | bytes):
        return _of_records(records_of_values(_values(record)))
    if _is_graph_output(record):
        record = getattr(record, "value", None)
    recorded = _recorded_run(record)
    if recorded is not None:
        return recorded
    snapshots = [_snapshot(state) for state in (_listed(record) if _is_history(record) else [record])]
    found = [snapshot for snapshot in snapshots if snapshot is not None]
    if found:
        return _of_snapshot(max(found, key=_age))
    if isinstance(record, Mapping):
        if record.keys() >= _RESULT_FIELDS:
            return LangChainResult.from_dict(record)
        if _agent_steps(record):
            return _of_agent(record)
        if "messages" in record:
            return _of_state(record)
    if is_message(record):
        record = [record]
    if _are_messages(record) and isinstance(record, Sequence):
        return _of_messages([plain_message(message) for message in record])
    raise TypeError(
        f"a {type(record).__name__} is not a record of LangChain; give a LangChainResult, messages, the state of a "
        "graph, runs of LangSmith, events of astream_events, or what an AgentExecutor returned"
    )


def _score_of_fields(record: Mapping[Any, object]) -> float:
    if record.keys() >= _RESULT_FIELDS:
        return 0.95
    if "schema" in record:
        return 0.0  # a standard trace already
    if is_message(record) or _are_messages(record.get("messages")) or _snapshot(record):
        return 0.9
    if any(is_one(record) for is_one in _RECORDED):
        return 0.9
    return 0.8 if _agent_steps(record) else 0.0


_RECORDED = (is_langsmith_run, is_event)
"""The recognisers of tracers' records, of which several may form one trace."""


def _keyed(value: object) -> Iterator[tuple[str | None, object]]:
    if is_langsmith_run(value):
        yield f"run {key_of_run(value)}", value
    elif isinstance(value, Mapping) and is_event(value):
        yield f"event {key_of_event(value)}", value
    elif is_message(value):
        yield "message", value
    else:
        snapshot = _snapshot(value)
        thread = _thread_of(snapshot) if snapshot is not None else ""
        yield f"thread {thread}" if thread else None, value


def _recorded_run(record: object) -> LangChainResult | None:
    """Read the record of a tracer; None if it is something else."""
    records = list(record) if isinstance(record, list | tuple) else [record]
    if not records:
        return None
    if all(map(is_langsmith_run, records)):
        return result_of_parts(parts_of_runs(records))
    if all(map(is_event, records)):
        return result_of_parts(parts_of_events([item for item in records if isinstance(item, Mapping)]))
    return None


def records_of_values(values: Iterable[object]) -> list[object]:
    """Return the records in some documents, each of which is one trace.

    Args:
        values: The documents.

    Raises:
        TypeError: None of them is an object or a list.
    """
    traces: dict[object, list[object]] = {}
    found = [value for value in values if isinstance(value, dict | list)]
    if not found:
        raise TypeError("this text is not a record of LangChain: it is not JSON")
    for value in found:
        for key, part in parts_of(value):
            traces.setdefault(object() if key is None else key, []).append(part)
    return [parts[0] if len(parts) == 1 else parts for parts in traces.values()]


def _of_records(records: list[object]) -> LangChainResult:
    """Read all records of a text as one result, as the caller gives one text for one trace."""
    found = [read_stored(record) for record in records if recognise(record) > 0] or [
        read_stored(record) for record in records[:1]
    ]
    first, last = found[0], found[-1]
    if len(found) == 1:
        return first
    steps = [
        TraceStep(**{**step, "place": f"{number}.{step['place']}"})
        for number, result in enumerate(found, 1)
        for step in (list(result.steps) or steps_of_messages(result.messages))
    ]
    usage: dict[str, int] = {}
    for result in found:
        for name, count in result.usage.items():
            usage[name] = usage.get(name, 0) + count
    _logger.warning(
        "a text or file with %d traces is read as one trace; for one trace each, give the analyser "
        "ace_langchain.records_in(path), or give the file to `ace learn`",
        len(found),
    )
    problems = [result.error for result in found if result.error]
    return replace(
        last,
        task=first.task,
        success=False if problems else None,
        error="; ".join(problems) or None,
        failed_at=next((result.failed_at for result in found if result.error), ""),
        intermediate_steps=tuple(use for result in found for use in result.intermediate_steps),
        messages=tuple(message for result in found for message in result.messages),
        steps=tuple(steps),
        skill_ids=tuple(dict.fromkeys(skill_id for result in found for skill_id in result.skill_ids)),
        usage=usage,
        feedback="\n".join(result.feedback for result in found if result.feedback),
    )


def _is_graph_output(record: object) -> bool:
    return type(record).__name__ == "GraphOutput" and type(record).__module__.startswith("langgraph")


def _snapshot(record: object) -> Mapping[str, object] | None:
    """Return the fields of a `StateSnapshot` with a state, live or stored; None for anything else."""
    fields: Mapping[str, object] = {}
    if isinstance(record, Mapping):
        fields = record
    elif type(record).__name__ == "StateSnapshot":
        fields = {name: getattr(record, name, None) for name in _SNAPSHOT_FIELDS}
    elif isinstance(record, list) and len(record) in (7, 8) and isinstance(record[1], list):
        fields = dict(zip(_SNAPSHOT_FIELDS, record, strict=False))  # JSON has no named tuples
    place = fields.get("config", fields.get("checkpoint"))
    if not isinstance(fields.get("next"), list | tuple) or not isinstance(place, Mapping):
        return None
    values = fields.get("values")
    # Before its first step a thread has no values.
    return fields if isinstance(values, Mapping) and (values or _thread_of(fields)) else None


def _is_history(record: object) -> bool:
    return isinstance(record, list) and bool(record) and _snapshot(record) is None and all(map(_snapshot, record))


def _thread_of(snapshot: Mapping[str, object]) -> str:
    for name in ("config", "checkpoint"):
        place = snapshot.get(name)
        if isinstance(place, Mapping):
            configurable = place.get("configurable")
            thread = (configurable if isinstance(configurable, Mapping) else place).get("thread_id")
            if thread:
                return str(thread)
    return ""


def _age(snapshot: Mapping[str, object]) -> tuple[int, str]:
    """Return a sort key that is largest for the newest snapshot of a thread."""
    metadata = snapshot.get("metadata")
    step = metadata.get("step") if isinstance(metadata, Mapping) else None
    return step if isinstance(step, int) else -2, str(snapshot.get("created_at") or "")


def _of_snapshot(snapshot: Mapping[str, object]) -> LangChainResult:
    values = snapshot["values"]
    assert isinstance(values, Mapping)
    messages = [message for message in messages_in(values.get("messages")) if message["type"]]
    if messages:
        result = replace(_of_messages(messages), result_type="langgraph")
    else:
        texts = {name: text_of(value) for name, value in values.items()}
        question = next((texts[name] for name in ("input", "question", "query", "task") if texts.get(name)), "")
        output = next((texts[name] for name in ("output", "answer", "result") if texts.get(name)), "")
        result = LangChainResult(question, output or text_of(values), "langgraph", success=None)
    structured = values.get("structured_response")
    if structured is not None:
        result = replace(result, output=text_of(structured))
    problem = next(filter(None, map(_problem_of_task, _listed(snapshot.get("tasks")))), None)
    return result if problem is None else replace(result, success=False, error=problem[1], failed_at=problem[0])


def _problem_of_task(task: object) -> tuple[str, str] | None:
    """Return the node and the error of a failed task. A task that waits for a person has not failed."""
    names = ("name", "error")
    fields = task if isinstance(task, Mapping) else {name: getattr(task, name, None) for name in names}
    error = fields.get("error")
    return (str(fields.get("name") or ""), str(error)) if error else None


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _of_messages(messages: list[PlainMessage]) -> LangChainResult:
    asked = [place for place, message in enumerate(messages) if message["type"] == "human"]
    answers = [message for message in messages if message["type"] == "ai"]
    answer = messages[-1] if messages and messages[-1]["type"] == "ai" else None
    words = "\n".join(map(words_of, answers))
    usage: dict[str, int] = {"model_calls": len(answers)}
    for message in answers:
        for name, count in message["usage"].items():
            usage[name] = usage.get(name, 0) + count
    return LangChainResult(
        task=messages[asked[0]]["content"] if asked else "",
        output=answer["content"] if answer else "",
        result_type="simple",
        success=None,
        intermediate_steps=_uses(messages),
        messages=tuple(messages),
        skill_ids=tuple(extract_cited_skill_ids(words)),
        usage=usage,
    )


def _of_state(record: Mapping[str, object]) -> LangChainResult:
    """Read the final state of a graph."""
    messages = record["messages"]
    if not _are_messages(messages) or not isinstance(messages, Sequence):
        raise TypeError("the 'messages' of this record are not messages of LangChain")
    result = _of_messages([plain_message(message) for message in messages])
    structured = record.get("structured_response")
    output = result.output if structured is None else text_of(structured)
    return replace(result, result_type="langgraph", output=output)


def _of_agent(record: Mapping[str, object]) -> LangChainResult:
    """Read the return value of an AgentExecutor."""
    steps: list[TraceStep] = []
    uses: list[ToolUse] = []
    thoughts: list[str] = []
    for number, (action, observation) in enumerate(_agent_steps(record), 1):
        tool, arguments, thought = str(action["tool"]), action.get("tool_input"), str(action.get("log") or "")
        result, place = text_of(observation), str(number)
        if thought:
            steps.append(TraceStep(kind="thought", name="assistant", content=thought, is_error=False, place=place))
        steps += [
            TraceStep(kind="call", name=tool, content=arguments_text(arguments), is_error=False, place=place),
            TraceStep(kind="result", name=tool, content=result, is_error=False, place=place),
        ]
        uses.append(ToolUse(tool=tool, input=arguments, output=result, error=None))
        thoughts.append(thought)
    output = text_of(record.get("output"))
    return LangChainResult(
        task=text_of(record.get("input")),
        output=output,
        result_type="agent",
        success=None,
        intermediate_steps=tuple(uses),
        steps=tuple(steps),
        skill_ids=tuple(extract_cited_skill_ids("\n".join([*thoughts, output]))),
        usage={"tool_calls": len(uses)},
    )


def _agent_steps(record: Mapping[str, object]) -> list[tuple[Mapping[str, object], object]]:
    """Return the actions of an AgentExecutor with their results; empty if these are not actions."""
    steps = record.get("intermediate_steps")
    pairs = [step for step in steps if isinstance(step, list | tuple)] if isinstance(steps, list) else []
    found = [(_action(pair[0]), pair[1]) for pair in pairs if len(pair) == 2]
    return [(action, observation) for action, observation in found if "tool" in action]


def _action(action: object) -> Mapping[str, object]:
    if isinstance(action, Mapping):
        kwargs = action.get("kwargs")
        return kwargs if isinstance(kwargs, Mapping) else action
    return {name: getattr(action, name) for name in ("tool", "tool_input", "log") if hasattr(action, name)}


def _uses(messages: Sequence[PlainMessage]) -> tuple[ToolUse, ...]:
    """Pair the tool calls of the models with their results."""
    results = {message["tool_call_id"]: message for message in messages if message["type"] == "tool"}
    uses = []
    for call in (call for message in messages for call in message["tool_calls"]):
        answer = results.get(call["id"])
        output = "" if answer is None else answer["content"]
        error = output if answer is not None and answer["is_error"] else None
        uses.append(ToolUse(tool=call["name"], input=call["args"], output=output, error=error))
    return tuple(uses)


def _are_messages(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(is_message, value))


def _values(text: str | bytes) -> Iterable[object]:
    """Return the documents in a text: one, or lines of JSON."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return values_of(text_source(text))
