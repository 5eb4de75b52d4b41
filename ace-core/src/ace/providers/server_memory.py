"""Keeps what was learned about a model on a server, in a file of the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ace._internal.atomic_file import folder_lock, write_durably
from ace.providers.server_quirks import QUIRKS, Quirk, ServerProfile

__all__ = ["Lesson", "ServerMemory", "server_address", "servers_folder"]

_logger = logging.getLogger("ace.providers.servers")
_NOT_KEPT: Final = "off"
_KEPT_DAYS: Final = {quirk.name: quirk.days for quirk in QUIRKS}


def servers_folder() -> Path | None:
    """Return the folder of the files: `ACE_SERVERS`, else `ace/servers` in the user's cache folder.

    With `ACE_SERVERS=off`, nothing is kept, and None is returned.

    Example:
        >>> import os
        >>> before = os.environ.get("ACE_SERVERS", "")
        >>> os.environ["ACE_SERVERS"] = "cache/servers"
        >>> servers_folder().as_posix()
        'cache/servers'
        >>> os.environ["ACE_SERVERS"] = before
    """
    chosen = os.environ.get("ACE_SERVERS")
    if chosen == _NOT_KEPT:
        return None
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ace" / "servers"


_ADDRESSES: Final[Mapping[str, Sequence[str]]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
}


def server_address(model: str, api_base: str | None) -> str:
    """Return the address of the server of a model, without a user name and password; empty for that of its provider.

    Args:
        model: A LiteLLM model string.
        api_base: The base URL that was set, if any.

    Example:
        >>> server_address("openai/m", "http://me:secret@localhost:8000/v1/")
        'http://localhost:8000/v1'
    """
    variables = _ADDRESSES.get(model.partition("/")[0], ())
    address = api_base or next(filter(None, map(os.environ.get, variables)), "")
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")


@dataclass(frozen=True, slots=True)
class Lesson:
    """One thing that was learned about a server."""

    quirk: str
    """The name of the row of the table."""
    at: datetime
    """When it was learned."""
    change: ServerProfile
    """What was learned."""

    @property
    def until(self) -> datetime:
        """The time until which it is used."""
        return self.at + timedelta(days=_KEPT_DAYS.get(self.quirk, 0))


class ServerMemory:
    """What was learned about a model on a server. Thread-safe.

    Args:
        model: A LiteLLM model string.
        api_base: The base URL that was set, if any.
    """

    def __init__(self, model: str, api_base: str | None) -> None:
        self.model = model
        self.address = server_address(model, api_base)
        self._lock = threading.Lock()
        self._lessons: tuple[Lesson, ...] | None = None

    @property
    def path(self) -> Path | None:
        """The file; None if nothing is kept."""
        folder = servers_folder()
        name = hashlib.sha256(json.dumps([self.address, self.model]).encode("utf-8", "backslashreplace")).hexdigest()
        return None if folder is None else folder / f"{name[:32]}.json"

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """What was learned, the oldest first; what is too old is not used."""
        with self._lock:
            return self._read()

    @property
    def known(self) -> ServerProfile:
        """What is known about the server."""
        profile = ServerProfile()
        for lesson in self.lessons:
            profile |= lesson.change
        return profile

    def learn(self, learned: Iterable[tuple[Quirk, ServerProfile]]) -> None:
        """Use something from now on, and keep it as long as the rows of the table say.

        Args:
            learned: The rows that applied, and what they tell about the server.
        """
        now = datetime.now(UTC)
        with self._lock:
            known = [lesson.change for lesson in self._read()]
            new = [Lesson(quirk.name, now, change) for quirk, change in learned if change not in known]
            new = [lesson for lesson in new if lesson.change != ServerProfile()]  # an error without a number
            if not new:
                return
            self._lessons = (*self._read(), *new)
            where = f" at {self.address}" if self.address else ""
            for lesson in new:
                for sentence in lesson.change.sentences():
                    _logger.warning("the server of %s%s: %s from now on", self.model, where, sentence)
            self._write()

    def forget(self) -> bool:
        """Delete what was learned, and return whether there was anything."""
        with self._lock:
            found, self._lessons = bool(self._read()), ()
            if self.path is not None:
                self.path.unlink(missing_ok=True)
            return found

    def _read(self) -> tuple[Lesson, ...]:
        if self._lessons is None:
            self._lessons = () if self.path is None else tuple(_lessons_in(self.path))
        return self._lessons

    def _write(self) -> None:
        """Write what was learned here to the file, beside what other processes have learned meanwhile."""
        if self.path is None:
            return
        try:
            with folder_lock(self.path):
                own = [lesson.change for lesson in self._read()]
                others = [lesson for lesson in _lessons_in(self.path) if lesson.change not in own]
                learned = [
                    {"quirk": lesson.quirk, "at": lesson.at.isoformat(), "change": lesson.change.to_dict()}
                    for lesson in (*others, *self._read())
                ]
                data = {"address": self.address, "model": self.model, "learned": learned}
                write_durably(self.path, json.dumps(data, indent=1).encode("utf-8", "backslashreplace"))
        except OSError as error:  # a cache that cannot be written only costs a request in the next process
            _logger.info("what was learned about %s is not kept: %s", self.model, error)


def _lessons_in(path: Path) -> list[Lesson]:
    """Return what a file says and is not too old; nothing if it cannot be read, since it is a cache."""
    try:
        data: Any = json.loads(path.read_bytes())
        lessons = [
            Lesson(str(entry["quirk"]), datetime.fromisoformat(entry["at"]), ServerProfile.from_dict(entry["change"]))
            for entry in data["learned"]
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        _logger.info("%s is not used: %s", path, error)
        return []
    now = datetime.now(UTC)
    return [lesson for lesson in lessons if lesson.at.tzinfo is not None and now < lesson.until]
