"""The sessions: one `ACELiteLLM` per session id, and the skillbook that they share.

Each tool call runs on its own thread. `SessionRegistry.using` counts the calls that use a session: it is not closed in
the meantime. The state of the registry is guarded by its lock; the use of a session is not, because `ACELiteLLM` is
thread-safe.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from ace import ACELiteLLM, Skillbook
from ace.integrations import ModelCalled, observing
from ace.skillbook import SkillbookError, has_scheme
from ace_mcp.errors import ErrorCode, MCPToolError
from ace_mcp.models import SessionConfig
from ace_mcp.stopping import Stop, StoppableClient, current_stop, stoppable

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ace import LLMCallError, LLMClientLike
    from ace.runners import Answer
    from ace_mcp.config import MCPServerConfig

__all__ = ["OpenModel", "Session", "SessionModel", "SessionRegistry"]

_MOST_ANSWERS = 1000
"""The maximum number of answers that a session keeps for feedback."""


@dataclass(frozen=True, slots=True)
class SessionModel:
    """The model of a session."""

    client: LLMClientLike
    """Makes the requests."""
    explain: Callable[[LLMCallError], str] = str
    """Converts the error of a request into a message that says what to do."""


OpenModel = Callable[[SessionConfig], SessionModel]
"""Opens the model for the settings of a session, or raises an `MCPToolError`."""


@dataclass(eq=False, slots=True)
class Session:
    """One open session."""

    id: str
    """The id, chosen by the client."""
    config: SessionConfig
    """The model settings with which it was opened."""
    learner: ACELiteLLM
    """Answers and learns."""
    explain: Callable[[LLMCallError], str]
    """Converts the error of a request to the model into a message that says what to do."""
    answers: OrderedDict[str, Answer] = field(default_factory=OrderedDict)
    """The last answers by id, the newest last."""
    metadata: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """The metadata that clients sent with a question, by the id of the answer."""
    busy: int = 0
    """The number of calls that use it."""
    last_used: float = 0.0
    """The time at which the last call began or ended, on the clock of the registry."""

    def remember(self, answer: Answer, metadata: dict[str, JsonValue] | None) -> None:
        """Keep an answer for feedback.

        Args:
            metadata: The metadata of the question.
        """
        self.answers[answer.id] = answer
        if metadata:
            self.metadata[answer.id] = metadata
        if len(self.answers) > _MOST_ANSWERS:
            oldest, _ = self.answers.popitem(last=False)
            self.metadata.pop(oldest, None)

    @property
    def last_answer(self) -> Answer | None:
        """The answer of the last call of `ace.ask`."""
        return next(reversed(self.answers.values()), None)


@final
class SessionRegistry:
    """Opens sessions on first use and closes idle ones. Thread-safe.

    Args:
        config: The settings of the server.
        open_model: Opens the model of a session.
        clock: The current time, in seconds.

    Example:
        >>> import tempfile
        >>> from ace import LiteLLMClient
        >>> from ace_mcp import MCPServerConfig
        >>> config = MCPServerConfig(skillbook=f"{tempfile.mkdtemp()}/skills.db")
        >>> registry = SessionRegistry(config, lambda wanted: SessionModel(LiteLLMClient("openai/gpt-4o-mini")))
        >>> with registry.using("planning", Stop()) as session:
        ...     session.id, registry.open_sessions
        ('planning', ['planning'])
        >>> registry.shut_down(seconds=1)
        True
    """

    def __init__(
        self, config: MCPServerConfig, open_model: OpenModel, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._open_model = open_model
        self._clock = clock
        self._changed = threading.Condition(threading.RLock())
        self._sessions: dict[str, Session] = {}
        self._stops: set[Stop] = set()
        self._shared: Skillbook | None = None
        self._spent = 0.0
        self._is_shutting_down = False
        self._observing = ExitStack()

    @property
    def open_sessions(self) -> list[str]:
        """The ids of the open sessions, oldest first."""
        with self._changed:
            return list(self._sessions)

    @property
    def budget_left(self) -> float | None:
        """The remaining budget for model calls, in US dollars; None if there is no limit."""
        limit = self._config.max_cost
        return None if limit is None else max(0.0, limit - self._spent)

    @contextmanager
    def using(self, session_id: str, stop: Stop, config: SessionConfig | None = None) -> Iterator[Session]:
        """Use a session, which is opened if necessary, and not closed inside the block.

        Args:
            session_id: The id.
            stop: Stops the work in the block, for instance when the server ends.
            config: The model settings, for a new session.

        Raises:
            MCPToolError: The session was opened with another model, no model can be opened, or all sessions are busy.
        """
        with self._changed:
            if self._is_shutting_down:
                raise MCPToolError(ErrorCode.TIMEOUT, "the server is shutting down; call the tool again when it runs")
            session = self._sessions.get(session_id) or self._opened(session_id, config)
            _check_config(session, config)
            session.busy += 1
            session.last_used = self._clock()
            self._stops.add(stop)
        try:
            with stoppable(stop):
                yield session
        finally:
            with self._changed:
                session.busy -= 1
                session.last_used = self._clock()
                self._stops.discard(stop)
                self._changed.notify_all()

    def has_book(self, session_id: str) -> bool:
        """Return whether there is a skillbook to read for a session, which need not be open.

        Args:
            session_id: The id.
        """
        with self._changed:
            is_open = session_id in self._sessions
        return is_open or not self._config.separate_books or self._place_of(session_id).exists()

    @contextmanager
    def reading(self, session_id: str) -> Iterator[Skillbook]:
        """Read the current skillbook of a session, without opening the session.

        Args:
            session_id: The id.

        Raises:
            MCPToolError: Each session has its own skillbook, and this one has none.
        """
        with self._changed:
            session = self._sessions.get(session_id)
            place = self._place_of(session_id)
            if session is None and self._config.separate_books and not place.exists():
                raise MCPToolError(
                    ErrorCode.SESSION_NOT_FOUND,
                    f"no session {session_id!r}; use the id that you gave to ace.ask or ace.learn.sample",
                    session_id=session_id,
                )
            book = self._book_of(session_id) if session is None else session.learner.skillbook
        try:
            book.refresh()
            yield book
        finally:
            if session is None and self._config.separate_books:
                book.close()

    def close_idle(self) -> list[str]:
        """Close the sessions that have been idle for too long.

        Returns:
            Their ids.
        """
        with self._changed:
            limit = self._clock() - self._config.session_ttl_seconds
            idle = [session for session in self._sessions.values() if not session.busy and session.last_used <= limit]
            for session in idle:
                self._close(session)
            return [session.id for session in idle]

    def check_budget(self) -> None:
        """Check that the budget for model calls is not exhausted.

        Raises:
            MCPToolError: It is.
        """
        if self.budget_left == 0.0:
            raise MCPToolError(
                ErrorCode.PROVIDER_ERROR,
                f"the model calls of this server have cost {self._spent:.4f} US dollars, which is its limit; "
                "start it with a higher --max-cost",
                max_cost=self._config.max_cost,
            )

    def shut_down(self, *, seconds: float) -> bool:
        """Stop all calls, wait for them, and close all sessions and their skillbooks.

        What the calls have learned so far is already in the skillbook.

        Args:
            seconds: The maximum wait, in seconds.

        Returns:
            Whether all calls have ended.
        """
        with self._changed:
            self._is_shutting_down = True
            stops = list(self._stops)
        for stop in stops:
            stop.stop("shutdown")
        with self._changed:
            ended = self._changed.wait_for(lambda: not self._stops, seconds)
            if ended:
                for session in list(self._sessions.values()):
                    self._close(session)
                if self._shared is not None:
                    self._shared.close()
                self._observing.close()
            return ended

    def _opened(self, session_id: str, config: SessionConfig | None) -> Session:
        if not self._sessions:
            self._observing.close()
            self._observing.enter_context(observing(self._count_cost))
        self.close_idle()
        if len(self._sessions) >= self._config.max_sessions:
            self._close_one()
        chosen = SessionConfig() if config is None else config
        model = self._open_model(chosen)
        client = StoppableClient(model.client, self.check_budget)
        learner = ACELiteLLM(client, skillbook=self._book_of(session_id))
        session = self._sessions[session_id] = Session(session_id, chosen, learner, model.explain)
        return session

    def _close_one(self) -> None:
        """Close the session that has been idle for the longest time, to make room for another one."""
        idle = [session for session in self._sessions.values() if not session.busy]
        if not idle:
            raise MCPToolError(
                ErrorCode.SESSION_NOT_FOUND,
                f"the session cannot be opened, because all {len(self._sessions)} sessions are busy; try again later, "
                "or use a session that is already open",
                max_sessions=self._config.max_sessions,
            )
        self._close(min(idle, key=lambda session: session.last_used))

    def _close(self, session: Session) -> None:
        del self._sessions[session.id]
        if self._config.separate_books:
            session.learner.skillbook.close()

    def _book_of(self, session_id: str) -> Skillbook:
        if self._config.separate_books:
            return _opened_book(str(self._place_of(session_id)))
        if self._shared is None:
            self._shared = _opened_book(self._config.skillbook)
        return self._shared

    def _place_of(self, session_id: str) -> Path:
        """Return the skillbook file of a session with its own skillbook, which only depends on the session id."""
        digest = hashlib.sha256(session_id.encode()).hexdigest()[:16]
        name = "".join(character if character.isalnum() else "-" for character in session_id[:40])
        return Path(self._config.skillbook).with_suffix("") / f"{name}-{digest}.db"

    def _count_cost(self, event: object) -> None:
        if isinstance(event, ModelCalled) and event.cost is not None and not event.recorded:
            with self._changed:
                if current_stop() in self._stops:  # observers receive the events of the whole process
                    self._spent += event.cost


def _check_config(session: Session, config: SessionConfig | None) -> None:
    if config is not None and config != session.config:
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR,
            f"the session {session.id!r} was opened with another session_config, which cannot be changed; omit it, or "
            "choose another session_id",
            session_id=session.id,
        )


def _opened_book(location: str) -> Skillbook:
    path = Path(location)
    is_address = has_scheme(location)
    if not is_address and path.suffix not in (".db", ".sqlite", ".sqlite3"):
        raise MCPToolError(
            ErrorCode.INTERNAL_ERROR,
            f"the skillbook {location!r} is not a store, so nothing learned would be kept; start the server with "
            "--skillbook NAME.db",
        )
    try:
        if not is_address:
            path.parent.mkdir(parents=True, exist_ok=True)
        return Skillbook.open(location)
    except (OSError, SkillbookError, ValueError) as error:
        raise MCPToolError(ErrorCode.INTERNAL_ERROR, f"the skillbook cannot be opened: {error}") from error
