"""The pseudonyms of subjects: the same in every process and with every key, and no name can be tried out."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from ace_server import tables
from ace_server.database import Database
from ace_server.rotation import open_seal, rotate
from ace_server.seal import Seal, SealError, new_key
from ace_server.subjects import Subjects


def test_a_pseudonym_is_the_same_in_every_process_and_after_a_rotation(database: Database, tmp_path: Path) -> None:
    seal = open_seal(database, tmp_path, environ={})
    subjects = Subjects(database, seal)
    first = subjects.pseudonym("jane@acme.com")
    assert Subjects(database, seal).pseudonym("jane@acme.com") == first
    assert subjects.pseudonym("bob@acme.com") != first
    rotate(database, seal)
    rotate(database, seal)
    again = Subjects(database, open_seal(database, tmp_path, environ={}))
    assert again.pseudonym("jane@acme.com") == first
    assert "jane" not in first


def test_another_database_has_other_pseudonyms(tmp_path: Path) -> None:
    found = set()
    seal = Seal([new_key()])
    for name in ("one.db", "two.db"):
        database = Database(tmp_path / name)
        database.migrate()
        found.add(Subjects(database, seal).pseudonym("jane"))
        database.close()
    assert len(found) == 2


def test_the_key_of_the_pseudonyms_is_sealed(database: Database) -> None:
    seal = Seal([new_key()])
    Subjects(database, seal).load()
    with database.reading() as connection:
        stored = bytes(connection.execute(sa.select(tables.secret.c.value)).scalar_one())
    assert len(seal.open(stored)) == 64
    with pytest.raises(SealError, match="which is not among the keys"):
        Subjects(database, Seal([new_key()])).load()
