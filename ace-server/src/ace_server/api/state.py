"""What the routes of a process share."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from fastapi import Request

from ace_server.group_commit import GroupWriter
from ace_server.inference import Inference
from ace_server.keys import KeyRing
from ace_server.limits import Limits
from ace_server.maintenance import Maintenance
from ace_server.metrics import Metrics
from ace_server.service import Service
from ace_server.subjects import Subjects

__all__ = ["KnownRequest", "RecentRequests", "ServerState", "state_of"]

_MOST_RECENT: Final = 10_000


class KnownRequest(NamedTuple):
    """What feedback needs to know about a request."""

    book: str
    """The name of the book."""
    subject: str | None
    """The pseudonym of the subject."""


@final
class RecentRequests:
    """The requests that this process has answered last; their rows may not be written yet.

    It is only used on the event loop.
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[str, KnownRequest] = OrderedDict()

    def add(self, request: str, known: KnownRequest) -> None:
        """Remember a request.

        Args:
            request: Its id.
            known: What feedback needs to know about it.
        """
        self._requests[request] = known
        if len(self._requests) > _MOST_RECENT:
            self._requests.popitem(last=False)

    def find(self, request: str) -> KnownRequest | None:
        """Return what is known about a request, if it is recent.

        Args:
            request: Its id.
        """
        return self._requests.get(request)

    def forget(self, subject: str) -> None:
        """Forget the requests of a subject, whose rows will be deleted.

        Args:
            subject: The pseudonym of the subject.
        """
        for request in [id for id, known in self._requests.items() if known.subject == subject]:
            del self._requests[request]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What the routes of a process share."""

    service: Service
    """The settings, the database, the seal and the model."""
    subjects: Subjects
    """The pseudonyms of subjects."""
    inference: Inference
    """Answers questions."""
    writer: GroupWriter
    """Writes requests and feedback."""
    keys: KeyRing
    """Finds keys."""
    limits: Limits
    """Counts what keys use."""
    metrics: Metrics
    """Counts requests."""
    recent: RecentRequests
    """The last requests."""
    maintenance: Maintenance
    """Deletes data on request, and expired data."""


def state_of(request: Request) -> ServerState:
    """Return the state of the app that a request came to.

    Args:
        request: The request.
    """
    state: ServerState = request.app.state.server
    return state
