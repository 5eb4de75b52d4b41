"""Adds the skills to the input of a runnable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace_langchain.framework import load
from ace_langchain.inputs import SKILL_FIELDS, TEXT_FIELDS, holds_messages, messages_of
from ace_langchain.kinds import may_add_system_message, prompt_variables, state_fields
from ace_langchain.messages import PLAIN_CONTENT

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["at_model", "cleaned", "restored", "with_skills"]


def with_skills(
    runnable: object, value: object, skills: str, input_key: str | None = None, stored: Sequence[BaseMessage] = ()
) -> object:
    """Return a copy of an input with the skills added.

    In a prompt with a variable named `skillbook` or `skills`, or a graph with a field of that name, the skills become
    its value. Otherwise they are added before a text, before the text in a dict, or to the system message of messages.
    A new system message is added only if the runnable cannot have its own; otherwise the skills are added before the
    text of the user's message.

    Args:
        runnable: The runnable that will get the input.
        value: The input, in the format of the runnable.
        skills: The skills as text; may be empty.
        input_key: The field of a dict to which they are added, if it is not evident.
        stored: The messages of the thread that the run continues.

    Raises:
        ValueError: It is not evident where to add the skills. This is also raised without skills, so that it does not
            first occur in a later run.

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
        return _into_fields(runnable, value, skills, input_key, stored)
    if holds_messages(value):
        return _into_messages(runnable, value, skills, stored)
    raise _no_place(f"a {type(value).__name__}")


def _into_fields(
    runnable: object, value: Mapping[Any, Any], skills: str, input_key: str | None, stored: Sequence[BaseMessage]
) -> dict[Any, Any]:
    named = {*value, *prompt_variables(runnable), *(state_fields(runnable) or ())}
    slots = [name for name in SKILL_FIELDS if name in named]
    if slots:
        return {**value, slots[0]: skills}
    name = input_key if input_key is not None else _place(value)
    if name is None or name not in value:
        raise _no_place(f"a dict with {', '.join(map(repr, value)) or 'no fields'}")
    held = value[name]
    if isinstance(held, str) and name != "messages":
        return {**value, name: _before(skills, held)}
    return {**value, name: _into_messages(runnable, held, skills, stored)}


def _place(value: Mapping[Any, Any]) -> str | None:
    """Return the field to which the skills are added, if it is evident."""
    if "messages" in value:
        return "messages"
    named = [name for name in TEXT_FIELDS if isinstance(value.get(name), str)]
    if named:
        return named[0]
    texts = [name for name, held in value.items() if isinstance(held, str)]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def _before(skills: str, text: str) -> str:
    return f"{skills}\n\n# Task\n\n{text}" if skills else text


def _into_messages(runnable: object, value: object, skills: str, stored: Sequence[BaseMessage]) -> object:
    """Add the skills to the system message, or to the user's message if there might be two system messages otherwise.

    Many models only support one system message, and only as the first message. Messages of a checkpointed thread keep
    their ids, and a graph replaces messages with the same id, so there is only one copy of the skills in the thread.
    """
    thread = [restored(message) for message in stored]
    changed = [message for message, before in zip(thread, stored, strict=True) if message is not before]
    if not skills and not changed:
        return value
    classes = load("langchain_core.messages", needed_by="ace-langchain")
    messages: list[BaseMessage] = [restored(message) for message in messages_of(value)]
    if not skills:
        return [*changed, *messages]
    if thread and isinstance(thread[0], classes.SystemMessage):
        merged = _merged(thread[0], skills, is_before=False)
        return [merged, *(message for message in changed if message.id != merged.id), *messages]
    if not thread and messages and isinstance(messages[0], classes.SystemMessage):
        return [_merged(messages[0], skills, is_before=False), *messages[1:]]
    if not thread and may_add_system_message(runnable):
        return [classes.SystemMessage(content=skills), *messages]
    spoken = [place for place, message in enumerate(messages) if isinstance(message, classes.HumanMessage)]
    if not spoken:
        return [*changed, classes.HumanMessage(content=skills, additional_kwargs={PLAIN_CONTENT: ""}), *messages]
    messages[spoken[-1]] = _merged(messages[spoken[-1]], skills, is_before=True)
    return [*changed, *messages]


def _merged(message: BaseMessage, skills: str, *, is_before: bool) -> BaseMessage:
    """Return a message with the skills, which keeps its original content."""
    content = message.content
    joined: str | list[Any]
    if isinstance(content, str):
        joined = _before(skills, content) if is_before else f"{content}\n\n{skills}"
    else:
        block = {"type": "text", "text": f"{skills}\n\n# Task" if is_before else skills}
        joined = [block, *content] if is_before else [*content, block]
    remembered = {**message.additional_kwargs, PLAIN_CONTENT: content}
    return message.model_copy(update={"content": joined, "additional_kwargs": remembered})


def at_model(value: object, skills: str) -> object:
    """Return the input of a model with the skills in its system message, or in a new one.

    Args:
        value: The input of a model: a text, a prompt value or messages.
        skills: The skills as text.
    """
    if not skills:
        return value
    if isinstance(value, str):
        return _before(skills, value)
    system_message = load("langchain_core.messages", needed_by="ace-langchain").SystemMessage
    messages = messages_of(value)
    if messages and isinstance(messages[0], system_message):
        return [_merged(messages[0], skills, is_before=False), *messages[1:]]
    return [system_message(content=skills), *messages]


def cleaned(message: BaseMessage, skills: str) -> BaseMessage:
    """Return a message without the skills that were added to an input.

    Args:
        message: A message that is about to be stored.
        skills: The skills as text.
    """
    plain = restored(message)
    if skills and isinstance(plain.content, str) and plain.content.startswith(_before(skills, "")):
        return plain.model_copy(update={"content": plain.content.removeprefix(_before(skills, ""))})
    return plain


def restored(message: BaseMessage) -> BaseMessage:
    """Return a message as it was before skills were added to it, with its id."""
    if PLAIN_CONTENT not in message.additional_kwargs:
        return message
    kept = {name: value for name, value in message.additional_kwargs.items() if name != PLAIN_CONTENT}
    return message.model_copy(update={"content": message.additional_kwargs[PLAIN_CONTENT], "additional_kwargs": kept})


def _no_place(what: str) -> ValueError:
    return ValueError(
        f"no place for the skills in {what}; name the field that takes them with input_key, give the prompt "
        f"a variable {SKILL_FIELDS[0]!r}, or say how with inject=lambda value, skills: ..."
    )
