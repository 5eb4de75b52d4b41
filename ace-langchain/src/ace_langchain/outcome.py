"""Determines the outcome of a run from the return value of the runnable: the answer, or the problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ace_langchain.kinds import Kind
from ace_langchain.messages import PlainMessage, is_message, plain_message, text_of
from ace_langchain.result import ResultType

__all__ = ["Outcome", "failed", "is_wrong_use", "outcome_of", "problem_of"]

_GAVE_UP = (
    "Agent stopped due to max iterations.",
    "Agent stopped due to iteration limit or time limit.",
    "Sorry, need more steps to process this request.",
    "Model call limits exceeded: ",
    "Tool call limit reached: ",
)
"""The answers of LangChain's own agents and limits that report a failure."""

_WRONG_USE = (
    "is missing variables {",
    "The input to RunnablePassthrough.assign() must be a dict",
    "Expected mapping type as input to ",
)
"""The errors of the parts of a chain that are wired incorrectly."""

_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS")
_REFUSED = ("content_filter", "refusal", "SAFETY")


class Outcome(NamedTuple):
    """The outcome of a run."""

    result_type: ResultType
    """The kind of the runnable; `error` if it raised."""
    output: str
    """The answer as text."""
    problem: str | None
    """Why the output is not an answer; None if it is one."""
    messages: tuple[PlainMessage, ...]
    """The conversation, if the runnable returned it."""
    returned: object = None
    """The unchanged return value."""
    interrupts: tuple[object, ...] = ()
    """The questions of an interrupted graph."""

    @property
    def waits_for(self) -> str:
        """The questions of an interrupted graph, as text."""
        return ", ".join(map(text_of, self.interrupts))


def outcome_of(returned: object, kind: Kind, input_value: object = None, output_key: str | None = None) -> Outcome:
    """Determine the outcome of a run.

    Args:
        returned: The return value of the runnable.
        kind: The kind of the runnable.
        input_value: Its input. A state that is returned unchanged is not an answer.
        output_key: The field of a dict that contains the answer, if it is not evident.

    Example:
        >>> outcome_of({"input": "2+2?", "output": "Agent stopped due to max iterations."}, "agent").problem
        'it gave up: Agent stopped due to max iterations.'
    """
    raw = returned
    interrupts = getattr(returned, "interrupts", ())
    if type(returned).__name__ == "GraphOutput":
        returned = getattr(returned, "value", None)
    if isinstance(returned, Mapping) and "__interrupt__" in returned:
        interrupts = returned["__interrupt__"]
        returned = {name: value for name, value in returned.items() if name != "__interrupt__"}
    messages = _messages(returned)
    answer = _answer(returned, kind, input_value, output_key)
    output = _answer_text(answer)
    if interrupts:
        asked = tuple(getattr(interrupt, "value", interrupt) for interrupt in interrupts)
        return Outcome(kind, "", None, messages, raw, asked)
    return Outcome(kind, output, _problem(returned, answer, output), messages, raw)


def failed(error: Exception) -> Outcome:
    """Return the outcome of a run that raised an error.

    Example:
        >>> failed(ValueError("no such city")).problem
        'ValueError: no such city'
    """
    # LangGraph adds a note with the name and a random id of the node; the recorder knows the place more precisely.
    notes = "; ".join(note for note in getattr(error, "__notes__", ()) if not note.startswith("During task with name"))
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return Outcome("error", "", f"{text} ({notes})" if notes else text, ())


def is_wrong_use(error: Exception) -> bool:
    """Return whether an error means that the input does not fit a chain, from which nothing can be learned.

    Example:
        >>> is_wrong_use(KeyError("Input to ChatPromptTemplate is missing variables {'style'}."))
        True
    """
    return isinstance(error, KeyError | ValueError | TypeError) and any(sign in str(error) for sign in _WRONG_USE)


def problem_of(answer: PlainMessage) -> str | None:
    """Return why the message of a model is not an answer, such as a refusal; None if it is one."""
    if answer["stop_reason"] in _CUT_OFF:
        return "the answer was cut off at the longest that the model may write"
    if answer["stop_reason"] in _REFUSED:
        return f"the model refused to answer: {answer['stop_reason']}"
    return None


def _messages(returned: object) -> tuple[PlainMessage, ...]:
    messages = _field(returned, "messages")
    if not isinstance(messages, list):
        messages = [returned] if is_message(returned) else []
    return tuple(plain_message(message) for message in messages if is_message(message))


def _answer(returned: object, kind: Kind, input_value: object, output_key: str | None) -> object:
    """Return the part of the return value that is the answer."""
    if output_key is not None:
        if _field(returned, output_key) is None:
            raise ValueError(f"the runnable returned no {output_key!r}, which output_key names")
        return _field(returned, output_key)
    if _is_parsing(returned):
        return _field(returned, "parsed") or _field(returned, "raw")
    structured = _field(returned, "structured_response")
    if structured is not None:
        return structured
    messages = _field(returned, "messages")
    if kind == "langgraph" and isinstance(messages, list) and messages:
        return messages[-1]
    if kind == "agent" and isinstance(returned, Mapping) and "output" in returned:
        return returned["output"]
    if isinstance(returned, Mapping) and isinstance(input_value, Mapping):
        new = {name: value for name, value in returned.items() if not _same(input_value.get(name, _NOTHING), value)}
        echoes = len(new) < len(returned)
        return next(iter(new.values())) if echoes and len(new) == 1 else new or None
    return returned


def _answer_text(answer: object) -> str:
    if is_message(answer):
        message = plain_message(answer)
        return message["content"] or (text_of(message["tool_calls"]) if message["tool_calls"] else "")
    return text_of(answer)


def _problem(returned: object, answer: object, output: str) -> str | None:
    if _is_parsing(returned) and _field(returned, "parsing_error") is not None:
        error = _field(returned, "parsing_error")
        return f"the answer could not be parsed: {type(error).__name__}: {error}"
    if is_message(answer):
        message = plain_message(answer)
        if message["type"] != "ai":
            return f"it ended on a message of type {message['type']!r}, without an answer"
        if not output:
            return problem_of(message) or "the answer is empty"
    if output.startswith(_GAVE_UP):
        return f"it gave up: {output}"
    return None


def _is_parsing(returned: object) -> bool:
    """Return whether this is a return value of `with_structured_output(..., include_raw=True)`."""
    return isinstance(returned, Mapping) and set(returned) == {"raw", "parsed", "parsing_error"}


def _field(value: object, name: str) -> object:
    """Return a field of a state, which may be a dict or an object."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


_NOTHING = object()


def _same(first: object, second: object) -> bool:
    # Other values may not compare to a truth value, such as arrays; a state that is handed on is the same object.
    return first is second or (
        isinstance(second, str | int | float) and type(first) is type(second) and first == second
    )
