"""Answers: with the published release, within limits, and stored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from starlette.testclient import TestClient

from ace_server import releases, tables
from ace_server.database import Database
from tests.server.api import Api, add_book, running_api
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Answer, HttpError, NoResponse, Reply, Script, ScriptedRequest


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with running_api(database, tmp_path, feedback_wait=0.0) as found:
        yield found


def test_an_answer_is_given_with_the_published_release_and_stored_sealed(api: Api) -> None:
    before = api.ask("What about rain?", subject="ann", metadata={"page": 3})
    assert (before["answer"], before["release"]) == ("unknown", None)
    release = api.publish("rain")
    after = api.ask("What about rain?", context="It is wet.")
    assert after["answer"] == "LESSON rain"
    assert after["release"] == release
    assert after["skill_ids"] == ["lessons-00001"]
    assert after["usage"]["model_calls"] == 1
    assert after["usage"]["input_tokens"] > 0

    api.client.__exit__()  # stops the app, so that everything is written
    first, second = api.rows(tables.request)
    assert [first.id, second.id] == [before["request_id"], after["request_id"]]
    assert (first.subject, second.release, second.skill_ids) == (api.pseudonym("ann"), release, "lessons-00001")
    assert b"rain" not in second.question + second.answer + second.context
    seal = api.service.seal
    assert seal.open(second.question) == "What about rain?"
    assert seal.open(second.answer) == "LESSON rain"
    assert seal.open(second.context) == "It is wet."
    assert seal.open(first.metadata) == '{"page": 3}'
    assert first.uncertain == "the answer is that it does not know"


def test_a_rollback_takes_effect_at_the_next_sync(api: Api) -> None:
    first = api.publish("rain")
    second = api.publish("snow")
    assert api.ask("What about snow?")["answer"] == "LESSON snow"
    assert api.post(f"/releases/{first}/publish").json()["state"] == "published"
    api.sync()
    found = api.ask("What about snow?")
    assert (found["answer"], found["release"]) == ("unknown", first)
    assert api.post(f"/releases/{first}/publish").status_code == 409
    [recorded] = [row for row in api.rows(tables.audit) if row.what == "release.publish" and row.object == first]
    assert recorded.who.startswith("key_")
    states = {row["id"]: row["state"] for row in api.get("/books/default/releases").json()["items"]}
    assert states == {first: "published", second: "retired"}


def test_a_request_that_is_not_valid_is_rejected_without_its_text(api: Api) -> None:
    bodies: list[tuple[object, int]] = [
        ({"question": ""}, 400),
        ({"question": "  "}, 400),
        ({"question": "x" * 20_001}, 400),
        ({"question": "secret a\0b"}, 400),
        ({"question": "secret words", "colour": 1}, 400),
        ({"question": 7}, 400),
        ({"question": "secret", "book": "../etc"}, 400),
        ({"question": "secret", "book": "missing"}, 404),
        ([], 400),
    ]
    for body, status in bodies:
        response = api.post("/answers", body)
        assert response.status_code == status, body
        error = response.json()["error"]
        assert set(error) == {"code", "message", "request_id"}
        assert "secret" not in response.text
        assert error["request_id"] == response.headers["x-request-id"]


def test_a_route_that_does_not_exist_is_an_error_of_the_api(api: Api) -> None:
    for method, path, status, code in [
        ("GET", "/v1/missing", 404, "not_found"),
        ("GET", "/v1/answers", 405, "method_not_allowed"),
        ("POST", "/v1/books", 405, "method_not_allowed"),
        ("PUT", "/healthz", 405, "method_not_allowed"),
        ("POST", "/readyz", 405, "method_not_allowed"),
        ("DELETE", "/metrics", 405, "method_not_allowed"),
        ("POST", "/openapi.json", 405, "method_not_allowed"),
        ("QUERY", "/v1/answers", 405, "method_not_allowed"),
        ("QUERY", "/healthz", 405, "method_not_allowed"),
        ("PROPFIND", "/v1/review", 405, "method_not_allowed"),
        ("QUERY", "/v1/missing", 404, "not_found"),
    ]:
        response = api.client.request(method, path)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code), path
        allowed = {"/v1/missing": None, "/v1/answers": "POST", "/openapi.json": "GET, HEAD"}.get(path, "GET")
        assert response.headers.get("allow") == allowed, path


def test_half_of_a_surrogate_pair_is_rejected(api: Api) -> None:
    response = api.client.post(
        "/v1/answers",
        content=b'{"question": "\\ud800"}',
        headers={"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"},
    )
    assert response.status_code == 400


def test_a_body_that_is_too_large_is_rejected_while_it_is_read(api: Api) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        yield b'{"question": "'
        for _ in range(100):
            sent += 1
            yield b"x" * 10_000

    response = api.client.post("/v1/answers", content=chunks(), headers={"Authorization": f"Bearer {api.key}"})
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "too_large"


class FailingClient:
    """A client with a defect, whose error quotes the prompt."""

    def complete(self, prompt: Any, **options: Any) -> NoReturn:
        raise RuntimeError(str(prompt))

    def complete_structured(self, prompt: Any, response_model: type[Any], **options: Any) -> NoReturn:
        raise RuntimeError(str(prompt))


def test_an_unexpected_error_does_not_reach_the_server_which_would_log_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Database(tmp_path / "server.db")) as database:
        database.migrate()
        with running_api(database, tmp_path, client=FailingClient()) as api:
            client = TestClient(api.client.app)  # raises what reaches the server
            headers = {"Authorization": f"Bearer {api.key}"}
            response = client.post("/v1/answers", json={"question": "What about sleet?"}, headers=headers)
    assert response.status_code == 500
    assert response.json()["error"]["request_id"] == response.headers["x-request-id"]
    assert f"{response.headers['x-request-id']} unexpected RuntimeError at" in caplog.text
    assert "sleet" not in response.text + caplog.text


def replying(reply: Reply) -> Script:
    def script(request: ScriptedRequest) -> Reply:
        return reply

    return script


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (HttpError(500), 502, "model_error"),
        (HttpError(429), 503, "unavailable"),
        (Answer("no JSON at all"), 502, "model_error"),
        (NoResponse(600.0), 504, "timeout"),
    ],
)
def test_a_model_that_fails_is_reported_and_leaves_the_service_working(
    tmp_path: Path, reply: Reply, status: int, code: str
) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    seconds = 1.0 if isinstance(reply, NoResponse) else 60.0
    with running_api(database, tmp_path, script=replying(reply), answer_seconds=seconds) as api:
        response = api.post("/answers", {"question": "What about rain?"})
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert api.client.get("/healthz").json() == {"status": "ok"}
    database.close()


def test_requests_beyond_the_limit_wait_and_are_then_rejected(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    entered, leave = threading.Event(), threading.Event()
    plain = learning_script()

    def script(request: ScriptedRequest) -> Any:  # what a script returns
        entered.set()
        leave.wait()
        return plain(request)

    with running_api(database, tmp_path, script=script, max_concurrent=1, queue_seconds=0.1) as api:
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(api.post("/answers", {"question": "What about rain?"}).status_code)
        )
        thread.start()
        assert entered.wait(60)
        response = api.post("/answers", {"question": "What about snow?"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "busy")
        assert response.headers["retry-after"] == "1"
        leave.set()
        thread.join()
        assert answers == [200]
    database.close()


def test_personal_data_is_hidden_from_the_model(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    prompts: list[str] = []

    def script(request: ScriptedRequest) -> dict[str, str]:
        prompts.append(request.text)
        return {"reasoning": "They ask for [EMAIL_1].", "final_answer": "I have written to [EMAIL_1]."}

    with running_api(database, tmp_path, script=script) as api:
        found = api.ask("Write to jane@acme.example, please.")
    assert found["answer"] == "I have written to jane@acme.example."
    assert "jane@acme.example" not in prompts[0]
    database.close()


def test_a_damaged_book_does_not_stop_the_others(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with running_api(database, tmp_path) as api:
        add_book(database, tmp_path, "support")
        api.publish("rain")
        old = api.publish("wind", book="support")
        with database.writing() as connection:
            unread = releases.add_release(connection, "support", 2, by="test")
            releases.publish(connection, unread, by="test")
        for file in (tmp_path / "books").glob("support.db*"):
            file.write_bytes(b"no longer a database")
        api.publish("snow")
        assert api.ask("What about snow?")["answer"] == "LESSON snow"
        found = api.ask("What about wind?", book="support")
        assert (found["answer"], found["release"]) == ("LESSON wind", old)
        assert api.client.get("/readyz").json()["status"] == "degraded"
    with running_api(database, tmp_path) as api:
        assert api.ask("What about snow?")["answer"] == "LESSON snow"
        response = api.post("/answers", {"question": "What about wind?", "book": "support"})
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert api.post("/answers", {"question": "What about wind?", "book": "none"}).status_code == 404
        trace = {"question": "What about wind?", "answer": "unknown"}
        assert api.post("/traces?book=support", trace).status_code == 202
    database.close()


def test_a_sync_that_fails_unexpectedly_leaves_what_was_loaded(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with running_api(database, tmp_path) as api:
        api.publish("rain")
        with database.writing() as connection:
            row = {"id": "exp_1", "book": "default", "arms": "no JSON", "state": "running", "by": "test", "at": 0}
            connection.execute(sa.insert(tables.experiment).values(row))
        api.sync()
        assert api.client.get("/readyz").json()["status"] == "degraded"
        assert api.ask("What about rain?")["answer"] == "LESSON rain"
        with database.writing() as connection:
            connection.execute(sa.delete(tables.experiment))
        api.publish("snow")
        assert api.client.get("/readyz").json()["status"] == "ready"
        assert api.ask("What about snow?")["answer"] == "LESSON snow"
    database.close()


def test_a_sync_asks_once_if_nothing_has_changed(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with running_api(database, tmp_path) as api:
        arms = [{"release": api.publish("rain")}, {"release": api.publish("snow")}]
        assert api.post("/experiments", {"arms": arms}).status_code < 300
        api.sync()
        asked: list[str] = []
        thread = threading.get_ident()

        def note(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
            if threading.get_ident() == thread:
                asked.append(statement)

        event.listen(database.engine, "before_cursor_execute", note)
        api.sync()
        event.remove(database.engine, "before_cursor_execute", note)
    assert [statement.split()[0] for statement in asked if not statement.startswith("BEGIN")] == ["SELECT"]
    database.close()


def test_books_are_answered_from_separately(api: Api, tmp_path: Path) -> None:
    add_book(api.service.database, tmp_path, "support")
    api.sync()
    api.publish("rain", book="support")
    assert api.ask("What about rain?")["answer"] == "unknown"
    assert api.ask("What about rain?", book="support")["answer"] == "LESSON rain"
    assert [book["name"] for book in api.get("/books").json()["items"]] == ["default", "support"]


def test_the_counters_are_not_for_the_key_of_one_book(api: Api) -> None:
    assert api.client.get("/metrics", headers={"Authorization": f"Bearer {api.add_key('read')}"}).status_code == 200
    key = api.add_key("read", book="default")
    assert api.client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code == 403
