"""Pseudonyms: the database does not contain the names under which an application knows its users.

Idempotency keys get pseudonyms too, because applications derive them from names, addresses or texts.

A pseudonym is a keyed hash of the name. The key is random, created once per database, and stored there sealed. So
pseudonyms stay the same when the keys of the seal are replaced, and without these keys, a guessed name cannot be
checked.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final, final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ace_server.tables import secret

if TYPE_CHECKING:
    from ace_server.database import Database
    from ace_server.seal import Seal

__all__ = ["Subjects"]

_NAME: Final = "subjects"
_DIGITS: Final = 32


@final
class Subjects:
    """Knows the pseudonyms of the subjects of a database. It can be used by several threads.

    Args:
        seal: Opens the key of the pseudonyms.
    """

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal
        self._key: bytes | None = None

    def load(self) -> None:
        """Read the key, or create it if there is none, so that `pseudonym` does not need the database.

        Raises:
            DatabaseUnavailableError: The database cannot be read or written.
            SealError: The key cannot be opened.
        """
        value = sa.select(secret.c.value).where(secret.c.name == _NAME)
        with self._database.reading() as connection:
            found = connection.scalar(value)
        if found is None:
            insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
            with self._database.writing() as connection:
                new = self._seal.seal(secrets.token_hex(32))
                connection.execute(insert(secret).values(name=_NAME, value=new).on_conflict_do_nothing())
                found = connection.execute(value).scalar_one()  # another process may have been first
        self._key = self._seal.open(bytes(found)).encode()

    def pseudonym(self, subject: str) -> str:
        """Return what the database contains instead of the name of a subject.

        Args:
            subject: The name, as the application sends it.

        Raises:
            DatabaseUnavailableError: The key was not loaded, and the database cannot be read or written.
        """
        return f"sub_{self._digest(subject)}"

    def idempotency(self, key: str | None) -> str | None:
        """Return what the database contains instead of an idempotency key; None if there is none.

        Args:
            key: The idempotency key, as the application sends it.

        Raises:
            DatabaseUnavailableError: The key was not loaded, and the database cannot be read or written.
        """
        return None if key is None else f"idk_{self._digest(f'idempotency key {key}')}"

    def _digest(self, text: str) -> str:
        if self._key is None:
            self.load()
        assert self._key is not None
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_DIGITS]
