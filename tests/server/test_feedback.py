"""Feedback and traces: durable, once, and only for whom they are meant."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection

from ace_server import tables
from ace_server.database import Database
from tests.server.api import Api, add_book, running_api
from tests.support.postgres_server import PostgresServer


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with running_api(database, tmp_path, feedback_wait=0.2) as found:
        yield found


def test_feedback_is_stored_sealed_when_it_is_acknowledged(api: Api) -> None:
    request = api.ask("What about rain?", subject="ann")["request_id"]
    response = api.post(
        "/feedback", {"request_id": request, "thumb": "down", "correction": "LESSON rain", "comment": "Wrong."}
    )
    assert response.status_code == 202
    [row] = api.rows(tables.feedback)
    assert row.id == response.json()["feedback_id"]
    assert (row.request, row.book, row.thumb, row.state) == (request, "default", "down", "new")
    assert row.subject == api.pseudonym("ann")
    assert api.service.seal.open(row.correction) == "LESSON rain"
    assert b"rain" not in row.correction + row.comment
    assert api.get("/books").json()["items"][0]["new_feedback"] == 1


def test_feedback_that_is_sent_again_is_stored_once(api: Api) -> None:
    request = api.ask("What about rain?")["request_id"]
    body = {"request_id": request, "score": 0.25, "comment": "Wrong.", "idempotency_key": "k 1"}
    first, second = api.post("/feedback", body), api.post("/feedback", body)
    assert first.json() == second.json()
    assert (first.status_code, second.status_code) == (202, 202)
    assert api.post("/feedback", {**body, "comment": "Right."}).status_code == 409
    assert api.post("/feedback", body, key=api.add_key("feedback")).json() != first.json()
    assert len(api.rows(tables.feedback)) == 2


def test_feedback_from_many_threads_is_all_stored(api: Api) -> None:
    request = api.ask("What about rain?")["request_id"]
    key = api.add_key("feedback")
    found: list[str] = []

    def send(number: int) -> None:
        for repetition in range(5):
            body = {"request_id": request, "comment": f"comment {number} {repetition}"}
            found.append(api.post("/feedback", body, key=key).json()["feedback_id"])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [row.id for row in api.rows(tables.feedback)]
    assert len(found) == 30


def test_feedback_that_cannot_be_used_is_rejected(api: Api, tmp_path: Path) -> None:
    add_book(api.service.database, tmp_path, "support")
    api.sync()
    request = api.ask("What about rain?")["request_id"]
    other = api.add_key("feedback", book="support")
    for body, key, status in [
        ({"request_id": request}, None, 400),
        ({"request_id": request, "correction": " \n", "comment": ""}, None, 400),
        ({"request_id": request, "score": 1.5}, None, 400),
        ({"request_id": request, "score": True}, None, 400),
        ({"request_id": request, "thumb": "sideways"}, None, 400),
        ({"request_id": "req_" + "0" * 32, "thumb": "up"}, None, 404),
        ({"request_id": "'; DROP TABLE feedback", "thumb": "up"}, None, 400),
        ({"request_id": request, "thumb": "up"}, other, 404),
        ({"request_id": request, "thumb": "up"}, api.add_key("infer"), 403),
    ]:
        assert api.post("/feedback", body, key=key).status_code == status, body
    assert api.rows(tables.feedback) == []


def test_a_request_of_another_process_is_waited_for(database: Database, tmp_path: Path) -> None:
    with running_api(database, tmp_path) as first, running_api(database, tmp_path, feedback_wait=600.0) as second:
        request = first.ask("What about rain?")["request_id"]
        assert second.post("/feedback", {"request_id": request, "thumb": "up"}).status_code == 202


def test_a_trace_is_stored_once_and_as_it_was_sent(api: Api) -> None:
    trace = {"question": "What about rain?", "answer": "unknown", "feedback": "It is LESSON rain. \u00e4"}
    headers = {"Authorization": f"Bearer {api.key}", "Idempotency-Key": "t1"}
    sent = [api.client.post("/v1/traces?subject=ann", json=trace, headers=headers) for _ in range(2)]
    assert [response.status_code for response in sent] == [202, 202]
    [row] = api.rows(tables.feedback)
    assert {response.json()["feedback_id"] for response in sent} == {row.id}
    assert json.loads(api.service.seal.open(row.trace)) == trace
    assert (row.kind, row.subject, row.book, row.request) == ("trace", api.pseudonym("ann"), "default", None)
    assert api.client.post("/v1/traces", json=[trace], headers=headers).status_code == 409


@pytest.mark.parametrize(
    "body",
    [b"[" + b"{}," * 1_500_000 + b"{}]", b"[" + b"{}," * 250_000 + b"{}]", b"[" + b"[[1]]," * 150_000 + b"1]"],
    ids=["far too many", "too many", "too many nested"],
)
def test_a_trace_of_many_tiny_values_is_rejected(api: Api, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {api.key}"}
    answer = api.client.post("/v1/traces", content=body, headers=headers)
    assert (answer.status_code, api.rows(tables.feedback)) == (413, [])
    assert "must not have more than 200,000 values" in answer.json()["error"]["message"]


def test_a_trace_that_cannot_be_read_is_rejected(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    for body in (b"no JSON", b"", b"7", b"{}", b"\xff", b"[" * 1000 + b"]" * 1000, b'{"a":' * 300 + b"1" + b"}" * 300):
        assert api.client.post("/v1/traces", content=body, headers=headers).status_code == 400, body[:20]
    assert api.client.post("/v1/traces?book=missing", json={"a": 1}, headers=headers).status_code == 404


def test_a_killed_process_that_checks_traces_costs_at_most_one_answer(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.key}"}

    def send(number: int) -> int:
        return int(api.client.post("/v1/traces", json={"question": f"q{number}"}, headers=headers).status_code)

    assert send(0) == 202
    checking = ["pgrep", "--parent", str(os.getpid()), "--full", "anyio.to_process"]
    for process in subprocess.run(checking, capture_output=True, text=True, check=True).stdout.split():
        os.kill(int(process), signal.SIGKILL)
    answers = [send(number) for number in (1, 2)]
    assert answers in ([503, 202], [202, 202])
    assert len(api.rows(tables.feedback)) == 1 + answers.count(202)


def test_a_full_disk_is_answered_with_503_and_leaves_no_half_row(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with running_api(database, tmp_path) as api:
        request = api.ask("What about rain?")["request_id"]
        assert api.post("/feedback", {"request_id": request, "thumb": "up"}).status_code == 202
        with database.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()

        most = pages + 2

        def limit(connection: DBAPIConnection, *_others: object) -> None:
            connection.cursor().execute(f"PRAGMA max_page_count = {most}")

        event.listen(database.engine, "checkout", limit)
        body = {"request_id": request, "comment": "x" * 90_000}
        response = api.post("/feedback", body)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        assert "retry-after" in response.headers
        assert len(api.rows(tables.feedback)) == 1
        assert api.ask("What about rain?")["answer"] == "unknown"
        most = 2**30
        assert api.post("/feedback", body).status_code == 202
    with closing(sqlite3.connect(tmp_path / "server.db")) as connection_:
        assert connection_.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_an_error_of_postgres_that_its_disk_is_full_is_answered_with_503(
    postgres_database: str, tmp_path: Path
) -> None:
    database = Database(postgres_database)
    database.migrate()
    with running_api(database, tmp_path) as api:
        request = api.ask("What about rain?")["request_id"]
        body = {"request_id": request, "comment": "Wrong.", "idempotency_key": "once"}
        with database.writing() as connection:  # raises what Postgres raises when it cannot extend a file
            schema = database.schema
            connection.exec_driver_sql(
                f"CREATE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
            )
            connection.exec_driver_sql(
                f"CREATE TRIGGER full_disk AFTER INSERT ON {schema}.feedback EXECUTE FUNCTION {schema}.full_disk()"
            )
        response = api.post("/feedback", body)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert api.rows(tables.feedback) == []
        assert api.ask("What about rain?")["answer"] == "unknown"
        with database.writing() as connection:
            connection.exec_driver_sql(f"DROP TRIGGER full_disk ON {schema}.feedback")
        assert api.post("/feedback", body).status_code == 202
        assert len(api.rows(tables.feedback)) == 1
    database.close()


def test_while_postgres_is_away_answers_are_given_and_feedback_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ace_postgres")
    with PostgresServer() as server:
        database = Database(server.address)
        database.migrate()
        with running_api(database, tmp_path, feedback_wait=0.0) as api:
            api.publish("rain")
            request = api.ask("What about rain?")["request_id"]
            server.stop(signal.SIGQUIT)
            assert [api.ask("What about rain?")["answer"] for _ in range(3)] == ["LESSON rain"] * 3
            body = {"request_id": request, "thumb": "up", "idempotency_key": "once"}
            response = api.post("/feedback", body)
            assert (response.status_code, response.headers["retry-after"]) == (503, "5")
            assert api.get("/runs").status_code == 503
            api.sync()
            ready = api.client.get("/readyz").json()
            assert ready["status"] == "degraded"
            assert ready["since"] > 0
            server.start()
            assert api.post("/feedback", body).status_code == 202
            api.sync()
            assert api.client.get("/readyz").json() == {"status": "ready", "since": None}
        assert len(api.rows(tables.request)) == 4, "what was answered meanwhile is stored too"
        assert len(api.rows(tables.feedback)) == 1
        database.close()
