"""The conversation of a reflection: sends it to the model, shortens it, and records the answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ace._internal.arguments import with_method
from ace.calls.calling import BLOCKING, call_client_with_messages, finished
from ace.calls.model_calls import (
    call_scope,
    current_call_scope,
    note_response,
    recorded_response,
    redactor_for,
    response_to_record,
)
from ace.calls.secrets import known_secrets
from ace.protocols.errors import LLMCallError, encodable
from ace.protocols.llm import LLMResponse
from ace.redaction import Redactor

__all__ = ["Message", "Turn", "ask_model", "check_client", "cut_middle", "fitted_messages"]

Message = Mapping[str, str]
"""A chat message, with `role` and `content`."""

_SHORTEST_CUT = 500
"""Texts are not truncated below this length, in characters."""
_CERTAIN_TURNS = 2
"""The number of last turns that are only removed if no others are left."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier turn of the conversation."""

    iteration: int
    """The number of the turn, from 1."""
    messages: tuple[Message, ...]
    """The answer of the model, and the reply to it."""
    is_important: bool = False
    """Whether it has an error, a finding or a `FINAL`; such turns are removed last."""


def check_client(name: str, llm: object) -> None:
    """Check that a client can be sent a conversation.

    Args:
        name: The name of the argument.
        llm: The client.

    Raises:
        TypeError: It has neither `complete_messages` nor `complete`.
    """
    if not hasattr(llm, "complete_messages"):
        with_method(name, llm, "complete", advice="give a client, such as LiteLLMClient(model)")


def ask_model(
    llm: object, messages: Sequence[Message], settings: Mapping[str, Any], *, kind: str, role: str = "Reflector"
) -> LLMResponse:
    """Send a conversation, or replay the recorded answer of the run.

    Both the prompt and the answer are redacted, so that a resumed run rebuilds the same conversation from the record.

    Args:
        llm: A client with `complete_messages` or `complete`.
        messages: The conversation.
        settings: Settings for this call.
        kind: The kind of request; see `RecordedAnswers.next`.
        role: The role that makes the request, for error messages.

    Raises:
        LLMCallError: The model could not be reached.
    """
    redactor = redactor_for(llm)
    sent = [{**message, "content": _redacted(redactor, message["content"])} for message in messages]
    scope = current_call_scope()
    answers = scope.answers
    if answers is None:
        return _new_answer(llm, sent, settings, redactor, role)
    model = str(settings.get("model") or getattr(llm, "model", type(llm).__name__))
    kind = json.dumps([kind, model, dict(settings)], sort_keys=True, default=str)
    request = json.dumps([kind, sent])
    known = answers.next(request, kind)
    if known is not None:
        response = recorded_response(known)
        note_response(model, response, 0.0, sent, recorded=True)
        return response
    # Recorded here rather than by the client, so that this works with every client, and each answer is recorded once.
    with call_scope(replace(scope, answers=None)):
        response = _new_answer(llm, sent, settings, redactor, role)
    kept = answers.keep(request, response_to_record(response, known_secrets(llm)), kind)
    return replace(recorded_response(kept), usage=response.usage)


def _new_answer(
    llm: object, sent: Sequence[Message], settings: Mapping[str, Any], redactor: Redactor, role: str
) -> LLMResponse:
    try:
        response = finished(call_client_with_messages(BLOCKING, llm, sent, settings))
    except LLMCallError as error:
        error.role = error.role or role
        raise
    return replace(response, text=_redacted(redactor, encodable(response.text)))


# Each turn sends the same conversation again, with a few more messages.
@functools.lru_cache(maxsize=256)
def _redacted(redactor: Redactor, text: str) -> str:
    return redactor.redact(text)


def fitted_messages(head: Sequence[Message], turns: Sequence[Turn], limit: int) -> tuple[Message, ...]:
    """Return the conversation, shortened to a number of characters.

    The head and the last turns are kept. Of the others, unimportant ones are removed first, starting with the oldest. A
    line at the end of the head lists the removed turns. If that is not enough, the longest texts of the turns are
    truncated in the middle.

    Args:
        head: The first messages.
        turns: The turns, oldest first.
        limit: The maximum number of characters.

    Example:
        >>> head = [{"role": "user", "content": "Begin."}]
        >>> turns = [Turn(n, ({"role": "assistant", "content": "x" * 400},), n == 1) for n in range(1, 6)]
        >>> messages = fitted_messages(head, turns, 1400)
        >>> len(messages), messages[0]["content"].splitlines()[-1]
        (4, '[Turns 2 and 3 were removed from this conversation. The variables of the session are still there.]')
    """
    kept = list(turns)
    removed: list[int] = []
    while _length(_joined(head, kept, removed)) > limit and (turn := _next_to_remove(kept)) is not None:
        kept.remove(turn)
        removed.append(turn.iteration)
    messages = _joined(head, kept, removed)
    start = len(head)
    return (*messages[:start], *_cut_to(messages[start:], limit - _length(messages[:start])))


def _next_to_remove(kept: Sequence[Turn]) -> Turn | None:
    older = kept[:-_CERTAIN_TURNS]
    candidates = [*(turn for turn in older if not turn.is_important), *older, *kept[:-1]]
    return candidates[0] if candidates else None


def _joined(head: Sequence[Message], kept: Sequence[Turn], removed: Sequence[int]) -> list[Message]:
    messages = list(head)
    if removed:
        last = messages[-1]
        messages[-1] = {**last, "content": f"{last['content']}\n\n{_removal_note(removed)}"}
    return [*messages, *(message for turn in kept for message in turn.messages)]


def _removal_note(removed: Sequence[int]) -> str:
    numbers = [str(number) for number in sorted(removed)]
    which = f"Turn {numbers[0]} was" if len(numbers) == 1 else f"Turns {', '.join(numbers[:-1])} and {numbers[-1]} were"
    return f"[{which} removed from this conversation. The variables of the session are still there.]"


def _length(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def _cut_to(messages: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """Truncate the longest texts until all messages fit."""
    cut = list(messages)
    while (excess := _length(cut) - limit) > 0:
        place = max(range(len(cut)), key=lambda index: len(cut[index]["content"]))
        content = cut[place]["content"]
        shorter = cut_middle(content, max(_SHORTEST_CUT, len(content) // 2, len(content) - excess))
        if len(shorter) >= len(content):
            break
        cut[place] = {**cut[place], "content": shorter}
    return tuple(cut)


def cut_middle(text: str, limit: int) -> str:
    """Return a text, truncated in the middle with a mark if it exceeds the limit.

    Args:
        limit: The maximum number of characters.

    Example:
        >>> cut_middle("a" * 90 + "b" * 90, 60)
        'aaaaaaaaaaaaaaa\\n[... 150 characters cut ...]\\nbbbbbbbbbbbbbbb'
    """
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text)} characters cut ...]\n"
    room = max(0, limit - len(mark))
    half = room // 2
    mark = f"\n[... {len(text) - 2 * half} characters cut ...]\n"
    return f"{text[:half]}{mark}{text[len(text) - half :]}"
