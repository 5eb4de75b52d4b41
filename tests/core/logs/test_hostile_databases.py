"""The database of an agent that a stranger has prepared does not keep us busy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ace.logs.sqlite import opened, rows_of
from tests.core.logs.test_opencode import stored, user
from tests.support.command_line import Run

ENDLESS = "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n)"
COLUMNS = {
    "part": "a AS id, 'm' AS message_id, 's' AS session_id, '{}' AS data",
    "message": "a AS id, 's' AS session_id, a AS time_created, '' AS data",
    "session": "a AS id, '' AS parent_id, '' AS directory, 1 AS time_created",
}


@pytest.mark.parametrize("table", COLUMNS)
def test_a_view_in_the_place_of_a_table_is_not_read(tmp_path: Path, here: Run, table: str) -> None:
    path = stored(tmp_path / "opencode.db", {"s": [user("Hello.")]}, {})
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"DROP TABLE {table}; CREATE VIEW {table} AS {ENDLESS} SELECT {COLUMNS[table]} FROM n")
    done = here("inspect", str(path))
    assert done.code in (1, 2) and "opencode.db" in done.err + done.out
    assert done.err.count("\n") <= 3, done.err


def test_tables_beside_a_view_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT * FROM t, t AS u")
    with opened(path) as connection:
        assert list(rows_of(connection, "SELECT * FROM t")) == [{"a": 1}]
        with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized"):
            list(rows_of(connection, "SELECT * FROM v"))
