"""Reads what an agent wrote as text, in which thoughts, calls of tools and the answer may be marked."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from ace.logs.building import RunBuilder, text_of

__all__ = ["add_agent_text"]

_THINKING: Final = re.compile(r"<(think|thinking|thought)>(.*?)</\1>", re.DOTALL)
_FINAL: Final = re.compile(r"^Final Answer:[ \t]*(?P<answer>.+)\Z", re.DOTALL | re.MULTILINE)
_REACT: Final = tuple(
    (mark, re.compile(pattern, re.DOTALL | re.MULTILINE))
    for mark, pattern in (
        ("Action Input:", r"^Action:[ \t]*(?P<name>[^\n]+?)\s*^Action Input:[ \t]*(?P<input>.*)\Z"),
        ("]", r"^Action(?: \d+)?:[ \t]*(?P<name>[\w.-]+)\[(?P<input>.*)\]\Z"),
        ("```", r"^Action:\s*```(?:json)?\s*(?P<input>\{.*\})\s*```\Z"),
    )
)
"""The ways in which agents of the ReAct kind write a call: with a line for its input, in brackets, and as JSON."""
_LAST_TAG: Final = re.compile(r"</([A-Za-z][\w.-]*)>\Z")
_CALL_TAGS: Final = re.compile(r"(?:tool|invoke|action|execute|call|command|bash|shell|python|search)\b|\w+[_.]\w+")
"""Tags that are calls: words for it, and names of tools, which have several words.

Structure cannot tell `<search>` from `<email>`. Of ten uses of each word in public programs, this many were executed:
`bash`, `tool` and `invoke` 10, `search` and `execute` 9, `shell` and `action` 8, `python` 7, `command` and `call` 5,
whose other uses were not in texts of agents. A tag with another single word is a call if it only has children: 17 of 19
uses of `<read><path>` and `<edit><path>` were.
"""
_ANSWER_TAGS: Final = re.compile(
    r"(?:final_?)?(?:answer|response|result|output|solution|reply)|attempt_completion", re.IGNORECASE
)
"""Tags around an answer."""
_CHILDREN: Final = re.compile(r"<[A-Za-z]\w*>.*</[A-Za-z]\w*>", re.DOTALL)
_LONGEST_TAG: Final = 200
_MARKUP: Final = re.compile(
    "a|b|i|u|p|em|ol|ul|li|div|pre|code|span|table|html|body|svg|details|strong|section", re.IGNORECASE
)
"""Elements of HTML, which may have children and are not calls."""


class _Call(NamedTuple):
    """A call that is written in a text, from `start` on."""

    start: int
    name: str
    input: str


def add_agent_text(builder: RunBuilder, text: str, place: str) -> None:
    """Add the thoughts, the calls and the message in a text of the agent.

    Args:
        builder: Collects the steps.
        place: Its position in the log.
    """
    if "</th" in text:
        for thought in _THINKING.finditer(text):
            builder.thought(thought.group(2), place)
        text = _THINKING.sub("", text)
    text = text.strip()
    final = _FINAL.search(text) if "Final Answer:" in text else None
    if final is not None:
        _add_thought(builder, text[: final.start()], place)
        builder.message("agent", final["answer"], place)
        return
    call = _react_call(text) or _tagged_call(text)
    if call is None:
        builder.message("agent", text, place)
        return
    _add_thought(builder, text[: call.start], place)
    parts = re.split(rf"</?{re.escape(call.name)}>", call.input) if call.name else [call.input]
    named = [value for part in parts if (value := _json_call(part)) is not None]
    for name, arguments, identity in named or [(call.name, call.input, "")]:
        builder.call(name, arguments, identity, place)
    builder.has_open_text_call = True


def _add_thought(builder: RunBuilder, text: str, place: str) -> None:
    builder.thought(re.sub(r"\AThought(?: \d+)?:\s*", "", text.strip()), place)


def _react_call(text: str) -> _Call | None:
    """Return the call with which a text of the ReAct kind ends."""
    for mark, pattern in _REACT:
        found = pattern.search(text) if "Action" in text and mark in text else None
        if found is not None:
            return _Call(found.start(), (found.groupdict().get("name") or "").strip(), found["input"].strip())
    return None


def _tagged_call(text: str) -> _Call | None:
    """Return the call in the element with which a text ends, unless it is an answer or markup."""
    end = _LAST_TAG.search(text[-_LONGEST_TAG:])
    start = text.find(f"<{end[1]}>") if end else -1
    if end is None or start < 0 or _MARKUP.fullmatch(end[1]) or _ANSWER_TAGS.fullmatch(end[1]):
        return None
    inner = text[start + len(end[1]) + 2 : -len(end[0])].strip()
    return _Call(start, end[1], inner) if _CALL_TAGS.match(end[1]) or _CHILDREN.fullmatch(inner) else None


def _json_call(text: str) -> tuple[str, Any, str] | None:
    """Return the name, the arguments and the id of a call that is written as JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    name = next((value[key] for key in ("name", "action", "tool", "function") if isinstance(value.get(key), str)), None)
    keys = ("arguments", "args", "parameters", "action_input", "input")
    arguments: Any = next((value[key] for key in keys if key in value), {})
    return None if name is None else (name, arguments, text_of(value.get("id")))
