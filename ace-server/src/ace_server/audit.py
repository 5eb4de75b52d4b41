"""The audit log: who did what to which object, when, and from where.

Every change, every reading of text of users and every rejected login is a row. Rows are only ever added. Each contains
the hash of the row before and its own, so that a row cannot be changed, removed or exchanged without notice; the table
`audit_head` contains the first and the last number, so that rows at the ends cannot be removed either. Concurrent
writers wait for its single row.

The hashes need no key. A person who can write to the database can therefore replace the whole log by a consistent one.
To detect that, note the head that `ace server status` prints in another place, and pass it to `check(known=...)`.

A row contains ids and numbers, never text of a user; subjects have pseudonyms (`ace_server.subjects`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ace_server.database import now
from ace_server.tables import audit, audit_head

if TYPE_CHECKING:
    from ace_server.database import Database

__all__ = ["AuditCheck", "AuditHead", "check", "purge", "record"]

_GENESIS: Final = "0" * 64
"""The previous hash in the very first row."""
_LONGEST: Final = 200
"""The maximum length of what a client chose, in characters; more is cut off."""
_LONGEST_TARGET: Final = 20_000
"""The same for the ids of objects: a page of a list has up to 200."""
_ROWS_AT_ONCE: Final = 2_000


class AuditHead(NamedTuple):
    """The newest row: its number and hash. If noted elsewhere, it proves later that no row up to it was changed.

    Example:
        >>> str(AuditHead(12, "ab" * 32)) == "12:" + "ab" * 32
        True
        >>> AuditHead.parse("12:" + "ab" * 32).number
        12
    """

    number: int
    """The number of the row; 0 if there is none."""
    hash: str
    """Its hash, in hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> AuditHead:
        """Return the head that was printed as `NUMBER:HASH`.

        Args:
            text: What `str` returned.

        Raises:
            ValueError: It has another form.
        """
        number, _, digest = text.strip().partition(":")
        if not (number.isascii() and number.isdigit() and len(digest) == len(_GENESIS)):
            raise ValueError(f"the head of an audit log is written as NUMBER:HASH, got {text[:80]!r}")
        return cls(int(number), digest)


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """What a check of the whole log found."""

    rows: int
    """The number of valid rows before the first problem."""
    head: AuditHead
    """The newest row."""
    problem: str | None = None
    """The first problem, with its row; None if there is none."""


def record(
    connection: sa.Connection, *, who: str, what: str, target: str | None = None, origin: str | None = None
) -> int:
    """Add a row in a transaction of the caller, and return its number.

    Other writers of the log wait until the transaction ends. So this is the last statement of a transaction, which also
    means that no two transactions can wait for each other.

    Args:
        connection: A transaction that writes, as `Database.writing` opens it: with it, the row is committed or not.
        who: The id of a key, `worker`, `command`, or `-` if it is not known.
        what: The action, such as `release.publish`, `text.read` or `login.rejected`.
        target: The id of the object that was changed or read; several are separated by spaces.
        origin: The address of the client.
    """
    number, previous = _next(connection)
    texts = {
        "who": _clean(who),
        "what": _clean(what),
        "object": None if target is None else _clean(target, _LONGEST_TARGET),
        "origin": None if origin is None else _clean(origin),
    }
    values = {"number": number, "at": now(), **texts, "previous": previous}
    digest = _digest(values)
    connection.execute(sa.insert(audit).values(**values, hash=digest))
    connection.execute(sa.update(audit_head).values(hash=digest))
    return number


def check(database: Database, *, known: AuditHead | None = None) -> AuditCheck:
    """Check every row. Rows that are added in the meantime are not waited for.

    Args:
        known: A head that was noted earlier; it must still be in the log.
    """
    while True:
        with database.reading() as connection:
            first, head = _limits(connection)
            rows, problem = _checked(connection, first, head)
            if problem is None and known is not None:
                problem = _problem_with_known(connection, first, head, known)
            first_now, head_now = _limits(connection)
        # On Postgres, each statement sees what was committed before it. So rows may have been purged during the check,
        # or the first one may have been added.
        is_current = first_now == first and (head.number > 0 or head_now.number == 0)
        if problem is None or is_current:
            return AuditCheck(rows, head, problem)


def purge(connection: sa.Connection, before: float) -> int:
    """Delete the rows that were added before a time, and return how many. The newest row is kept.

    Args:
        connection: A transaction that writes.
        before: The time, in seconds since 1970.
    """
    newest = connection.scalar(sa.select(sa.func.max(audit.c.number)))
    young = connection.scalar(sa.select(sa.func.min(audit.c.number)).where(audit.c.at >= before))
    first = newest if young is None else young
    if first is None:
        return 0
    deleted = connection.execute(sa.delete(audit).where(audit.c.number < first)).rowcount
    if deleted:
        connection.execute(sa.update(audit_head).values(first=first))
    return deleted


def _next(connection: sa.Connection) -> tuple[int, str]:
    """Take the next number, and return it with the hash of the row before. Other writers now wait."""
    take = (
        sa.update(audit_head).values(number=audit_head.c.number + 1).returning(audit_head.c.number, audit_head.c.hash)
    )
    taken = connection.execute(take).first()
    if taken is None:
        _create_head(connection)
        taken = connection.execute(take).one()
    return taken.number, taken.hash


def _create_head(connection: sa.Connection) -> None:
    last = connection.execute(sa.select(audit.c.number, audit.c.hash).order_by(audit.c.number.desc()).limit(1)).first()
    if last is None:
        values: dict[str, object] = {"id": 1, "first": 1, "number": 0, "hash": _GENESIS}
    else:  # the head was removed. Leave a gap, so that every check reports it from now on.
        values = {"id": 1, "first": 1, "number": last.number + 1, "hash": last.hash}
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(audit_head).values(**values).on_conflict_do_nothing())


def _limits(connection: sa.Connection) -> tuple[int, AuditHead]:
    """Return the number of the oldest row that must be there, and the newest row."""
    found = connection.execute(sa.select(audit_head.c.first, audit_head.c.number, audit_head.c.hash)).first()
    return (1, AuditHead(0, _GENESIS)) if found is None else (found.first, AuditHead(found.number, found.hash))


def _checked(connection: sa.Connection, first: int, head: AuditHead) -> tuple[int, str | None]:
    """Return the number of valid rows, and the first problem."""
    if head.number == 0 and connection.scalar(sa.select(sa.func.count()).select_from(audit)):
        return 0, "the table audit_head is empty"
    rows, expected, previous = 0, first, _GENESIS if first == 1 else None
    for row in _rows(connection, head.number):
        if row.number != expected:
            what = f"row {expected} is missing" if row.number > expected else f"row {row.number} should be purged"
            return rows, what
        if previous is not None and row.previous != previous:
            return rows, f"row {row.number} does not follow row {row.number - 1}: one of them was changed or exchanged"
        if row.hash != _digest(row._asdict()):
            return rows, f"row {row.number} was changed"
        rows, expected, previous = rows + 1, expected + 1, row.hash
    if expected <= head.number:
        return rows, f"row {expected} is missing"
    if rows and previous != head.hash:
        return rows, f"row {head.number} was changed: the table audit_head has another hash"
    return rows, None


def _rows(connection: sa.Connection, last: int) -> Iterator[sa.Row[tuple[int, float, str, str, str, str, str, str]]]:
    """Yield the rows up to the last one, in order. They are read in parts."""
    after = -1
    while True:
        select = sa.select(audit).where(audit.c.number > after, audit.c.number <= last)
        part = connection.execute(select.order_by(audit.c.number).limit(_ROWS_AT_ONCE)).all()
        yield from part
        if len(part) < _ROWS_AT_ONCE:
            return
        after = part[-1].number


def _problem_with_known(connection: sa.Connection, first: int, head: AuditHead, known: AuditHead) -> str | None:
    if known.number > head.number:
        return f"row {known.number}, which was noted, is missing"
    if known.number < first:
        return f"row {known.number}, which was noted, has been purged: it cannot be compared"
    found = connection.scalar(sa.select(audit.c.hash).where(audit.c.number == known.number))
    return None if found == known.hash else f"row {known.number} is not the one that was noted"


def _digest(values: Mapping[str, object]) -> str:
    names = ("number", "at", "who", "what", "object", "origin", "previous")
    return hashlib.sha256(json.dumps([values[name] for name in names]).encode()).hexdigest()


def _clean(text: str, longest: int = _LONGEST) -> str:
    """Return a text that every database can store and every terminal can show."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text[:longest])
