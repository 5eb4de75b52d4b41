"""Reads stored records: conversations, states of graphs, returns of an AgentExecutor, results of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ace import extract_cited_skill_ids
from ace.traces import TraceStep
from ace_langchain.messages import PlainMessage, is_message, plain_message, text_of
from ace_langchain.result import LangChainResult, ToolUse
from ace_langchain.steps import arguments_text, words_of

__all__ = ["read_stored", "recognises"]

_RESULT_FIELDS = frozenset({"task", "output", "result_type", "success"})
_LONGEST_HEAD = 65536


def recognises(record: object) -> float:
    """Say how surely a record, or the head of a file, is one of LangChain: from 0, not at all, to 1.

    Args:
        record: Any object; of a file, its first characters or bytes.

    Example:
        >>> recognises([{"type": "ai", "data": {"content": "4"}}]), recognises([{"role": "user", "content": "2+2?"}])
        (0.9, 0.0)
    """
    if isinstance(record, LangChainResult):
        return 1.0
    if isinstance(record, str | bytes):
        return _score_of_head(record)
    if isinstance(record, Mapping):
        if record.keys() >= _RESULT_FIELDS:
            return 0.95
        if "schema" in record:
            return 0.0  # a standard trace already
        if is_message(record) or _are_messages(record.get("messages")):
            return 0.9
        return 0.8 if _agent_steps(record) else 0.0
    if type(record).__name__ == "GraphOutput" and type(record).__module__.startswith("langgraph"):
        return 0.9
    return 0.9 if is_message(record) or _are_messages(record) else 0.0


def read_stored(record: object) -> LangChainResult:
    """Read a stored record as a result. Whether it succeeded is not known, unless it is a result of ours.

    Args:
        record: See `result_to_trace`.

    Raises:
        TypeError: It is no record that LangChain leaves behind.
    """
    if isinstance(record, str | bytes):
        record = _parsed(record)
    if type(record).__name__ == "GraphOutput":
        record = getattr(record, "value", None)
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
        f"a {type(record).__name__} is no record of LangChain; give a LangChainResult, messages, "
        "the state of a graph, or what an AgentExecutor returned"
    )


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
    """Read the state in which a graph ended."""
    held = record["messages"]
    if not _are_messages(held) or not isinstance(held, Sequence):
        raise TypeError("the 'messages' of this record are no messages of LangChain")
    result = _of_messages([plain_message(message) for message in held])
    structured = record.get("structured_response")
    output = result.output if structured is None else text_of(structured)
    return replace(result, result_type="langgraph", output=output)


def _of_agent(record: Mapping[str, object]) -> LangChainResult:
    """Read what an AgentExecutor returned."""
    steps: list[TraceStep] = []
    uses: list[ToolUse] = []
    thoughts: list[str] = []
    for number, (action, observation) in enumerate(_agent_steps(record), 1):
        tool, given, thought = str(action["tool"]), action.get("tool_input"), str(action.get("log") or "")
        result, place = text_of(observation), str(number)
        if thought:
            steps.append(TraceStep(kind="thought", name="assistant", content=thought, is_error=False, place=place))
        steps += [
            TraceStep(kind="call", name=tool, content=arguments_text(given), is_error=False, place=place),
            TraceStep(kind="result", name=tool, content=result, is_error=False, place=place),
        ]
        uses.append(ToolUse(tool=tool, input=given, output=result, error=None))
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
    """Return the actions of an AgentExecutor with what came of them; empty if these are none."""
    held = record.get("intermediate_steps")
    pairs = [step for step in held if isinstance(step, list | tuple)] if isinstance(held, list) else []
    found = [(_action(pair[0]), pair[1]) for pair in pairs if len(pair) == 2]
    return [(action, observation) for action, observation in found if "tool" in action]


def _action(action: object) -> Mapping[str, object]:
    if isinstance(action, Mapping):
        kwargs = action.get("kwargs")
        return kwargs if isinstance(kwargs, Mapping) else action
    return {name: getattr(action, name) for name in ("tool", "tool_input", "log") if hasattr(action, name)}


def _uses(messages: Sequence[PlainMessage]) -> tuple[ToolUse, ...]:
    """Put the calls that the models asked for together with their results."""
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


def _score_of_head(head: str | bytes) -> float:
    text = head[:_LONGEST_HEAD].decode("utf-8", "replace") if isinstance(head, bytes) else head[:_LONGEST_HEAD]
    if not text.lstrip().startswith(("{", "[")):
        return 0.0
    with suppress(ValueError):  # of a longer file only the head is here
        return recognises(json.loads(text))
    signs = (('"result_type"', '"intermediate_steps"'), ('"lc"', '"langchain'), ('"additional_kwargs"', '"type"'))
    return 0.7 if any(all(word in text for word in sign) for sign in signs) else 0.0


def _parsed(text: str | bytes) -> object:
    """Parse JSON, or lines of JSON that each hold a message."""
    try:
        return json.loads(text)
    except ValueError as error:
        problem = error
    lines = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        # Only a line feed ends a line of JSONL; str.splitlines would also cut at U+2028 inside a text.
        return [json.loads(line) for line in lines.split("\n") if line.strip()]
    except ValueError:
        raise TypeError(f"this text is no record of LangChain: it is no JSON ({problem})") from None
