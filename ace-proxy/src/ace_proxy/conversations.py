"""Joins model calls to conversations: by the name of a session, else by the growing list of messages."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from ace.integrations import Record
from ace.logs import spoken_by_user
from ace_proxy.dialects import text_in_content

__all__ = ["Conversation", "Conversations"]

_MARKS: Final = ("cache_control", "thoughtSignature")
"""What clients add to the messages of a request, and omit from the same messages later."""
_MOST: Final = 2_000
"""How many conversations are remembered after they were handed over. A forgotten one that continues is a new run."""


@dataclass(eq=False, slots=True)
class Conversation:
    """What is known about a conversation."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Its name, also that of its file."""
    session: str = ""
    """The session that the client named; empty if it named none."""
    digests: list[bytes] = field(default_factory=list)
    """What identifies the first, the first two, ... and all messages of the last call; without a session, the last."""
    lasting: bytes = b""
    """The same without what a program has added at the end, which it may replace in the next call."""
    response_ids: list[str] = field(default_factory=list)
    """The ids of the last response, by which the next call may continue it."""
    system: bytes = b""
    """What identifies the system text of the last call."""
    skills: str | None = None
    """The skills that its calls get; None before the first call that may get some."""
    in_flight: int = 0
    """How many calls are not answered yet."""
    has_failed: bool = False
    """Whether the last call failed or its answer was incomplete, so that the same call again is a retry."""
    last_active: float = 0.0
    """When the last call ended, on a monotonic clock."""
    is_dirty: bool = False
    """Whether something was recorded since it was last handed to the learner."""


@final
class Conversations:
    """All conversations of the proxy. Its methods may be called from any thread.

    Example:
        >>> conversations = Conversations()
        >>> hello = {"role": "user", "content": "Hello"}
        >>> first, new = conversations.begin([hello])
        >>> conversations.end(first, has_failed=False, now=0.0)
        >>> answer, question = {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Why?"}
        >>> again, new = conversations.begin([hello, answer, question])
        >>> again is first, len(new)
        (True, 2)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: OrderedDict[str, Conversation] = OrderedDict()
        self._by_head: dict[bytes, list[Conversation]] = {}
        self._by_session: dict[str, Conversation] = {}
        self._by_response: dict[str, Conversation] = {}
        self.latest: Conversation | None = None
        """The conversation of the last call."""

    def begin(
        self, items: Sequence[Record], *, api: str = "", system: str = "", session: str = "", response_id: str = ""
    ) -> tuple[Conversation, Sequence[Record]]:
        """Return the conversation to which a call belongs, and those of its messages that are new in it.

        Args:
            items: The messages of the request.
            api: The name of the API; calls of different ones are never joined.
            system: The system text, which decides between conversations that began with the same messages.
            session: The session that the client named.
            response_id: The id of the response that the call continues.
        """
        digests = list(_digests(api, items))
        lasting = _lasting(items)
        marked = hashlib.blake2b(system.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            found, known = self._find(digests, lasting, marked, session, response_id)
            if found is None:
                found = Conversation(session=session)
                self._add(found)
            self._set_head(found, digests, lasting)
            found.system = marked
            found.in_flight += 1
            found.has_failed = False
            found.is_dirty = True
            self._all.move_to_end(found.id)
            self.latest = found
        return found, items[known:]

    def note_response(self, conversation: Conversation, *, has_failed: bool, ids: Sequence[str] = ()) -> None:
        """Note how a response begins. It is called before the client sees that, since the next call may follow at once.

        Args:
            has_failed: Whether it is not a good answer.
            ids: The ids in it.
        """
        with self._lock:
            conversation.has_failed = has_failed
            for response_id in conversation.response_ids if ids else ():
                self._by_response.pop(response_id, None)
            conversation.response_ids = list(ids) or conversation.response_ids
            for response_id in ids:
                self._by_response[response_id] = conversation

    def end(self, conversation: Conversation, *, has_failed: bool, now: float) -> None:
        """Note that a call has ended.

        Args:
            conversation: Its conversation.
            has_failed: Whether it failed, or its answer was incomplete.
            now: The time on a monotonic clock.
        """
        with self._lock:
            conversation.in_flight -= 1
            conversation.has_failed = has_failed
            conversation.last_active = now

    def touch(self, conversation: Conversation, now: float) -> None:
        """Note that something was said about a conversation, from which the learner can learn.

        Args:
            now: The time on a monotonic clock.
        """
        with self._lock:
            conversation.is_dirty = True
            conversation.last_active = now

    def named(self, session: str) -> Conversation | None:
        """Return the conversation of a session; None if there is none.

        Args:
            session: The name.
        """
        with self._lock:
            return self._by_session.get(session)

    def take_silent(self, before: float) -> list[Conversation]:
        """Return the conversations to learn from, in which nothing has happened since a time, each once.

        Args:
            before: The time on the clock of `end`.
        """
        with self._lock:
            found = [
                conversation
                for conversation in self._all.values()
                if conversation.is_dirty and not conversation.in_flight and conversation.last_active <= before
            ]
            for conversation in found:
                conversation.is_dirty = False
        return found

    def _find(
        self, digests: Sequence[bytes], lasting: int, system: bytes, session: str, response_id: str
    ) -> tuple[Conversation | None, int]:
        """Return the conversation that a call continues, and how many of the call's messages it has already."""
        if session:
            found = self._by_session.get(session)
            return found, 0 if found is None else _common(found.digests, digests)
        if response_id:  # the client sends only what is new
            return self._by_response.get(response_id), 0
        for known in range(len(digests), 0, -1):
            digest = digests[known - 1]
            fitting = [
                conversation
                for conversation in self._by_head.get(digest, ())
                # The same request again is another conversation, unless it is a retry.
                if conversation.has_failed or known < (len(digests) if digest in conversation.digests else lasting)
            ]
            if fitting:
                return max(fitting, key=lambda one: (one.system == system, one.last_active)), known
        return None, 0

    def _add(self, conversation: Conversation) -> None:
        self._all[conversation.id] = conversation
        if conversation.session:
            self._by_session[conversation.session] = conversation
        if len(self._all) > _MOST:
            oldest = next((old for old in self._all.values() if not old.in_flight and not old.is_dirty), None)
            if oldest is not None:
                self._forget(oldest)

    def _forget(self, conversation: Conversation) -> None:
        del self._all[conversation.id]
        self._remove_head(conversation)
        self._by_session.pop(conversation.session, None)
        for response_id in conversation.response_ids:
            self._by_response.pop(response_id, None)

    def _set_head(self, conversation: Conversation, digests: list[bytes], lasting: int) -> None:
        self._remove_head(conversation)
        if conversation.session or not digests:  # a named one is found by its name only
            conversation.digests = digests
            return
        conversation.digests = digests[-1:]
        conversation.lasting = digests[lasting - 1]
        for head in {digests[-1], conversation.lasting}:
            self._by_head.setdefault(head, []).append(conversation)

    def _remove_head(self, conversation: Conversation) -> None:
        for head in {*conversation.digests[-1:], conversation.lasting}:
            others = self._by_head.get(head, [])
            if conversation in others:
                others.remove(conversation)
            if not others:
                self._by_head.pop(head, None)


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """Return how many messages two calls have in common at their beginning."""
    return next(
        (place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )


def _lasting(items: Sequence[Record]) -> int:
    """Return how many messages there are without those at the end that a program wrote; all, if it wrote every one."""
    for number in range(len(items), 0, -1):
        item = items[number - 1]
        text = text_in_content(item.get("content"))
        if item.get("role") != "user" or not text or spoken_by_user(text)[0] == "person":
            return number
    return len(items)


def _digests(api: str, items: Sequence[Record]) -> Iterator[bytes]:
    """Yield what identifies the first message, the first two, and so on."""
    state = hashlib.sha256(api.encode(), usedforsecurity=False)  # the fastest one, as processors have instructions
    for item in items:
        state.update("\0".join((*_parts(item), "")).encode("utf-8", "surrogatepass"))
        yield state.digest()


def _parts(item: Record) -> Iterable[str]:
    """Return the texts that identify a message.

    Clients move marks, such as those of their cache, from message to message, and write a message of one text in two
    forms.
    """
    content = item.get("content")
    role = item.get("role")
    if isinstance(role, str) and isinstance(content, str) and len(item) == 2:
        # As below, but faster: most messages of long conversations are like that.
        return f'{{"role": "{role}"}}', content
    return _parts_of_fields(item, content)


def _parts_of_fields(item: Record, content: object) -> Iterator[str]:
    yield json.dumps({name: value for name, value in item.items() if name != "content" and name not in _MARKS})
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]
        elif isinstance(block, dict):
            yield json.dumps({name: value for name, value in block.items() if name not in _MARKS})
        else:
            yield block if isinstance(block, str) else json.dumps(block)
