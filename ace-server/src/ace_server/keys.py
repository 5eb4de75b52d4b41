"""API keys and login tokens. Both are shown once, and stored as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, final, get_args

import sqlalchemy as sa
from limits import parse_many

from ace_server import tables
from ace_server.database import Database, DatabaseUnavailableError, new_id, now

__all__ = [
    "SCOPES",
    "Key",
    "KeyRing",
    "Rights",
    "Scope",
    "add_key",
    "add_login_token",
    "has_keys",
    "hash_of",
    "list_keys",
    "revoke_key",
    "use_login_token",
]

Scope = Literal["infer", "feedback", "read", "review", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_KEY: Final = re.compile(r"ace_[\w-]{43}")
_LONGEST_NAME: Final = 200
_SECONDS_KNOWN: Final = 2.0
"""How long a key that was revoked by another process is accepted."""
_TOKEN_SECONDS: Final = 24 * 3600.0
_YEAR_3000: Final = 32_503_680_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a key or a visitor of the page may do."""

    scopes: frozenset[str]
    """The scopes."""
    book: str | None
    """The only book that it may use; None for all."""

    def allows(self, scope: Scope) -> bool:
        """Return whether it has a scope. The scope `admin` includes the others.

        Args:
            scope: The scope.
        """
        return scope in self.scopes or "admin" in self.scopes

    def is_for(self, book: str) -> bool:
        """Return whether it is for a book.

        Args:
            book: The name of the book.
        """
        return self.book is None or self.book == book


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Rights):
    """A key, without its secret."""

    id: str
    """Its id."""
    name: str
    """The name of its owner."""
    hash: str
    """The SHA-256 of the secret, hexadecimal."""
    prefix: str
    """The first 8 characters of the secret, for lists."""
    rate: str | None
    """The maximum rate of its requests, such as `60/minute`."""
    budget: float | None
    """The maximum cost of its answers per day (UTC), in USD."""
    created_at: float
    """When it was created, in seconds since 1970."""
    expires_at: float | None
    """When it expires."""
    revoked_at: float | None
    """When it was revoked."""

    @property
    def is_valid(self) -> bool:
        """Whether it was not revoked and has not expired."""
        return self.revoked_at is None and (self.expires_at is None or now() < self.expires_at)


def hash_of(secret: str) -> str:
    """Return what is stored of a key or token.

    Args:
        secret: The key or token.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add_key(
    connection: sa.Connection,
    name: str,
    scopes: Iterable[str],
    *,
    book: str | None = None,
    rate: str | None = None,
    budget: float | None = None,
    expires_at: float | None = None,
) -> tuple[str, str]:
    """Add a key.

    Args:
        connection: A transaction that writes.
        name: The name of its owner, at most 200 characters.
        scopes: What it may be used for.
        book: The only book that it is for.
        rate: The maximum rate of its requests, such as `60/minute`.
        budget: The maximum cost of its answers per day (UTC), in USD.
        expires_at: When it expires, in seconds since 1970.

    Returns:
        Its id, and the secret, which cannot be shown again.

    Raises:
        ValueError: The name is blank or too long, a scope or the rate is not known, the budget is negative, or the
            key would expire after 2999.
    """
    _check_name(name)
    wanted = list(dict.fromkeys(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise ValueError(f"no such scope: {unknown[0]!r}; the scopes are {', '.join(SCOPES)}")
    if not wanted:
        raise ValueError(f"a key needs at least one scope of {', '.join(SCOPES)}")
    if rate is not None:
        _check_rate(rate)
    if budget is not None and not 0 <= budget < float("inf"):
        raise ValueError(f"the budget must be at least 0 USD, got {budget:g}")
    if expires_at is not None and not 0 <= expires_at < _YEAR_3000:  # NaN would be stored as NULL: it never expires
        raise ValueError("a key must expire before the year 3000, or never")
    secret = f"ace_{secrets.token_urlsafe(32)}"
    identifier = new_id("key")
    connection.execute(
        sa.insert(tables.key).values(
            id=identifier,
            name=name,
            hash=hash_of(secret),
            prefix=secret[:8],
            scopes=" ".join(wanted),
            book=book,
            rate=rate,
            budget=budget,
            at=now(),
            expires_at=expires_at,
        )
    )
    return identifier, secret


def _check_name(name: str) -> None:
    if not name.strip():
        raise ValueError("the name of a key must not be blank")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"the name of a key must be at most {_LONGEST_NAME} characters long, got {len(name)}")


def _check_rate(text: str) -> None:
    try:
        found = parse_many(text)
    except ValueError:
        found = []
    if len(found) != 1 or found[0].amount < 1:  # of several rates, only the first one would be used
        raise ValueError(f"the rate must be a number and a time such as 60/minute, got {text!r}")


def revoke_key(connection: sa.Connection, key: str) -> str | None:
    """Revoke a key, and return its id; None if the key is unknown or already revoked.

    Args:
        connection: A transaction that writes.
        key: The id of the key, or its first 8 characters if no other key has them.
    """
    found = [known for known in list_keys(connection) if known.id == key or known.prefix == key]
    if len(found) != 1 or found[0].revoked_at is not None:
        return None
    connection.execute(sa.update(tables.key).where(tables.key.c.id == found[0].id).values(revoked_at=now()))
    return found[0].id


def list_keys(connection: sa.Connection) -> list[Key]:
    """Return all keys, the oldest first.

    Args:
        connection: A transaction.
    """
    return list(_keys(connection, sa.select(tables.key).order_by(tables.key.c.id)))


def _keys(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Key]:
    for row in connection.execute(query):
        yield Key(
            id=row.id,
            name=row.name,
            hash=row.hash,
            prefix=row.prefix,
            scopes=frozenset(row.scopes.split()),
            book=row.book,
            rate=row.rate,
            budget=row.budget,
            created_at=row.at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
        )


def has_keys(connection: sa.Connection) -> bool:
    """Return whether a key was ever added.

    Args:
        connection: A transaction.
    """
    return connection.scalar(sa.select(tables.key.c.id).limit(1)) is not None


def add_login_token(connection: sa.Connection) -> str:
    """Add a token that opens the page once, and return it.

    Args:
        connection: A transaction that writes.
    """
    token = secrets.token_urlsafe(32)
    moment = now()
    connection.execute(
        sa.insert(tables.login_token).values(hash=hash_of(token), at=moment, expires_at=moment + _TOKEN_SECONDS)
    )
    return token


def use_login_token(connection: sa.Connection, token: str) -> bool:
    """Consume a token, and return whether it was valid.

    Args:
        connection: A transaction that writes.
        token: The token.
    """
    table = tables.login_token
    used = connection.execute(
        sa.update(table)
        .where(table.c.hash == hash_of(token), table.c.used_at.is_(None), table.c.expires_at > now())
        .values(used_at=now())
    )
    return used.rowcount == 1


@final
class KeyRing:
    """Finds keys by their secrets. They are cached, so that they are known while the database cannot be reached.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._keys: dict[str, Key] = {}
        self._read_at = float("-inf")

    def recent(self, secret: str) -> Key | None:
        """Return the key without a query; None if the database must be queried, or the key is not valid.

        Args:
            secret: What the client sent.
        """
        if now() - self._read_at > _SECONDS_KNOWN:
            return None
        found = self._keys.get(hash_of(secret))
        return found if found is not None and found.is_valid else None

    def find(self, secret: str) -> Key | None:
        """Return the key, or None if it is not valid.

        Args:
            secret: What the client sent.

        Raises:
            DatabaseUnavailableError: The key is not known, and the database cannot be read.
        """
        if _KEY.fullmatch(secret) is None:
            return None
        digest = hash_of(secret)
        found = self._known().get(digest)
        if found is None:
            found = self._read(tables.key.c.hash == digest)  # perhaps it has just been added
        if found is None or not hmac.compare_digest(found.hash, digest) or not found.is_valid:
            return None
        return found

    def with_id(self, identifier: str) -> Key | None:
        """Return the key with an id, or None if it is not valid.

        Args:
            identifier: Its id.

        Raises:
            DatabaseUnavailableError: The key is not known, and the database cannot be read.
        """
        found = next((key for key in self._known().values() if key.id == identifier), None)
        if found is None:  # perhaps it has just been added
            found = self._read(tables.key.c.id == identifier)
        return found if found is not None and found.is_valid else None

    def forget(self) -> None:
        """Read the keys again at their next use. It waits for a thread that reads them, which may have the old ones."""
        with self._lock:
            self._read_at = float("-inf")

    def _known(self) -> dict[str, Key]:
        with self._lock:
            if now() - self._read_at > _SECONDS_KNOWN:
                try:
                    with self._database.reading() as connection:
                        self._keys = {key.hash: key for key in list_keys(connection)}
                except DatabaseUnavailableError:
                    if self._read_at == float("-inf"):
                        raise
                self._read_at = now()
            return self._keys

    def _read(self, condition: sa.ColumnElement[bool]) -> Key | None:
        with self._database.reading() as connection:
            return next(_keys(connection, sa.select(tables.key).where(condition)), None)
