"""Access control: the key of a request, its scopes, its rate and its requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import Request

from ace.protocols import Usage
from ace_server import audit
from ace_server.api.errors import ApiError
from ace_server.api.state import ServerState, state_of
from ace_server.keys import Key, Scope
from ace_server.limits import OverLimitError

__all__ = ["Access", "add_cost", "check_budget", "needs"]

_PAUSE = 1.0
"""How long the answer to a trace over the limit waits, in seconds."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the key of a request may do."""

    key: Key
    """The key."""
    state: ServerState
    """The state of the app."""
    origin: str
    """The address of the client."""
    request_id: str
    """The id of the HTTP request."""

    def check_book(self, book: str) -> None:
        """Check that the key is valid for a book.

        Args:
            book: The name of the book.

        Raises:
            ApiError: It is for another one.
        """
        if not self.key.is_for(book):
            self.record("access.rejected", book)
            raise ApiError(403, "The key is for another book.")

    def no_book(self, book: str) -> ApiError:
        """Return the error for a book of which no release is loaded.

        Args:
            book: The name of the book.
        """
        inference = self.state.inference
        if not inference.is_ready:
            return ApiError(503, "No release could be loaded yet.", retry_after=5)
        if inference.has_book(book):
            return ApiError(503, "The skillbook cannot be read.", retry_after=5)
        return ApiError(404, "The book does not exist.")

    def record(self, what: str, target: str | None = None) -> None:
        """Add a row to the audit log, soon.

        Args:
            what: What was done, such as `text.read`.
            target: The id of the object.
        """
        self.state.writer.write_later(
            partial(audit.record, who=self.key.id, what=what, target=target, origin=self.origin), last=True
        )


def needs(scope: Scope, *, takes_traces: bool = False) -> Callable[[Request], AsyncIterator[Access]]:
    """Return a dependency that admits requests whose key has a scope.

    Args:
        scope: What the key must be allowed to do.
        takes_traces: Whether the body is a trace, which takes far more time and memory than others. It counts as
            several requests in flight, depending on its size, and the largest one as all that the key may have.
    """

    async def admitted(request: Request) -> AsyncIterator[Access]:
        state = state_of(request)
        origin = request.client.host if request.client is not None else "-"
        key = await _key_of(request, state, origin)
        access = Access(key, state, origin, request.state.request_id)
        if not key.allows(scope):
            access.record("access.rejected", scope)
            raise ApiError(403, f"The key does not have the scope {scope}.")
        share = _share_of(request, state.service.settings.max_trace_mb * 1_000_000) if takes_traces else 0.0
        with ExitStack() as in_flight:
            try:
                state.limits.check_rate(key)
                in_flight.enter_context(state.limits.request(key, share))
            except OverLimitError as error:
                if takes_traces:  # a client that does not wait would send the next one at once
                    await asyncio.sleep(_PAUSE)
                raise _over(error) from None
            yield access

    return admitted


def _share_of(request: Request, largest: int) -> float:
    """Return how large a body is, compared with the largest one; a client that does not say it may send that."""
    length = request.headers.get("content-length", "")
    return min(1.0, int(length) / largest) if length.isascii() and length.isdigit() else 1.0


async def check_budget(access: Access) -> None:
    """Check that its answers, and learning from its feedback, have not cost more than its budget today.

    Args:
        access: The access of the request.

    Raises:
        ApiError: They have.
    """
    if access.key.budget is None:
        return
    try:
        await anyio.to_thread.run_sync(access.state.limits.check_budget, access.key)
    except OverLimitError as error:
        raise _over(error) from None


async def add_cost(access: Access, usage: Usage) -> None:
    """Count what an answer has cost, if the key has a budget.

    Args:
        access: The access of the request.
        usage: What the answer has used.
    """
    if access.key.budget is not None:  # in a thread: it may have to read what was spent, and wait for the database
        await anyio.to_thread.run_sync(access.state.limits.add_cost, access.key, usage)


def _over(error: OverLimitError) -> ApiError:
    message = str(error)
    return ApiError(429, f"{message[0].upper()}{message[1:]}.", retry_after=error.retry_after)


async def _key_of(request: Request, state: ServerState, origin: str) -> Key:
    header = request.headers.get("authorization", "")
    scheme, _, secret = header.partition(" ")
    found = None
    if scheme.lower() == "bearer" and (secret := secret.strip()):
        found = state.keys.recent(secret) or await anyio.to_thread.run_sync(state.keys.find, secret)
    if found is not None:
        return found
    try:
        state.limits.check_wrong_login(origin)
    except OverLimitError as error:
        raise _over(error) from None
    if header:
        rejected: Callable[..., Any] = partial(audit.record, who="-", what="login.rejected", origin=origin)
        state.writer.write_later(rejected, last=True)
    raise ApiError(401, "The key is missing, wrong, expired or revoked; send 'Authorization: Bearer ace_...'.")
