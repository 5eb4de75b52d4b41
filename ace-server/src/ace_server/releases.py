"""Releases: the versions of a book that answers are based on."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ace_server import tables
from ace_server.database import new_id, now

__all__ = ["UnknownReleaseError", "add_release", "publish", "supersede"]

_RELEASE: Final = tables.release


class UnknownReleaseError(LookupError):
    """There is no release with this id."""


def add_release(
    connection: sa.Connection,
    book: str,
    version: int,
    *,
    by: str,
    reason: str | None = None,
    score: float | None = None,
    batch: str | None = None,
) -> str:
    """Add a candidate and return its id, or that of the existing release of this version.

    Args:
        connection: A transaction that writes.
        book: The name of the book.
        version: The version of its skillbook.
        by: The id of the key, or `worker`.
        reason: The reason, as text.
        score: The held-out score, from 0 to 1.
        batch: The batch that ended with this version.
    """
    known: str | None = connection.scalar(
        sa.select(_RELEASE.c.id).where(_RELEASE.c.book == book, _RELEASE.c.version == version)
    )
    if known is not None:
        return known
    release = new_id("rel")
    values = {"book": book, "version": version, "by": by, "reason": reason, "score": score, "batch": batch}
    connection.execute(sa.insert(_RELEASE).values(id=release, at=now(), state="candidate", **values))
    return release


def publish(connection: sa.Connection, release: str, *, by: str, reason: str | None = None) -> bool:
    """Publish a release, also one that was published before. The one that is published now is retired.

    Older candidates are retired too, and their reviews are superseded: publishing one of them later would roll
    back what users have now.

    Args:
        connection: A transaction that writes.
        release: The id of the release.
        by: The id of the key, or `worker`.
        reason: The reason, as text.

    Returns:
        Whether it was not published already.

    Raises:
        UnknownReleaseError: The release does not exist.
    """
    found = connection.execute(sa.select(_RELEASE.c.book, _RELEASE.c.version).where(_RELEASE.c.id == release)).first()
    if found is None:
        raise UnknownReleaseError(f"no such release: {release!r}")
    # Locks the row of the book on Postgres, where two may publish at once; SQLite has one writer.
    connection.execute(sa.select(tables.book.c.name).where(tables.book.c.name == found.book).with_for_update())
    state = connection.scalar(sa.select(_RELEASE.c.state).where(_RELEASE.c.id == release))
    if state == "published":
        return False
    connection.execute(
        sa.update(_RELEASE)
        .where(_RELEASE.c.book == found.book, _RELEASE.c.state == "published")
        .values(state="retired")
    )
    changes: dict[str, object] = {"state": "published", "published_at": now(), "published_by": by}
    connection.execute(
        sa.update(_RELEASE)
        .where(_RELEASE.c.id == release)
        .values(changes | ({} if reason is None else {"reason": reason}))
    )
    supersede(connection, found.book, _RELEASE.c.version < found.version)
    review = tables.review
    waiting = sa.update(review).where(review.c.release == release, review.c.state == "open")
    connection.execute(waiting.values(state="accepted", decided_at=now(), decided_by=by))
    return True


def supersede(connection: sa.Connection, book: str, which: sa.ColumnElement[bool]) -> int:
    """Retire candidates of a book that no one has to decide about any more, and close their reviews.

    Args:
        connection: A transaction that writes.
        book: The name of the book.
        which: A condition for the candidates.

    Returns:
        How many there were.
    """
    of_book = sa.select(_RELEASE.c.id).where(_RELEASE.c.book == book, _RELEASE.c.state == "candidate", which)
    ids = list(connection.scalars(of_book))
    if ids:
        review = tables.review
        connection.execute(sa.update(_RELEASE).where(_RELEASE.c.id.in_(ids)).values(state="retired"))
        waiting = sa.update(review).where(review.c.release.in_(ids), review.c.state == "open")
        connection.execute(waiting.values(state="superseded", decided_at=now()))
    return len(ids)
