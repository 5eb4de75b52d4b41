"""Opens the service: its data folder, its database, its keys and its first book."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ace import Skillbook
from ace.integrations import UsageError, open_private
from ace.skillbook import has_scheme
from ace_server import audit, keys, releases, tables
from ace_server.anonymise import load_finder
from ace_server.data_folder import create_data_folder
from ace_server.database import Database, now
from ace_server.rotation import open_seal
from ace_server.seal import KEYS_FILE, KEYS_VARIABLE, Seal
from ace_server.settings import BOOK_NAME, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "ADMIN_KEY",
    "add_book",
    "book_opener",
    "check_skillbook",
    "first_admin_key",
    "opened_database",
    "opened_seal",
    "publish_first",
]

ADMIN_KEY: Final = "admin.key"
"""The file in the data folder with the first key."""


def opened_database(settings: ServerSettings, *, create: bool = False) -> Database:
    """Open the database, and migrate its tables to this version.

    Args:
        create: Whether to create the data folder and the database if they do not exist.

    Raises:
        UsageError: There is none.
        DatabaseVersionError: A newer version of ace-server has changed it.
        DatabaseUnavailableError: It cannot be reached or changed.
    """
    if settings.database is None:
        if not create and not (settings.data / "server.db").exists():
            raise UsageError(f"no service in {str(settings.data)!r}; start one with 'ace server run'")
        create_data_folder(settings.data)
    database = Database(settings.database_location)
    try:
        if not database.is_current():
            database.migrate()
    except BaseException:
        database.close()
        raise
    return database


def opened_seal(settings: ServerSettings, database: Database) -> Seal:
    """Return the seal. A new service makes its key in the data folder, unless it is on Postgres, which hosts share.

    Raises:
        UsageError: The keys are missing.
    """
    folder = settings.data if settings.database is None or (settings.data / KEYS_FILE).exists() else None
    if folder is None and not os.environ.get(KEYS_VARIABLE):
        raise UsageError(
            f"no key to seal texts with: set {KEYS_VARIABLE} to the same key on all hosts; "
            "'ace server seal new' prints a new one"
        )
    return open_seal(database, folder)


def first_admin_key(settings: ServerSettings, database: Database) -> Path | None:
    """Add a key with all scopes if there are no keys, and return the file that it was written to.

    Raises:
        UsageError: It cannot be written.
    """
    with database.writing() as connection:
        if keys.has_keys(connection):
            return None
        create_data_folder(settings.data)
        identifier, secret = keys.add_key(connection, "admin", ["admin"])
        file = settings.data / ADMIN_KEY
        try:
            with open(file, "w", encoding="ascii", opener=open_private) as stream:
                stream.write(f"{secret}\n")
        except OSError as error:
            raise UsageError(f"the key cannot be written to {str(file)!r}: {error.strerror or error}") from error
        audit.record(connection, who="command", what="key.add", target=identifier)
    return file


def add_book(
    settings: ServerSettings,
    database: Database,
    name: str,
    *,
    location: str | None = None,
    skills_from: str | None = None,
    exist_ok: bool = False,
    anonymise: bool | None = None,
    anonymiser: str | None = None,
) -> bool:
    """Add a book, and publish the skills that it has.

    Args:
        name: Its name.
        location: Its location; by default in the data folder or in the database.
        skills_from: A skillbook from which the initial skills are copied.
        exist_ok: Whether it may exist already; its location is then changed to the given one.
        anonymise: Whether personal data is replaced before a model gets it; by default as in the settings.
        anonymiser: The class that finds it, as `package.module:Class`.

    Returns:
        Whether it was added.

    Raises:
        UsageError: It exists or has an invalid name, a skillbook does not exist, or the anonymiser cannot be loaded.
        SkillbookError: A skillbook cannot be read or written.
    """
    if re.fullmatch(BOOK_NAME, name) is None:  # no request could name it
        raise UsageError(
            "the name of a book must begin with a letter or a digit and have at most 64 letters, digits, "
            f"'.', '_' and '-', got {name!r}"
        )
    if anonymiser is not None:
        load_finder(anonymiser)
    where = None if location is None or has_scheme(location) else str(Path(location).resolve())
    where = location if where is None else where
    with database.writing() as connection:
        row = connection.execute(sa.select(tables.book).where(tables.book.c.name == name)).first()
        if row is not None and not exist_ok:
            raise UsageError(f"the book {name!r} exists already")
        if row is None:
            connection.execute(
                sa.insert(tables.book).values(
                    name=name,
                    location=where,
                    learning=settings.learning,
                    publish=settings.publish,
                    anonymise=settings.anonymise if anonymise is None else anonymise,
                    anonymiser=anonymiser,
                    at=now(),
                )
            )
        elif where is not None and where != row.location:
            connection.execute(sa.update(tables.book).where(tables.book.c.name == name).values(location=where))
            # The versions of its releases are those of another skillbook.
            release = tables.release
            connection.execute(sa.delete(release).where(release.c.book == name))
        if row is None or (where is not None and where != row.location):
            audit.record(connection, who="command", what="book.add", target=name)
    if skills_from is not None:
        _import(skills_from, where or settings.book_location(name))
    publish_first(settings, database, [name])
    return row is None


def check_skillbook(location: str) -> None:
    """Check that a skillbook exists, if it is a file: opening one that does not exist would create it.

    Args:
        location: Its location, as the user gave it.

    Raises:
        UsageError: The file does not exist.
    """
    if not has_scheme(location) and not Path(location).is_file():
        raise UsageError(f"no such skillbook: {location!r}")


def _import(source: str, target: str) -> None:
    check_skillbook(source)
    with Skillbook.open(source) as old, Skillbook.open(target) as new:
        new.import_skills(old)


def publish_first(settings: ServerSettings, database: Database, books: Sequence[str]) -> None:
    """Publish the current version of books that have skills but no release.

    Args:
        books: The names of the books.
    """
    for name in books:
        with database.reading() as connection:
            book = connection.execute(sa.select(tables.book).where(tables.book.c.name == name)).one()
            release = tables.release
            has_release = connection.scalar(sa.select(release.c.id).where(release.c.book == name).limit(1)) is not None
        if has_release:
            continue
        with Skillbook.open(book.location or settings.book_location(name)) as opened:
            version = opened.version
            if version is None:
                raise UsageError(f"the book {name!r} is a file without a history; import it into a .db file")
        if version == 0:
            continue
        with database.writing() as connection:
            added = releases.add_release(connection, name, version, by="command", reason="the skills that it had")
            if releases.publish(connection, added, by="command"):
                audit.record(connection, who="command", what="release.publish", target=added)


def book_opener(settings: ServerSettings, database: Database) -> Callable[[str], Skillbook]:
    """Return a function that opens the skillbook of a book, as `Service.open_book` does."""

    def open_book(name: str) -> Skillbook:
        with database.reading() as connection:
            location = connection.scalar(sa.select(tables.book.c.location).where(tables.book.c.name == name))
        return Skillbook.open(location or settings.book_location(name))

    return open_book
