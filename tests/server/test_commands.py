"""The commands beside `ace server run`: keys, books, encryption keys, purge, status and migrations."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace import Skillbook
from ace_server import audit, tables
from ace_server.database import Database, now
from ace_server.settings import ServerSettings, load_settings
from ace_server.status import status_of
from tests.server.server_process import ServerProcess
from tests.support.command_line import Run, ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


def test_a_service_is_set_up_by_commands(here: Run, tmp_path: Path) -> None:
    assert here("server", "status").code == 2
    assert here("server", "migrate").code == 0
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("lessons", "Remember LESSON rain.")
    added = here("server", "books", "add", "support", "--from", "skills.db")
    assert added.code == 0, added.err
    [row] = here("server", "books", "list", "--json").data["books"]
    assert (row["name"], row["version"]) == ("support", 1)
    made = here(
        *("server", "keys", "add", "shop", "--scope", "infer,feedback", "--book", "support"),
        *("--rate", "60/minute", "--budget", "5/day", "--expires", "30"),
    )
    secret = made.out.strip()
    assert secret.startswith("ace_")
    assert len(secret) == 47
    [key] = here("server", "keys", "list", "--json").data["keys"]
    assert secret not in str(key)
    assert (key["prefix"], key["scopes"], key["book"], key["rate"], key["budget"]) == (
        secret[:8], ["feedback", "infer"], "support", "60/minute", 5.0,
    )  # fmt: skip
    assert here("server", "keys", "revoke", secret[:8]).code == 0
    assert here("server", "keys", "revoke", secret[:8]).code == 2
    assert here("server", "seal", "rotate").code == 0
    purged = here("server", "purge", "--dry-run")
    assert purged.code == 0, purged.err
    status = here("server", "status")
    assert status.code == 0, status.err
    assert "support: version 1" in status.out
    files = [path for path in (tmp_path / "ace-server").rglob("*") if path.is_file()]
    assert {stat.filemode(path.stat().st_mode) for path in files} == {"-rw-------"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scope", "infer,fly"], "no such scope: 'fly'"),
        (["--scope", ""], "at least one scope"),
        (["--scope", "read", "--rate", "often"], "such as 60/minute"),
        (["--scope", "read", "--rate", "0/minute"], "such as 60/minute"),
        (["--scope", "read", "--rate", "5/minute;9/hour"], "such as 60/minute"),
        (["--scope", "read", "--budget", "5/week"], "such as 5/day"),
        (["--scope", "read", "--expires", "0"], "greater than 0"),
        (["--scope", "read", "--book", "missing"], "no such book"),
    ],
)
def test_a_key_that_makes_no_request_possible_is_not_added(here: Run, words: list[str], said: str) -> None:
    assert here("server", "migrate").code == 0
    done = here("server", "keys", "add", "shop", *words)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("name", ["", "bad name", "../outside", ".hidden", "b" * 65])
def test_a_book_that_no_request_could_name_is_not_added(here: Run, tmp_path: Path, name: str) -> None:
    assert here("server", "migrate").code == 0
    done = here("server", "books", "add", name)
    assert (done.code, f"got {name!r}" in done.err) == (2, True), done.err
    assert here("server", "books", "list", "--json").data["books"] == []
    assert not list(tmp_path.rglob("outside.db"))
    assert here("server", "books", "add", "b" * 64).code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "must not be blank"),
        (" ", "must not be blank"),
        ("n" * 201, "at most 200 characters long, got 201"),
    ],
)
def test_the_name_of_a_key_is_neither_blank_nor_long(here: Run, name: str, said: str) -> None:
    assert here("server", "migrate").code == 0
    done = here("server", "keys", "add", name, "--scope", "read")
    assert done.code == 2
    assert said in done.err
    assert here("server", "keys", "add", "n" * 200, "--scope", "read").code == 0


def test_a_database_of_a_newer_version_is_left_alone(here: Run, tmp_path: Path) -> None:
    assert here("server", "migrate").code == 0
    with closing(sqlite3.connect(tmp_path / "ace-server" / "server.db")) as connection, connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for words in (["migrate"], ["status"], ["run", "--model", "openai/none"]):
        done = here("server", *words, environ={"OPENAI_API_KEY": "none"})
        assert done.code == 1, words
        assert "install a newer ace-server" in done.err
    with closing(sqlite3.connect(tmp_path / "ace-server" / "server.db")) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchone() == (99,)


def test_a_missing_key_of_encryption_is_noticed(tmp_path: Path) -> None:
    with ScriptedServer(learning_script()) as model, ServerProcess(tmp_path, model.api_base, "--no-worker") as server:
        server.post("/v1/answers", {"question": "What about rain?"})
        assert server.stop() == 0
    (tmp_path / "ace-server" / "seal.keys").unlink()
    done = ace("server", "run", "--model", "openai/none", folder=tmp_path, environ={"OPENAI_API_KEY": "none"})
    assert done.code == 2
    assert "seal.keys" in done.err


def test_requests_in_flight_finish_when_the_service_is_stopped(tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()
    plain = learning_script()

    def script(request: ScriptedRequest) -> Any:  # what a script returns
        entered.set()
        leave.wait()
        return plain(request)

    with ScriptedServer(script) as model, ServerProcess(tmp_path, model.api_base, "--no-worker") as server:
        found: list[str] = []
        asking = threading.Thread(
            target=lambda: found.append(server.post("/v1/answers", {"question": "What about rain?"})["answer"])
        )
        asking.start()
        assert entered.wait(60)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        while accepts(server.address):
            time.sleep(0.02)
        leave.set()
        asking.join()
        stopping.join()
        assert found == ["unknown"]
        assert server.process.returncode == 0


def accepts(address: str) -> bool:
    """Whether a new connection is accepted."""
    import socket

    host, _, port = address.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def test_settings_come_from_files_and_variables(here: Run, tmp_path: Path) -> None:
    (tmp_path / "ace.toml").write_text(
        'model = "openai/gpt-4o"\n[server]\nbatch_size = 7\nport = 9\n', encoding="utf-8"
    )
    environ = {"HOME": str(tmp_path), "ACE_SERVER_PORT": "10", "ACE_SERVER_HOSTS": "a.example, b.example"}
    found = load_settings({"host": "127.0.0.2", "data": None}, environ=environ, folder=tmp_path)
    assert (found.batch_size, found.port, found.host, found.hosts) == (7, 10, "127.0.0.2", ("a.example", "b.example"))
    assert here("config").code == 0, "other commands accept the table"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\ncolour = 1\n", "no such setting in [server]: 'colour'"),
        ("[server]\nbatch_size = 0\n", "batch_size must be a whole number of at least 1, got 0"),
        ("[server]\nbatch_size = true\n", "'batch_size' in [server] must be a whole number"),
        ("[server]\nport = -1\n", "port must be a whole number of at least 0, got -1"),
        ('[server]\ndatabase = "postgresql://x/y"\n', "not in the file of a project"),
        ('[server]\nkeys = "abc"\n', "do not belong in a file"),
    ],
)
def test_a_setting_that_cannot_be_used_is_reported_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ace.toml").write_text(text, encoding="utf-8")
    with pytest.raises(Exception, match="setting") as error:
        load_settings(environ={"HOME": str(tmp_path)}, folder=tmp_path)
    assert type(error.value).__name__ == "UsageError"
    assert said in str(error.value)


def test_a_setting_out_of_range_is_an_error_in_python_too() -> None:
    with pytest.raises(ValueError, match="sync_seconds"):
        ServerSettings(sync_seconds=0)
    with pytest.raises(ValueError, match="postgresql://"):
        ServerSettings(database="mysql://x")


def test_the_status_says_in_words_what_is_right_and_what_is_not(tmp_path: Path) -> None:
    settings = ServerSettings(data=tmp_path)
    database = Database(tmp_path / "server.db")
    database.migrate()
    with database.writing() as connection:
        for name, learning in (("a", "off"), ("b", "reviewed")):
            connection.execute(sa.insert(tables.book).values(name=name, learning=learning, at=now()))
        for number in range(2):
            batch = {"id": f"bat_{number}", "at": now(), "book": "a", "state": "failed", "samples": 1}
            connection.execute(sa.insert(tables.batch).values(batch))
        for number in range(3):
            audit.record(connection, who="key_1", what="text.read", target=f"req_{number}")
    shown = "\n".join(status_of(database, settings).lines())
    assert f"a: no release, does not learn, 0 new feedback items, at {tmp_path}/books/a.db" in shown
    assert "b: no release, learns from reviewed feedback" in shown
    assert "audit log: 3 rows, all right; head 3:" in shown
    assert "problem: 2 batches failed" in shown
    with database.writing() as connection:
        connection.execute(sa.update(tables.audit).where(tables.audit.c.number == 2).values(who="nobody"))
    shown = "\n".join(status_of(database, settings).lines())
    database.close()
    assert "audit log: 1 row right, and then row 2 was changed; head 3:" in shown
    assert "problem: the audit log was changed: row 2 was changed" in shown


def test_a_data_folder_that_came_with_a_clone_is_only_used_if_it_is_named(
    here: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It has API keys, places of books and a class to load, all of a stranger."""
    stranger = tmp_path_factory.mktemp("stranger")
    assert ace("server", "migrate", folder=stranger).code == 0
    assert ace("server", "keys", "add", "evil", "--scope", "admin", folder=stranger).code == 0
    shutil.copytree(stranger / "ace-server", tmp_path / "ace-server")
    before = {path: path.read_bytes() for path in (tmp_path / "ace-server").rglob("*") if path.is_file()}
    for command in (["run", "--port", "0"], ["keys", "list"], ["status"], ["migrate"], ["worker"], ["books", "list"]):
        refused = here("server", *command)
        assert refused.code == 2, (command, refused.err)
        assert "was not created here" in refused.err and "--data ace-server" in refused.err
    assert {path: path.read_bytes() for path in (tmp_path / "ace-server").rglob("*") if path.is_file()} == before
    assert here("server", "keys", "list", "--data", "ace-server").code == 0
    assert "evil" in here("server", "keys", "list").out  # it has been named, so it is known from now on


def test_an_empty_data_folder_of_the_user_is_used(here: Run, tmp_path: Path) -> None:
    (tmp_path / "ace-server" / "logs").mkdir(parents=True)
    assert here("server", "migrate").code == 0
    assert here("server", "status").code == 0
