"""The sessions: one `ACELiteLLM` per session id, and the skillbook that they share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from ace import ACELiteLLM, Skillbook
from ace.skillbook import has_scheme
from ace_mcp.errors import ErrorCode, MCPToolError

if TYPE_CHECKING:
    from ace import LLMClientLike
    from ace.runners import Answer
    from ace_mcp.config import MCPServerConfig
    from ace_mcp.models import SessionConfig

__all__ = ["OpenModel", "Session", "SessionRegistry"]

OpenModel = Callable[["SessionConfig"], "LLMClientLike"]
"""Opens the client of the model that a session wants."""


@dataclass(eq=False, slots=True)
class Session:
    """One open session."""

    id: str
    """Its id, which the client chose."""
    learner: ACELiteLLM
    """Answers and learns."""
    config: SessionConfig
    """The model that it began with."""
    answers: OrderedDict[str, Answer] = field(default_factory=OrderedDict)
    """The last answers by their ids, the newest last."""
    busy: int = 0
    """How many calls are using it."""
    last_used: float = 0.0
    """When the last call ended, on the clock of the registry."""


@final
class SessionRegistry:
    """Opens sessions at their first use and closes idle ones. All methods can be called on any thread.

    Args:
        config: The settings of the server.
        open_model: Opens the client of a model.
        clock: The current time, in seconds.
    """

    def __init__(
        self, config: MCPServerConfig, open_model: OpenModel, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._open_model = open_model
        self._clock = clock
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._shared: Skillbook | None = None

    @contextmanager
    def using(self, session_id: str, config: SessionConfig | None = None) -> Iterator[Session]:
        """Use a session, which is opened if it is not open. It is not closed while it is used.

        Args:
            session_id: The id.
            config: The model, for a session that begins.

        Raises:
            MCPToolError: The session began with another model, or no model can be opened.
        """
        with self._lock:
            session = self._sessions.get(session_id) or self._opened(session_id, config)
            session.busy += 1
        try:
            yield session
        finally:
            with self._lock:
                session.busy -= 1
                session.last_used = self._clock()

    @contextmanager
    def reading(self, session_id: str) -> Iterator[Skillbook]:
        """Use the skillbook of a session without opening the session.

        Args:
            session_id: The id.
        """
        with self._lock:
            book = self._shared_book()
        book.refresh()
        yield book

    def close(self) -> None:
        """Close all sessions and their skillbooks."""
        with self._lock:
            self._sessions.clear()
            if self._shared is not None:
                self._shared.close()

    def _opened(self, session_id: str, config: SessionConfig | None) -> Session:
        from ace_mcp.models import SessionConfig

        chosen = SessionConfig() if config is None else config
        learner = ACELiteLLM(self._open_model(chosen), skillbook=self._shared_book())
        session = self._sessions[session_id] = Session(session_id, learner, chosen)
        return session

    def _shared_book(self) -> Skillbook:
        if self._shared is None:
            self._shared = _opened_book(self._config.skillbook)
        return self._shared


def _opened_book(location: str) -> Skillbook:
    if has_scheme(location):
        return Skillbook.open(location)
    path = Path(location)
    if path.suffix not in (".db", ".sqlite", ".sqlite3"):
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR,
            f"the skillbook {location!r} is not a store, so nothing learned would be kept; give --skillbook NAME.db",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    return Skillbook.open(path)
