"""Finds messages and texts in the inputs and outputs of spans, which every library writes in another shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of
from ace.logs.formats.spans.cut_json import completed_json
from ace.logs.messages import add_message, is_message, role_of
from ace.logs.run import Step

__all__ = [
    "ANSWERS",
    "QUESTIONS",
    "arguments_of",
    "described",
    "messages_in",
    "nested",
    "parsed",
    "result_of",
    "steps_in",
]

QUESTIONS: Final = ("question", "query", "task", "prompt", "input", "inputs", "input_str", "user_input", "prompts")
"""The usual names of a task in the input of a span."""
ANSWERS: Final = ("answer", "output", "outputs", "result", "response", "content", "text")
"""The usual names of an answer in its output."""
_HOLDERS: Final = ("messages", "choices", "generations", "message", "output", "input", "contents", "kwargs")
_ARGUMENTS: Final = ("inputs", "input", "kwargs", "args", "input_str")
_AROUND_ARGUMENTS: Final = frozenset({*_ARGUMENTS, "tags", "metadata"})
_WRAPPERS: Final = ("message", "tool_call", "message_content", "__lc_escaped__")
_SPOKEN: Final = frozenset({"content", "parts", "tool_calls", "text"})
_GENERATIONS: Final = (None, "Generation", "ChatGeneration")
"""The types of answers that are not messages."""
_DEEPEST: Final = 20


def parsed(value: object) -> Any:
    """Return the JSON value in a text; anything else unchanged."""
    document = completed_json(value)[0] if isinstance(value, str) else None
    return value if document is None else document


def steps_in(value: object, role: str) -> tuple[Step, ...]:
    """Return the steps of the messages in an input or output; empty if it has none. System prompts are skipped.

    Args:
        value: Messages of any dialect in any of the usual shapes.
        role: The role of messages without one.
    """
    builder = RunBuilder()
    for message in messages_in(value, role):
        if role_of(message) != "system":
            add_message(builder, message)
    return tuple(builder.steps)


def messages_in(value: object, role: str, depth: int = 0) -> list[dict[str, Any]]:
    """Return the messages in an input or output, in a shape that `ace.logs.messages` knows.

    Args:
        value: A message, a list of messages or of pairs such as `["user", "2+2?"]`, or an object that has them in one
            of the usual fields.
        role: The role of messages without one.
        depth: How deep the value is in the whole input.
    """
    if depth > _DEEPEST:
        return []
    value = parsed(value)
    if isinstance(value, list):
        if _is_pair(value):
            return [{"role": value[0], "content": value[1]}]
        items = (item for item in value if not isinstance(item, str))
        return [message for item in items for message in messages_in(item, role, depth + 1)]
    if not isinstance(value, dict):
        return []
    fields = _plain(value)
    if is_message(fields):
        return [fields]
    if _SPOKEN & fields.keys() and "role" not in fields and fields.get("type") in _GENERATIONS:
        return [{"role": role, **fields}]
    return next(filter(None, (messages_in(fields.get(name), role, depth + 1) for name in _HOLDERS)), [])


def _is_pair(value: Sequence[object]) -> bool:
    return len(value) == 2 and all(isinstance(item, str) for item in value) and bool(role_of({"role": value[0]}))


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what libraries put around it and its parts."""
    fields: dict[str, Any] = nested(value)
    if isinstance(fields.get("kwargs"), dict) and "lc" in fields:  # how LangChain dumps its objects
        names = fields.get("id")
        kind = text_of(names[-1]).lower() if isinstance(names, list) and names else ""
        fields = {"type": kind.removesuffix("chunk"), **fields["kwargs"]}
    for name in _WRAPPERS:
        if isinstance(fields.get(name), dict) and "role" not in fields:
            return _plain(fields[name])
    if "contents" in fields and {"role", "content"} - fields.keys() == {"content"}:
        fields["content"] = fields.pop("contents")
    content = nested(parsed(fields.get("content")))
    if isinstance(content, list) and all(isinstance(item, dict) for item in content):
        are_blocks = all({"type", "message_content"} & item.keys() for item in content)
        fields["content"] = [_plain(item) for item in content] if are_blocks else fields["content"]
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        fields["tool_calls"] = [_plain(call) for call in calls if isinstance(call, dict)]
    return fields


def nested(value: object) -> Any:
    """Return objects whose names are paths, such as `message.role`, as nested objects, and numbered ones as lists."""
    if isinstance(value, list):
        return [nested(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not any("." in name or name.isdecimal() for name in value if isinstance(name, str)):
        return dict(value)
    tree: dict[str, Any] = {}
    for name, item in value.items():
        *path, last = str(name).split(".")
        here = tree
        for key in path:
            below = here.setdefault(key, {})
            if not isinstance(below, dict):  # a text where others have an object
                below = here[key] = {}
            here = below
        here[last] = nested(item) if isinstance(item, list) else item
    return _with_lists(tree)


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() for name in tree):
        return [_with_lists(tree[name]) for name in sorted(tree, key=int)]
    return {name: _with_lists(child) for name, child in tree.items()}


def described(value: object, names: Sequence[str]) -> str:
    """Return the text that an input or output means: that of a usual field, the only text in it, or all of it as JSON.

    Args:
        value: The input or output.
        names: The usual names of fields.

    Example:
        >>> described({"args": ["2+2?"], "kwargs": {}}, QUESTIONS), described({"sum": "4", "unit": 1}, ANSWERS)
        ('2+2?', '4')
    """
    return text_of(_meant(value, names))


def _meant(value: object, names: Sequence[str], depth: int = 0) -> object:
    if depth > _DEEPEST:
        return value
    if isinstance(value, list) and len(value) == 1:
        return _meant(value[0], names, depth + 1)
    if not isinstance(value, dict):
        return value
    found = next((value[name] for name in names if value.get(name) not in (None, "", [], {})), None)
    if found is None:
        found = value.get("args") or value.get("kwargs") or None  # of a decorated function
    texts = [item for name, item in value.items() if isinstance(item, str) and item and name != "type"]
    if found is None and len(texts) == 1:
        found = texts[0]
    return value if found is None else _meant(found, names, depth + 1)


def arguments_of(value: object) -> object:
    """Return the arguments of a tool without what libraries put around them.

    Args:
        value: The input of the tool's span.

    Example:
        >>> arguments_of({"args": [], "kwargs": {"a": 2}}), arguments_of({"input": "{'a': 2}"})
        ({'a': 2}, {'a': 2})
    """
    value = parsed(value)
    if isinstance(value, dict) and value.keys() <= _AROUND_ARGUMENTS:
        inner = next((value[name] for name in _ARGUMENTS if value.get(name) not in (None, "", [], {})), None)
        return value if inner is None else arguments_of(inner)
    return value


def result_of(value: object) -> object:
    """Return the result of a tool, which may be in a message or alone in an object."""
    value = parsed(value)
    if isinstance(value, dict):
        results = [step for step in _results(value) if step.kind == "result"]
        if results:
            return results[-1].content
        if set(value) == {"output"}:
            return result_of(value["output"])
    if isinstance(value, list) and value and all(isinstance(block, dict) and "text" in block for block in value):
        return "\n".join(text_of(block["text"]) for block in value)
    return value


def _results(value: Mapping[str, Any]) -> Iterator[Step]:
    fields = _plain(value)
    if is_message(fields) and role_of(fields) == "tool":
        yield from steps_in(value, "tool")
