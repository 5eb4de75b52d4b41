"""A client that keeps the answers of another one on disk, so that a second run with the same prompts costs no time."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ace.calls.model_calls import call_scope, current_call_scope, note_model_call
from ace.protocols.llm import LLMResponse, StructuredAnswer, Usage

__all__ = ["AnswerCache", "BenchmarkClient", "CachedClient"]


class BenchmarkClient(Protocol):
    """What the benchmark needs of a client: the clients of ACE have all of it."""

    @property
    def model(self) -> str: ...

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse: ...

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse: ...

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer: ...


@dataclass
class _Entry:
    """One answer with what its calls have used, in their order."""

    answer: str
    usages: list[Usage] = field(default_factory=list)
    finish_reason: str = ""


class AnswerCache:
    """Answers by a hash of the request, in an SQLite file. Methods may be called from several threads.

    The lock is held while the file is read or written, never while a model answers.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False, timeout=60)
        with self._lock, self._connection as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, entry TEXT NOT NULL)")

    def find(self, request: str) -> _Entry | None:
        """Return the entry of a request, or None."""
        with self._lock:
            row = self._connection.execute("SELECT entry FROM answers WHERE request = ?", [_hash(request)]).fetchone()
        if row is None:
            return None
        values = json.loads(row[0])
        return _Entry(values["answer"], [Usage(**usage) for usage in values["usages"]], values["finish_reason"])

    def keep(self, request: str, entry: _Entry) -> None:
        """Keep an entry; the first one of a request stays."""
        text = json.dumps(asdict(entry), ensure_ascii=False)
        with self._lock, self._connection as connection:
            connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", [_hash(request), text])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class CachedClient:
    """Answers from the cache where it can, and else asks the client. Answers from the cache are counted like others.

    Only answers that validate are kept. Use it with temperature 0: an answer that the cache has is never asked again.
    """

    def __init__(self, client: BenchmarkClient, cache: AnswerCache, *, settings: Mapping[str, object]) -> None:
        self.client = client
        self.model = client.model
        self.from_cache = 0
        self.asked = 0
        self._cache = cache
        self._settings = dict(settings)
        self._lock = threading.Lock()

    @property
    def is_small_model(self) -> bool:
        """Whether the roles put shorter questions to it, as the wrapped client says."""
        return getattr(self.client, "is_small_model", False) is True

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer."""
        return self.complete_messages([{"role": "user", "content": prompt}], **kwargs)

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages and return the answer."""
        request = self._request("messages", [dict(message) for message in messages], kwargs)
        entry = self._known(request)
        if entry is None:
            with _noting() as usages:
                response = self.client.complete_messages(messages, **kwargs)
            self._keep(request, _Entry(response.text, usages or [response.usage], response.finish_reason))
            return response
        return LLMResponse(entry.answer, usage=_sum(entry.usages), finish_reason=entry.finish_reason)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model."""
        request = self._request("structured", prompt, response_model.model_json_schema(), kwargs)
        entry = self._known(request)
        if entry is not None:
            return response_model.model_validate_json(entry.answer)
        with _noting() as usages:
            answer = self.client.complete_structured(prompt, response_model, **kwargs)
        self._keep(request, _Entry(answer.model_dump_json(), usages))
        return answer

    def _request(self, *parts: object) -> str:
        return json.dumps([self.model, self._settings, *parts], sort_keys=True, default=str)

    def _known(self, request: str) -> _Entry | None:
        entry = self._cache.find(request)
        with self._lock:
            self.from_cache += entry is not None
            self.asked += entry is None
        if entry is not None:
            for usage in entry.usages:
                note_model_call(self.model, usage, 0.0)
        return entry

    def _keep(self, request: str, entry: _Entry) -> None:
        self._cache.keep(request, entry)


@contextmanager
def _noting() -> Iterator[list[Usage]]:
    """Collect what the calls inside the block use."""
    scope, usages = current_call_scope(), list[Usage]()

    def note(usage: Usage) -> None:
        usages.append(usage)
        if scope.on_usage is not None:
            scope.on_usage(usage)

    with call_scope(replace(scope, on_usage=note)):
        yield usages


def _sum(usages: Sequence[Usage]) -> Usage:
    return sum(usages, Usage())


def _hash(request: str) -> str:
    return hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()
