"""What the parts of the service share: the settings, the database, the seal and the model.

The parts call each other through these functions:

- `ace_server.jobs.start_worker(service) -> RunningWorker` starts the worker of this process, which makes batches and
  learns from them in threads of its own. `ace server run` and `ace server worker` call it, and `stop()` at SIGTERM.
- `ace_server.releases.publish(connection, release_id, by=..., reason=...)` publishes a release: from the API, the page
  and the worker.
- `ace_server.pages.routes(service) -> Sequence[BaseRoute]` are the routes of the page, which the app mounts at `/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from ace_server import tables

if TYPE_CHECKING:
    from ace import Skillbook
    from ace.protocols import LLMClientLike
    from ace_server.database import Database
    from ace_server.seal import Seal
    from ace_server.settings import ServerSettings

__all__ = ["RunningWorker", "Service", "UnknownBookError"]


class UnknownBookError(LookupError):
    """There is no book of this name."""


class RunningWorker(Protocol):
    """The worker of this process."""

    def stop(self) -> None:
        """Stop at the end of the samples that are being learned from. Their batches stay queued."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of the service. It is shared by all threads."""

    settings: ServerSettings
    """The settings."""
    database: Database
    """The tables, migrated to this version."""
    seal: Seal
    """Seals and opens the texts of users."""
    client: LLMClientLike
    """The client of the model, for answers and for learning."""
    model: str
    """The model string."""

    def book_location(self, name: str) -> str:
        """Return the location of the skillbook of a book. It may contain a password.

        Args:
            name: The name of the book.

        Raises:
            UnknownBookError: The book does not exist.
        """
        with self.database.reading() as connection:
            row = connection.execute(sa.select(tables.book.c.location).where(tables.book.c.name == name)).first()
        if row is None:
            raise UnknownBookError(f"no such book: {name!r}")
        return self.settings.book_location(name) if row.location is None else row.location

    def open_book(self, name: str) -> Skillbook:
        """Open the skillbook of a book. It is closed with `Skillbook.close`.

        Args:
            name: The name of the book.

        Raises:
            UnknownBookError: The book does not exist.
            SkillbookError: It cannot be opened.
        """
        from ace import Skillbook

        return Skillbook.open(self.book_location(name))
