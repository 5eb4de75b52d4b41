"""Records conversations: one file of JSON Lines for each, written by a thread of its own.

A call never waits for the disk. If a line cannot be written, it is lost, which is reported once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import httpx

from ace.integrations import Record, open_private
from ace_proxy.conversations import Conversation, Conversations
from ace_proxy.reports import OnceReport

__all__ = ["OPEN", "RUNS", "VERSION", "Call", "Recorder"]

VERSION: Final = 1
"""The version of the format, in the field `ace_proxy` of each line."""
OPEN: Final = "open"
"""The folder of the conversations that may continue."""
RUNS: Final = "runs"
"""The folder of those that can be learned from."""
_MOST_WAITING: Final = 1_000
"""How many lines may wait for the disk."""
_LOOKS_PER_SILENCE: Final = 12
_SHORTEST_WAIT: Final = 0.5
"""How often silent conversations are looked for: several are handed over together, as a learner takes time to start."""
_LONGEST_DATA: Final = 1_000
"""Longer texts that are data and not words, such as images, are not recorded."""
_DATA_KEYS: Final = ("data", "image_url", "url", "file_data", "encrypted_content", "signature", "thoughtSignature")
_IGNORES_ALL: Final = "# Written by ace: recorded conversations are not part of the project.\n*\n"


@dataclass(slots=True)
class Call:
    """A model call, as far as it has come."""

    conversation: Conversation
    api: str
    """The name of the API."""
    model: str
    system: str
    """The system text, without skills that were added."""
    items: Sequence[Record]
    """The messages that are new in the conversation."""
    secrets: Sequence[str] = ()
    """The keys of the call, which are not recorded."""
    outcome: str = ""
    """The outcome that the client reported; empty if it reported none."""
    status: int = 0
    """The status of the response; 0 if there was none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those headers of the response that say how to read it."""
    chunks: list[bytes] = field(default_factory=list)
    """The body of the response, as it came."""
    problem: str = ""
    """Why the response is missing or incomplete."""

    @property
    def has_failed(self) -> bool:
        """Whether the call failed, or its answer is incomplete."""
        return bool(self.problem) or self.status >= 400


@final
class Recorder:
    """Writes the files of conversations, and hands over those that have been silent.

    Args:
        folder: The folder with `open` and `runs`.
        hand_over: Called with files to learn from, on the thread of the recorder.
        silence: After how many seconds without a call a conversation is learned from.
        tell: Called once with a sentence if something is lost.
    """

    def __init__(
        self,
        folder: Path,
        conversations: Conversations,
        hand_over: Callable[[Sequence[Path]], None],
        *,
        silence: float,
        tell: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._conversations = conversations
        self._hand_over = hand_over
        self._silence = silence
        self._report = OnceReport(tell)
        self._lost = 0
        self._lines: queue.Queue[Callable[[], None] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="ace-proxy-recorder", daemon=True)

    @property
    def lost(self) -> int:
        """How many calls and judgements could not be recorded."""
        return self._lost

    def start(self) -> None:
        """Begin to record; conversations that an earlier process has left behind are handed over."""
        self._thread.start()
        self._put(self._adopt)

    def close(self) -> None:
        """Write what is waiting, and hand over all conversations."""
        self._lines.put(None)
        self._thread.join()

    def add(self, call: Call) -> None:
        """Record a call that has ended."""
        self._put(lambda: self._write(call.conversation, _line_of(call)))

    def judge(self, conversation: Conversation, *, outcome: str = "", feedback: str = "") -> None:
        """Record a judgement.

        Args:
            conversation: What is judged.
            outcome: `success` or `failure`; empty if it is not said.
            feedback: The words of a person.
        """
        said = {name: text for name, text in (("outcome", outcome), ("feedback", feedback)) if text}
        self._put(lambda: self._write(conversation, _encoded({**_begin(), **said}, ())))

    def _put(self, write: Callable[[], None]) -> None:
        try:
            self._lines.put_nowait(write)
        except queue.Full:
            self._lose("the disk is too slow", 1)

    def _work(self) -> None:
        looked = time.monotonic()
        wait = max(self._silence / _LOOKS_PER_SILENCE, _SHORTEST_WAIT)
        while True:
            try:
                write = self._lines.get(timeout=wait)
                if write is None:
                    break
                self._attempt(write, lost=1)
            except queue.Empty:
                pass
            now = time.monotonic()
            if now - looked >= wait:
                looked = now
                self._attempt(functools.partial(self._finish, now - self._silence))
        self._attempt(functools.partial(self._finish, float("inf")))

    def _attempt(self, action: Callable[[], None], *, lost: int = 0) -> None:
        try:
            action()
        except Exception as error:  # the thread must live on, or nothing would be recorded any more
            self._lose(str(error) or type(error).__name__, lost)

    def _lose(self, reason: str, lost: int) -> None:
        self._lost += lost
        self._report(f"runs are not recorded: {reason}; model calls are not affected")

    def _write(self, conversation: Conversation, line: bytes) -> None:
        path = self._folder / RUNS / f"{conversation.id}.jsonl"
        if not path.exists():
            path = self._folder / OPEN / path.name
        try:
            _append(path, line)
        except FileNotFoundError:
            self._make_folders()
            _append(path, line)

    def _make_folders(self) -> None:
        for name in (OPEN, RUNS):
            (self._folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text(_IGNORES_ALL, encoding="utf-8")

    def _finish(self, before: float) -> None:
        """Hand over the conversations in which nothing has happened since a time."""
        found = self._conversations.take_silent(before)
        files = [path for conversation in found if (path := self._finished(conversation.id)) is not None]
        if files:
            self._hand_over(files)

    def _finished(self, id: str) -> Path | None:
        """Move the file of a conversation to those that can be learned from, and return it; None if it has none."""
        path = self._folder / RUNS / f"{id}.jsonl"
        with contextlib.suppress(FileNotFoundError):
            (self._folder / OPEN / path.name).rename(path)
        return path if path.exists() else None

    def _adopt(self) -> None:
        """Hand over conversations of a process that was killed."""
        oldest = time.time() - 2 * self._silence
        left = [path for path in (self._folder / OPEN).glob("*.jsonl") if path.stat().st_mtime < oldest]
        files = [path for file in left if (path := self._finished(file.stem)) is not None]
        if files:
            self._hand_over(files)


def _append(path: Path, line: bytes) -> None:
    """Add a line completely or not at all."""
    with open(path, "ab", buffering=0, opener=open_private) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if file.write(line) != len(line):
                raise OSError("the disk is full")
        except OSError:
            os.ftruncate(file.fileno(), size)
            if not size:
                path.unlink(missing_ok=True)
            raise


def _begin() -> dict[str, Any]:
    return {"ace_proxy": VERSION, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}


def _line_of(call: Call) -> bytes:
    line = {
        **_begin(),
        "api": call.api,
        "model": call.model,
        "system": call.system,
        "items": [_without_data(item) for item in call.items],
        "status": call.status,
        "is_stream": call.headers.get("content-type", "").startswith("text/event-stream"),
        "response": _body_of(call),
        "problem": call.problem,
        "outcome": call.outcome,
    }
    return _encoded({name: value for name, value in line.items() if value not in ("", [], False)}, call.secrets)


def _encoded(line: Mapping[str, Any], secrets: Sequence[str]) -> bytes:
    text = json.dumps(line, ensure_ascii=False)
    for secret in secrets:
        text = text.replace(secret, "[hidden: key]")
    return f"{text}\n".encode("utf-8", "backslashreplace")


def _body_of(call: Call) -> str:
    """Return the body of the response, without its compression; empty if the compressed body is not complete."""
    body = b"".join(call.chunks)
    coding = call.headers.get("content-encoding")
    if coding:
        try:
            body = httpx.Response(200, headers={"content-encoding": coding}, content=body).content
        except httpx.DecodingError:
            return ""
    return body.decode("utf-8", "replace")


def _without_data(value: Any, key: str = "") -> Any:
    """Return a message without images and other data, whose sizes are named instead."""
    if isinstance(value, dict):
        return {name: _without_data(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_data(item, key) for item in value]
    if isinstance(value, str) and len(value) > _LONGEST_DATA and key in _DATA_KEYS:
        return f"[{len(value)} characters of data]"
    return value
