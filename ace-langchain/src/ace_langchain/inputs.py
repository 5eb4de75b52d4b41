"""Converts an input to the format of a runnable, and finds the task in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.context import ACESample
from ace_langchain.framework import load
from ace_langchain.kinds import kind_of, prompt_variables, state_fields
from ace_langchain.messages import PlainMessage, plain_message, text_of

__all__ = [
    "SKILL_FIELDS",
    "TEXT_FIELDS",
    "conversation_before",
    "holds_messages",
    "is_resuming",
    "messages_of",
    "shaped",
    "task_of",
]

TEXT_FIELDS = ("input", "question", "query", "task", "prompt", "user_input")
"""The usual names of the field with the task."""

SKILL_FIELDS = ("skillbook", "skills")
"""The names of a prompt variable for the skills."""


def shaped(runnable: object, item: object, input_key: str | None = None) -> object:
    """Convert an input to the format of a runnable.

    With other formats, graphs and agents fail, or silently run with an empty conversation.

    Args:
        runnable: The runnable that will get the input.
        item: A text, a dict, messages, a sample, or any other input of the runnable.
        input_key: The field for a text, if it is not evident.

    Raises:
        ValueError: It is not evident how the runnable would interpret the input.
    """
    if isinstance(item, ACESample):
        item = _of_sample(runnable, item)
    kind = kind_of(runnable)
    if isinstance(item, str) and input_key is not None:
        item = {input_key: item}
    if kind == "agent":
        return {"input": item} if isinstance(item, str) else item
    if kind == "langgraph":
        fields = state_fields(runnable)
        return item if fields is None else _state(item, fields)
    return _for_prompt(item, prompt_variables(runnable))


def task_of(value: object, input_key: str | None = None) -> str:
    """Return the task in an input.

    Args:
        value: The converted input.
        input_key: The field that contains the task, if it is not evident.

    Example:
        >>> task_of({"question": "2+2?", "style": "short"})
        '2+2?'
    """
    if isinstance(value, Mapping):
        if input_key is not None and input_key in value:
            return task_of(value[input_key])
        if "messages" in value:
            return task_of(value["messages"])
        named = [value[name] for name in TEXT_FIELDS if isinstance(value.get(name), str)]
        texts = named or [text for text in value.values() if isinstance(text, str)]
        return texts[0] if named or len(texts) == 1 else text_of(value)
    if holds_messages(value):
        asked = [message["content"] for message in _plain(value) if message["type"] == "human"]
        return asked[-1] if asked else ""
    return text_of(value)


def conversation_before(value: object) -> str:
    """Return the messages before the task, as lines of text.

    Args:
        value: The converted input.
    """
    found = value.get("messages") if isinstance(value, Mapping) else value
    if not holds_messages(found):
        return ""
    messages = _plain(found)
    last = max((place for place, message in enumerate(messages) if message["type"] == "human"), default=0)
    return "\n".join(
        f"{message['type']}: {message['content']}" for message in messages[:last] if message["type"] != "system"
    )


def holds_messages(value: object) -> bool:
    """Return whether a value is a message, or a list of possible messages."""
    return isinstance(value, list) or hasattr(value, "to_messages") or hasattr(value, "content")


def messages_of(value: object) -> list[Any]:
    """Convert a value to messages of the framework.

    Args:
        value: A text, a prompt value, a message, or a list of messages, pairs and dicts.
    """
    to_messages = getattr(value, "to_messages", None)
    if callable(to_messages):
        return list(to_messages())
    if isinstance(value, str):
        value = [("user", value)]
    items = value if isinstance(value, Sequence) else [value]
    convert = load("langchain_core.messages", needed_by="ace-langchain").convert_to_messages
    return list(convert(list(items)))


def is_resuming(value: object) -> bool:
    """Return whether an input is a `Command` that resumes an interrupted graph."""
    return type(value).__name__ == "Command" and getattr(value, "resume", None) is not None


def _plain(value: object) -> list[PlainMessage]:
    return [plain_message(message) for message in messages_of(value)]


def _of_sample(runnable: object, sample: ACESample) -> object:
    names = [name for name in prompt_variables(runnable) if name not in SKILL_FIELDS]
    if "context" in names and len(names) == 2:
        names.remove("context")
        return {names[0]: sample.question, "context": sample.context}
    return f"{sample.question}\n\n{sample.context}" if sample.context else sample.question


def _for_prompt(item: object, variables: Sequence[str]) -> object:
    """Check the input of a chain that begins with a prompt."""
    needed = [name for name in variables if name not in SKILL_FIELDS]
    if not variables or not isinstance(item, str | Mapping):
        return item
    if isinstance(item, str):
        if len(needed) != 1:
            raise ValueError(
                f"the prompt of this chain has the variables {', '.join(needed) or 'none'}; "
                f"give a dict with them instead of a text"
            )
        return {needed[0]: [("user", item)] if needed[0] == "messages" else item}
    missing = [name for name in needed if name not in item]
    if missing:
        raise ValueError(
            f"the input lacks {', '.join(map(repr, missing))}, which the prompt of this chain needs; "
            f"it has {', '.join(map(repr, item)) or 'nothing'}"
        )
    return item


def _state(item: object, fields: frozenset[str]) -> object:
    """Create the state of a graph from an input."""
    known = ", ".join(sorted(fields))
    if isinstance(item, Mapping):
        if set(item) & fields:
            return item
        texts = [item[name] for name in TEXT_FIELDS if isinstance(item.get(name), str)]
        if "messages" in fields and texts:
            return {"messages": [("user", texts[0])]}
        raise ValueError(f"none of {', '.join(map(repr, item)) or 'no fields'} is in the state of this graph: {known}")
    if isinstance(item, str) or holds_messages(item):
        if "messages" not in fields:
            raise ValueError(
                f"the state of this graph has no 'messages' ({known}); give a dict, or name the field that takes a "
                f"text with input_key"
            )
        return {"messages": messages_of(item)}
    return item  # a Command, a state object
