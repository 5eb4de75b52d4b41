"""Puts the skills into the input of a runnable, where it has a place for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ace_langchain.framework import load
from ace_langchain.inputs import SKILL_FIELDS, TEXT_FIELDS, holds_messages, messages_of
from ace_langchain.kinds import prompt_variables

__all__ = ["with_skills"]


def with_skills(runnable: object, value: object, skills: str, input_key: str | None = None) -> object:
    """Return an input with the skills in it. The given one is not changed.

    A prompt with a variable named `skillbook` or `skills` gets them there. Otherwise a text gets them in front, a
    dict in front of its text, and messages in the system message.

    Args:
        runnable: What will take the input.
        value: The input, in the shape that the runnable takes.
        skills: The skills as text; may be empty.
        input_key: The field of a dict that takes them, where it cannot be told.

    Raises:
        ValueError: There is no place for them. It is raised for no skills too: a first run without any shall not
            hide that later ones would come without what was learned.

    Example:
        >>> print(with_skills(None, {"question": "2+2?"}, "[maths-00001] Add.")["question"])
        [maths-00001] Add.
        <BLANKLINE>
        # Task
        <BLANKLINE>
        2+2?
    """
    if isinstance(value, str):
        return _before(skills, value)
    if isinstance(value, Mapping):
        return _into_fields(runnable, value, skills, input_key)
    if holds_messages(value):
        return _into_messages(value, skills)
    raise _no_place(f"a {type(value).__name__}")


def _into_fields(runnable: object, value: Mapping[Any, Any], skills: str, input_key: str | None) -> dict[Any, Any]:
    slots = [name for name in SKILL_FIELDS if name in value or name in prompt_variables(runnable)]
    if slots:
        return {**value, slots[0]: skills}
    name = input_key if input_key is not None else _place(value)
    if name is None or name not in value:
        raise _no_place(f"a dict with {', '.join(map(repr, value)) or 'no fields'}")
    held = value[name]
    if isinstance(held, str) and name != "messages":
        return {**value, name: _before(skills, held)}
    return {**value, name: _into_messages(held, skills)}


def _place(value: Mapping[Any, Any]) -> str | None:
    """Return the field that takes the skills, if there is one that can be told."""
    if "messages" in value:
        return "messages"
    named = [name for name in TEXT_FIELDS if isinstance(value.get(name), str)]
    if named:
        return named[0]
    texts = [name for name, held in value.items() if isinstance(held, str)]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def _before(skills: str, text: str) -> str:
    return f"{skills}\n\n# Task\n\n{text}" if skills else text


def _into_messages(value: object, skills: str) -> object:
    """Some models take one system message only, and only as the first."""
    if not skills:
        return value
    system_message = load("langchain_core.messages", needed_by="ace-langchain").SystemMessage
    messages = messages_of(value)
    if not messages or not isinstance(messages[0], system_message):
        return [system_message(content=skills), *messages]
    first = messages[0]
    content = first.content
    joined = f"{content}\n\n{skills}" if isinstance(content, str) else [*content, {"type": "text", "text": skills}]
    return [first.model_copy(update={"content": joined}), *messages[1:]]


def _no_place(what: str) -> ValueError:
    return ValueError(
        f"there is no place for the skills in {what}; name the field that takes them with input_key, give the prompt "
        f"a variable {SKILL_FIELDS[0]!r}, or say how with inject=lambda value, skills: ..."
    )
