"""The keys of a database: checked when the service starts, and replaced while it runs.

The table `seal_key` lists the keys with which rows may be sealed, so that a start does not have to read every row to
know that a key is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ace_server import audit
from ace_server.database import now
from ace_server.retention import scrub
from ace_server.seal import KEY_ID_LENGTH, KEYS_FILE, KEYS_VARIABLE, Seal, SealError
from ace_server.tables import METADATA, seal_key

if TYPE_CHECKING:
    from ace_server.database import Database

__all__ = ["Rotation", "open_seal", "rotate"]

_ROWS_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation of the keys."""

    key: str
    """The identifier of the key that seals now."""
    rows: int
    """The number of rows that were sealed again."""
    unreadable: int
    """The number of rows that could not be opened, and were not changed."""
    is_scrubbed: bool
    """Whether what was sealed with older keys is no longer in the files of the database."""


def open_seal(database: Database, folder: Path | None, *, environ: Mapping[str, str] | None = None) -> Seal:
    """Return the seal of a database, with a new key if there is none yet.

    Args:
        database: The database, with the tables of this version.
        folder: The data folder, for `seal.keys`; None if keys can only come from the environment.
        environ: The environment; by default that of this process.

    Raises:
        SealError: A key is missing, wrong or not safe. The text says what to do.
    """
    seal = Seal.load(folder, environ=environ)
    known = () if seal is None else seal.key_ids
    with database.reading() as connection:
        unknown = [id for id in connection.scalars(sa.select(seal_key.c.id)) if id not in known]
        missing = [id for id in unknown if _is_used(connection, id)]
    if missing:
        raise SealError(_missing_keys(database, missing, known, None if folder is None else folder / KEYS_FILE))
    if seal is None:
        if folder is None:
            raise SealError(f"a key is needed to seal texts; set {KEYS_VARIABLE} to a key, or name a data folder")
        seal = Seal.create(folder)
    _list_key(database, seal.first_key_id)
    _unlist_keys(database, unknown)
    return seal


def rotate(database: Database, seal: Seal, *, by: str = "command") -> Rotation:
    """Seal all rows again with another key, in small transactions, while the service runs.

    If the keys are in a file, a new key is put first; keys that an earlier rotation has replaced are removed. If they
    come from the environment, its first key is used: restart all processes with the new key first.

    A rotation that was interrupted is completed by the next one.

    Args:
        database: The database.
        seal: The keys.
        by: Who asked for it, for the audit log.

    Raises:
        SealError: The file of the keys cannot be changed.
        DatabaseUnavailableError: The database cannot be written.
    """
    if seal.file is not None:
        with database.reading() as connection:
            unused = [id for id in seal.key_ids[1:] if not _is_used(connection, id)]
        seal.drop_keys(unused)
        _list_key(database, seal.add_first_key())
        _unlist_keys(database, unused)
    key = seal.first_key_id
    rows = unreadable = 0
    while True:
        changed, unreadable = _seal_again(database, seal, key)
        rows += changed
        if changed == 0:
            break
    # A row that was sealed with the older key may be written only now. Therefore that key stays in the file and in the
    # table until the next rotation, which seals such a row again.
    with database.writing() as connection:
        audit.record(connection, who=by, what="seal.rotate", target=key)
    return Rotation(key, rows, unreadable, scrub(database))


def _missing_keys(database: Database, missing: Sequence[str], known: Sequence[str], file: Path | None) -> str:
    have = f"not among the keys ({', '.join(known)})" if known else "missing"
    where = KEYS_VARIABLE if file is None else f"{KEYS_VARIABLE} or {str(file)!r}"
    return (
        f"texts in {database.shown} are sealed with the key {', '.join(missing)}, which is {have}; "
        f"add the key to {where}, or restore it from a backup"
    )


def _list_key(database: Database, key: str) -> None:
    insert = sqlite.insert if database.is_sqlite else postgresql.insert
    with database.writing() as connection:
        connection.execute(insert(seal_key).values(id=key, at=now()).on_conflict_do_nothing())


def _unlist_keys(database: Database, unused: Sequence[str]) -> None:
    if unused:
        with database.writing() as connection:
            connection.execute(sa.delete(seal_key).where(seal_key.c.id.in_(unused)))


def _sealed_columns() -> list[tuple[sa.Table, list[sa.Column[bytes]]]]:
    """Return the tables with sealed columns, and these."""
    found = [(table, [column for column in table.c if column.info.get("sealed")]) for table in METADATA.sorted_tables]
    return [(table, columns) for table, columns in found if columns]


def _is_used(connection: sa.Connection, key: str) -> bool:
    """Return whether any row is sealed with a key. It reads all rows if not."""
    return any(
        connection.scalar(sa.select(sa.literal(1)).where(_has_key(column, key)).limit(1)) is not None
        for _, columns in _sealed_columns()
        for column in columns
    )


def _has_key(column: sa.Column[bytes], key: str) -> sa.ColumnElement[bool]:
    return sa.func.substr(column, 1, KEY_ID_LENGTH, type_=sa.LargeBinary) == sa.literal(key.encode(), sa.LargeBinary)


def _seal_again(database: Database, seal: Seal, key: str) -> tuple[int, int]:
    """Seal the rows that have another key, and return how many; and how many could not be opened."""
    changed = unreadable = 0
    for table, columns in _sealed_columns():
        (identifier,) = table.primary_key.columns
        outdated = sa.or_(*(column.is_not(None) & ~_has_key(column, key) for column in columns))
        after = ""
        while True:
            select = sa.select(identifier, *columns).where(outdated & (identifier > after)).order_by(identifier)
            with database.writing() as connection:
                rows = connection.execute(select.limit(_ROWS_AT_ONCE)).all()
                for row in rows:
                    values, is_readable = _sealed_again(seal, key, row._asdict())
                    unreadable += not is_readable
                    if values:
                        # Only what is still as it was read: on Postgres, the service may change it at the same time.
                        same = [table.c[name] == row._mapping[name] for name in values]
                        change = sa.update(table).where(identifier == row[0], *same).values(**values)
                        changed += connection.execute(change).rowcount
            if len(rows) < _ROWS_AT_ONCE:
                break
            after = rows[-1][0]
    return changed, unreadable


def _sealed_again(seal: Seal, key: str, row: Mapping[str, object]) -> tuple[dict[str, bytes], bool]:
    """Return the columns of a row that have another key, sealed again, and whether all of them could be opened."""
    values: dict[str, bytes] = {}
    is_readable = True
    for name, value in row.items():
        if not isinstance(value, bytes | memoryview) or bytes(value).startswith(key.encode()):
            continue
        try:
            values[name] = seal.seal(seal.open(bytes(value)))
        except SealError:
            is_readable = False
    return values, is_readable
