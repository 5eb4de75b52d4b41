"""The queue of finished turns between OpenClaw, which must not wait, and the automatic learner."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ace.integrations import Record, mapping_in, number_in, replace_file, text_in
from ace.pipeline import PipelineCancelled
from ace.protocols import LLMAuthenticationError, LLMCallError
from ace_openclaw.home import queue_folder
from ace_openclaw.reading.captured import sessions_of_captured_turns
from ace_openclaw.to_trace import events_to_turn_traces

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace_openclaw.reading.session import StoredSession

__all__ = ["QueuedTurn", "TurnQueue", "queued_turns"]

_MOST_ATTEMPTS = 3
_ATTEMPTS = "ace_attempts"


@dataclass(frozen=True)
class QueuedTurn:
    """A finished turn that has not been learned yet."""

    path: Path
    turn: Record
    """The record that the plugin wrote, with all messages of the session."""

    @property
    def attempts(self) -> int:
        """The number of failed attempts."""
        return int(number_in(self.turn, _ATTEMPTS) or 0)

    @property
    def is_given_up(self) -> bool:
        """Whether it failed so often that only `ace openclaw learn` tries it again."""
        return self.attempts >= _MOST_ATTEMPTS


def queued_turns(state: Path) -> list[QueuedTurn]:
    """Return the turns in the queue, oldest first.

    Args:
        state: The folder of OpenClaw.
    """
    found = []
    for path in sorted(queue_folder(state).glob("*.json")):
        try:
            turn = json.loads(path.read_bytes())
        except FileNotFoundError:  # a learner has just finished it
            continue
        except ValueError:  # truncated in a power failure; OpenClaw has also stored the session
            turn = {}
        found.append(QueuedTurn(path, turn if isinstance(turn, dict) else {}))
    return found


class TurnQueue:
    """The queued turns that a run learns from. The caller must hold the lock of the learner.

    Args:
        state: The folder of OpenClaw.
        with_given_up: Whether to include the turns that automatic learning no longer tries.
    """

    sessions: list[StoredSession]
    """The sessions to learn from. Sessions without a question of a user, such as heartbeats, are omitted."""

    def __init__(self, state: Path, *, with_given_up: bool) -> None:
        self._turns = [turn for turn in queued_turns(state) if with_given_up or not turn.is_given_up]
        sessions = sessions_of_captured_turns([turn.turn for turn in self._turns])
        self.sessions = [session for session in sessions if events_to_turn_traces(session)]
        self._waiting: set[str] = set()
        self._failed: set[str] = set()

    def note(self, result: SampleResult[ACEStepContext]) -> None:
        """Record the result of a turn. An unreachable model does not count as a failure of the turn.

        Args:
            result: The result of the run for the turn.
        """
        session_id = text_in(mapping_in(result.sample, "metadata"), "session_id")
        cause = result.error if result.cause is None else result.cause
        is_outage = isinstance(cause, LLMAuthenticationError) or (
            isinstance(cause, LLMCallError) and not cause.concerns_one_request
        )
        if is_outage or isinstance(result.error, PipelineCancelled):
            self._waiting.add(session_id)
        elif result.error is not None:
            self._failed.add(session_id)

    def settle(self) -> None:
        """Remove the learned turns, and count the attempts of the failed ones. Other turns stay in the queue."""
        for turn in self._turns:
            session_id = text_in(turn.turn, "sessionId")
            if session_id in self._waiting:
                continue
            if session_id in self._failed:
                replace_file(turn.path, json.dumps({**turn.turn, _ATTEMPTS: turn.attempts + 1}).encode())
            else:
                turn.path.unlink(missing_ok=True)
