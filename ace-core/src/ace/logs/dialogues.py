"""Finds the dialogue in a record of an unknown format, and reads its items: messages, turns, actions and events."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, key_of, text_of
from ace.logs.messages import HUMAN_AGENTS, add_message, event_role, is_message, is_message_list, role_of
from ace.logs.outcomes import is_failed_output, outcome_in
from ace.logs.usual_fields import field_in, field_text, has_pair, run_fields
from ace.traces import TraceStep, trace_step

__all__ = ["NEVER_LISTS", "add_items", "as_message", "is_dialogue", "message_list_in", "steps_of_dialogue"]

_TURNS: Final = (
    *("messages", "history", "turns", "conversation", "chat", "dialog", "dialogue", "transcript", "chatmessages"),
    *("chathistory", "conversationhistory", "steps", "intermediatesteps"),
)
_LISTS: Final = (*_TURNS, "conversations", "traj", "trajectory", "contents", "events")
NEVER_LISTS: Final = frozenset(
    (
        *("query", "modelinputmessages", "replacementhistory", "compressedhistory", "tools", "demos"),
        *("demonstrations", "fewshot", "fewshotexamples", "rejected", "nonpreferredoutput"),
    )
)
"""Fields with messages that are not those of the run, such as examples for the model."""
_ACTIONS: Final = ("action", "tool", "toolname", "function", "functionname", "toolcall", "command")
_INPUTS: Final = (
    "actioninput",
    "toolinput",
    "toolargs",
    "args",
    "arguments",
    "input",
    "parameters",
    "params",
    "kwargs",
)
_OBSERVATIONS: Final = ("observation", "observations", "toolresult", "tooloutput", "result", "output", "response")
_BOTS: Final = ("bot", "assistant", "chatbot", "ai")
_TEXTS: Final = ("content", "text", "message", "body")
_DEEPEST: Final = 2
_LINE: Final = re.compile(r"\A\s*(?:\*\*|__)?(?P<who>[A-Za-z]+)(?:\*\*|__)?\s*:(?:\*\*|__)?\s*(?P<said>.*)\Z")
# In a transcript of one's own, "You" is the person.
_PEOPLE: Final = frozenset(("user", "human", "customer", "me", "you", "person"))
_AGENTS: Final = frozenset(("assistant", "ai", "agent", "bot", "model", "chatbot", "gpt", "claude"))
_TOOLS: Final = frozenset(("tool", "observation", "function", "system"))


def message_list_in(value: Mapping[str, Any], depth: int = _DEEPEST) -> tuple[str, list[Any]] | None:
    """Return the dialogue in a record, with the name of its field: the longest one, or the first of the usual names.

    Args:
        value: The record.
        depth: How deep in objects it may be.
    """
    found = []
    for name, item in value.items():
        key = key_of(name)
        if key in NEVER_LISTS or key == "examples":
            continue
        if isinstance(item, str) and key in _LISTS:
            item = parsed(item) if item.lstrip().startswith("[") else _spoken(item)
        if isinstance(item, dict) and depth and not is_message(item):
            inner = message_list_in(item, depth - 1)
            item = inner[1] if inner else _numbered_steps(item) if key in _LISTS else item
        if is_message_list(item) or is_dialogue(key, item):
            rank = _LISTS.index(key) if key in _LISTS else len(_LISTS)
            found.append((-len(item), rank, name, item))
    if not found:
        return None
    _, _, name, item = min(found, key=lambda entry: entry[:2])
    return name, item


def is_dialogue(key: str, value: object) -> bool:
    """Return whether a list of a usual name has messages, turns, actions or events that can be read.

    Args:
        key: The name of the list, as `key_of` returns it.
        value: The list.
    """
    if key not in _LISTS or not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, list) and _is_pair(item) for item in value):
        return True
    items = [as_message(item) for item in value]
    is_known = _is_turn if key in _TURNS else _is_item
    return sum(isinstance(item, dict) and is_known(item) for item in items) * 2 > len(items)


def _is_item(value: Mapping[str, Any]) -> bool:
    return is_message(value) or (not has_pair(value) and (_is_action(value) or bool(event_role(value))))


def _is_turn(value: Mapping[str, Any]) -> bool:
    return _is_item(value) or _is_action(value) or (has_pair(value) and not outcome_in(value).source)


def _is_pair(value: Sequence[Any]) -> bool:
    return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str | None)


def as_message(value: Any) -> Any:
    """Return the message in an object whose only key is a role; other values as they are.

    Args:
        value: A JSON value.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((role, text),) = value.items()
        if isinstance(role, str) and isinstance(text, str) and role_of({"role": role}):
            return {"role": role, "content": text}
    return value


def _spoken(text: str) -> list[dict[str, str]]:
    return [{"role": step["name"], "content": step["content"]} for step in steps_of_dialogue(text)]


def steps_of_dialogue(text: str) -> list[TraceStep]:
    """Return the steps of a dialogue written as lines "User: ..." and "Assistant: ...".

    A line "User: ..." below the output of a tool, before the agent has spoken, is a part of that output.

    Args:
        text: Any text.

    Returns:
        The steps, with their line as their place; an empty list if the text is not such a dialogue.

    Example:
        >>> [step["name"] for step in steps_of_dialogue("User: 6*7?\\nAssistant: 42")]
        ['user', 'assistant']
    """
    steps: list[TraceStep] = []
    for number, line in enumerate(text.splitlines(), start=1):
        spoken = _LINE.match(line)
        name = _name_of(spoken["who"].lower()) if spoken else ""
        is_output = bool(steps) and steps[-1]["name"] == "tool" and name == "user"
        if spoken and name and not is_output:
            steps.append(trace_step("message", name, spoken["said"], str(number)))
        elif steps and line.strip():
            steps[-1]["content"] = f"{steps[-1]['content']}\n{line}".strip()
    return steps if {"user", "assistant"} <= {step["name"] for step in steps} else []


def _name_of(speaker: str) -> str:
    """Return the name of a speaker in a standard trace; empty if the word before the colon is none."""
    if speaker in _PEOPLE:
        return "user"
    if speaker in _AGENTS:
        return "assistant"
    return "tool" if speaker in _TOOLS else ""


def parsed(text: str) -> Any:
    """Return the value that a text is in JSON or Python; a text that is neither as it is."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return text


def _numbered_steps(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps in an object that has their fields with numbers, such as `thought_0` and `observation_0`."""
    steps: dict[int, dict[str, Any]] = {}
    for name, item in value.items():
        match = re.fullmatch(r"(\w+?)_?(\d+)", name)
        if match is None:
            return []
        steps.setdefault(int(match[2]), {})[match[1]] = item
    return [steps[number] for number in sorted(steps)]


def add_items(builder: RunBuilder, items: Iterable[tuple[str, Any]]) -> None:
    """Add the items of a dialogue.

    Args:
        builder: Collects the steps.
        items: The items with their places.
    """
    known = [(place, as_message(item)) for place, item in items]
    has_human_agents = _has_human_agents([item for _, item in known if isinstance(item, dict)])
    for place, item in known:
        if has_human_agents and isinstance(item, dict) and _speaker(item) in HUMAN_AGENTS:
            builder.message("person", text_of(field_in(item, _TEXTS)), place, name="agent")
        else:
            _add_item(builder, item, place)


def _add_item(builder: RunBuilder, value: Any, place: str) -> None:
    if isinstance(value, list) and _is_pair(value):
        builder.message("person", value[0], place)
        builder.message("agent", value[1] or "", place)
    elif not isinstance(value, dict):
        builder.message("harness", text_of(value), place)
    elif is_message(value):
        add_message(builder, value, place)
    elif _is_action(value):
        _add_action(builder, value, place)
    elif has_pair(value):
        fields = run_fields(value)
        builder.message("person", fields["task"], place)
        builder.message("agent", fields["answer"], place)
    elif role := event_role(value):
        inners = (value[key] for key in ("data", "payload", "body") if isinstance(value.get(key), dict))
        inner: dict[str, Any] = next(inners, {})
        add_message(builder, {**value, **inner}, place, role=role)
    else:
        builder.message("harness", text_of(value), place)


def _is_action(value: Mapping[str, Any]) -> bool:
    """Whether an object is a step with the call of a tool, and what was passed to it or what it returned."""
    names = {key_of(name) for name in value}
    return field_in(value, _ACTIONS) is not None and bool(names & {*_OBSERVATIONS, *_INPUTS})


def _add_action(builder: RunBuilder, value: Mapping[str, Any], place: str) -> None:
    """Add a step that holds a thought, a call and its result, as agents of the ReAct kind write them."""
    action = field_in(value, _ACTIONS)
    inner = action if isinstance(action, dict) else {}
    builder.thought(field_text(value, ("thought", "thoughts", "reasoning", "rationale", "log")), place)
    name = field_text(inner, ("name", "tool", "toolname", "function")) or text_of(action)
    arguments = field_in(inner, _INPUTS) or field_in(value, _INPUTS)
    builder.call(name, parsed(arguments) if isinstance(arguments, str) else arguments, place=place)
    observation, error = field_in(value, _OBSERVATIONS), field_in(value, ("error", "exception"))
    if error is not None or {key_of(key) for key in value} & set(_OBSERVATIONS):
        is_error = outcome_in(value).success is False or is_failed_output(observation)
        builder.result(error if observation is None else observation, place=place, is_error=is_error)


def _has_human_agents(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether those who answer in a help desk are people, since a bot speaks too."""
    speakers = {_speaker(message) for message in messages}
    return not speakers.isdisjoint(HUMAN_AGENTS) and not speakers.isdisjoint(_BOTS)


def _speaker(message: Mapping[str, Any]) -> str:
    for key in ("role", "from", "sender", "author", "speaker"):
        found = message.get(key)
        if isinstance(found, dict):
            found = found.get("role") or found.get("type") or found.get("name")
        if isinstance(found, str):
            return found.lower()
    return ""
