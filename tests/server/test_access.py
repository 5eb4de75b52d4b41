"""Keys: scopes, books, rates, budgets, requests in flight, and wrong logins."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from ace_server import audit, keys, tables
from ace_server.database import Database, new_id, now
from tests.server.api import Api, add_book, running_api
from tests.server.conftest import StoppedClock
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "server.db")
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def api(sqlite: Database, tmp_path: Path) -> Iterator[Api]:
    with running_api(sqlite, tmp_path, feedback_wait=0.0) as found:
        yield found


ROUTES = {
    "infer": [("POST", "/answers")],
    "feedback": [("POST", "/feedback"), ("POST", "/traces")],
    "read": [
        ("GET", "/books"),
        ("GET", "/books/default/skills"),
        ("GET", "/books/default/skills/a-1"),
        ("GET", "/books/default/skills/a-1/history"),
        ("GET", "/books/default/releases"),
        ("GET", "/runs"),
        ("GET", f"/runs/bat_{'0' * 32}"),
        ("GET", "/review"),
    ],
    "review": [("POST", f"/review/rev_{'0' * 32}"), ("POST", f"/releases/rel_{'0' * 32}/publish")],
    "admin": [
        ("GET", "/experiments"),
        ("POST", "/experiments"),
        ("GET", f"/experiments/exp_{'0' * 32}"),
        ("POST", f"/experiments/exp_{'0' * 32}/stop"),
        ("DELETE", "/subjects/ann"),
    ],
}
BODIES = {
    "/answers": {"question": "What about rain?"},
    "/feedback": {"request_id": f"req_{'0' * 32}", "thumb": "up"},
    "/traces": {"a": 1},
    f"/review/rev_{'0' * 32}": {"decision": "accept"},
    "/experiments": {"arms": [{"release": f"rel_{'0' * 32}"}, {"release": f"rel_{'1' * 32}"}]},
    f"/experiments/exp_{'0' * 32}/stop": {},
}


def test_every_route_needs_its_scope(api: Api) -> None:
    tested = set()
    for scope, routes in ROUTES.items():
        right = api.add_key(scope)
        wrong = api.add_key(*(other for other in keys.SCOPES if other not in (scope, "admin")))
        for method, path in routes:
            tested.add((method, path))
            statuses = [
                api.client.request(
                    method,
                    f"/v1{path}",
                    json=BODIES.get(path) if method == "POST" else None,
                    headers={"Authorization": f"Bearer {key}"},
                ).status_code
                for key in ("ace_" + "x" * 43, wrong, right)
            ]
            assert statuses[:2] == [401, 403], path
            assert statuses[2] in (200, 202, 404), path
    assert len(tested) == len(documented_routes(api))


def documented_routes(api: Api) -> list[tuple[str, str]]:
    document = api.client.get("/openapi.json").json()
    return [
        (method, path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1/")
    ]


def test_a_key_of_another_book_sees_and_changes_nothing(api: Api, tmp_path: Path) -> None:
    add_book(api.service.database, tmp_path, "support")
    api.sync()
    release = api.publish("rain")
    other = api.add_key("admin", book="support")
    assert api.post("/answers", {"question": "What about rain?"}, key=other).status_code == 403
    assert [book["name"] for book in api.get("/books", key=other).json()["items"]] == ["support"]
    for path in ("/books/default/skills", "/books/default/releases", "/review?book=default"):
        assert api.get(path, key=other).status_code == 403
    assert api.post(f"/releases/{release}/publish", key=other).status_code == 404
    assert api.delete("/subjects/ann", key=other).status_code == 403
    rejected = [row.object for row in audit_rows(api) if row.what == "access.rejected"]
    assert rejected == ["default"] * 4


def audit_rows(api: Api) -> list[sa.Row[Any]]:
    api.client.__exit__()  # stops the app, so that everything is written
    assert audit.check(api.service.database).problem is None
    with api.service.database.reading() as connection:
        return list(connection.execute(sa.select(tables.audit).order_by(tables.audit.c.number)).all())


def test_a_key_ends_when_it_is_revoked_or_expires(api: Api) -> None:
    key = api.add_key("read")
    expired = api.add_key("read", expires_at=now() - 1)
    assert api.get("/books", key=key).status_code == 200
    assert api.get("/books", key=expired).status_code == 401
    with api.service.database.writing() as connection:
        assert keys.revoke_key(connection, key[:8])
        assert keys.revoke_key(connection, key[:8]) is None
    app: Any = api.client.app
    app.state.server.keys.forget()
    assert api.get("/books", key=key).status_code == 401


def test_a_key_that_is_revoked_while_the_keys_are_read_ends(sqlite: Database) -> None:
    with sqlite.writing() as connection:
        identifier, secret = keys.add_key(connection, "test", ["read"])
    ring = keys.KeyRing(sqlite)
    forgetting = threading.Thread(target=ring.forget)

    def revoke(*arguments: object) -> None:
        with sqlite.writing() as connection:
            assert keys.revoke_key(connection, identifier)
        forgetting.start()
        forgetting.join(0.5)  # it may have to wait until the keys are read

    event.listen(sqlite.engine, "commit", revoke, once=True)  # after they were read
    assert ring.find(secret) is not None
    forgetting.join()
    assert ring.recent(secret) is None
    assert ring.find(secret) is None


@pytest.mark.parametrize("expires_at", [float("nan"), float("inf"), 1e18, -1.0])
def test_a_key_expires_at_a_date_or_never(sqlite: Database, expires_at: float) -> None:
    with sqlite.writing() as connection, pytest.raises(ValueError, match="expire before the year 3000"):
        keys.add_key(connection, "test", ["read"], expires_at=expires_at)


def test_a_rate_is_not_exceeded(api: Api) -> None:
    key = api.add_key("read", rate="3/hour")
    responses = [api.get("/books", key=key) for _ in range(5)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429, 429]
    assert 3000 < int(responses[-1].headers["retry-after"]) <= 3601


def test_a_budget_counts_what_was_spent_today(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = now() // 86_400 * 86_400 + 43_200  # so the day does not end meanwhile
    monkeypatch.setattr("ace_server.limits.now", lambda: noon)
    key = api.add_key("infer", budget=1.0)
    assert api.post("/answers", {"question": "What about rain?"}, key=key).status_code == 200
    with api.service.database.writing() as connection:
        identifier = next(known.id for known in keys.list_keys(connection) if known.budget == 1.0)
        row = {
            "book": "default", "key": identifier, "question": b"", "answer": b"", "skill_ids": "", "model_calls": 1,
            "prompt_tokens": 1, "completion_tokens": 1, "seconds": 1.0,
        }  # fmt: skip
        for at, cost in ((noon, 0.75), (noon - 2 * 86_400, 5.0)):
            connection.execute(sa.insert(tables.request).values(id=new_id("req"), at=at, cost=cost, **row))
    app: Any = api.client.app
    limits = app.state.server.limits
    [found] = [valid for valid in list_valid(api) if valid.id == identifier]
    limits.forget()
    limits.check_budget(found)
    with api.service.database.writing() as connection:
        connection.execute(sa.insert(tables.request).values(id=new_id("req"), at=noon, cost=0.5, **row))
    limits.forget()
    response = api.post("/answers", {"question": "What about rain?"}, key=key)
    assert response.status_code == 429
    assert 0 < int(response.headers["retry-after"]) <= 86_400


def test_a_budget_counts_what_learning_from_feedback_has_cost(api: Api) -> None:
    key = api.add_key("infer", "feedback", budget=1.0)
    identifier = next(known.id for known in list_valid(api) if known.budget == 1.0)
    request = api.post("/answers", {"question": "What about rain?"}, key=key).json()["request_id"]
    with api.service.database.writing() as connection:
        batch = {"book": "default", "state": "learned", "samples": 2, "at": now()}
        connection.execute(sa.insert(tables.batch), [{"id": "bat_1", "cost": 1.5, "tokens": 10, **batch}])
        connection.execute(sa.insert(tables.batch), [{"id": "bat_2", "cost": None, "tokens": 100_000, **batch}])
        for owner, of_batch in ((identifier, "bat_1"), ("key_other", "bat_1"), (identifier, "bat_2")):
            row = {"id": new_id("fbk"), "at": now(), "book": "default", "kind": "trace", "key": owner}
            connection.execute(sa.insert(tables.feedback).values(state="learned", batch=of_batch, **row))
    app: Any = api.client.app
    app.state.server.limits.forget()
    sent = {"/answers": {"question": "Why?"}, "/feedback": {"request_id": request, "thumb": "up"}, "/traces": [{}]}
    assert {path: api.post(path, body, key=key).status_code for path, body in sent.items()} == dict.fromkeys(sent, 429)
    assert api.post("/feedback", {"request_id": request, "thumb": "up"}).status_code == 202


def test_the_budget_is_not_read_on_the_event_loop(sqlite: Database, tmp_path: Path) -> None:
    plain = learning_script()
    on_loop: list[str] = []

    def script(request: ScriptedRequest) -> Any:  # what a script returns
        app: Any = api.client.app
        app.state.server.limits.forget()  # as after ten seconds, so that it is read again after the answer
        event.listen(sqlite.engine, "before_cursor_execute", note)
        return plain(request)

    def note(connection: object, cursor: object, statement: str, *others: object) -> None:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            on_loop.append(statement)

    with running_api(sqlite, tmp_path, script=script) as api:
        key = api.add_key("infer", budget=1.0)
        assert api.post("/answers", {"question": "What about rain?"}, key=key).status_code == 200
        event.remove(sqlite.engine, "before_cursor_execute", note)
    assert on_loop == []


def list_valid(api: Api) -> list[keys.Key]:
    with api.service.database.reading() as connection:
        return keys.list_keys(connection)


def test_large_traces_count_as_several_requests_in_flight(sqlite: Database, tmp_path: Path) -> None:
    with running_api(sqlite, tmp_path, script=learning_script(), in_flight=4, max_trace_mb=1) as api:
        app: Any = api.client.app
        limits = app.state.server.limits
        [key] = list_valid(api)
        with limits.request(key):
            trace = {"question": "Why?", "answer": 400_000 * "x"}
            assert api.post("/traces", trace).status_code == 202  # it counts as two
            began = time.monotonic()
            assert api.post("/traces", {"question": "Why?", "answer": 900_000 * "x"}).status_code == 429
            assert time.monotonic() - began >= 1  # a client that does not wait is slowed down
            with limits.request(key), limits.request(key):
                assert api.post("/traces", trace).status_code == 429
                assert api.post("/traces", {"question": "Why?"}).status_code == 202
        assert limits.in_flight == 0


def test_requests_in_flight_are_capped_per_key(sqlite: Database, tmp_path: Path) -> None:
    leave = threading.Event()
    entered = threading.Semaphore(0)
    plain = learning_script()

    def script(request: ScriptedRequest) -> Any:  # what a script returns
        entered.release()
        leave.wait()
        return plain(request)

    with running_api(sqlite, tmp_path, script=script, in_flight=2) as api:
        statuses: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: statuses.append(api.post("/answers", {"question": "What about rain?"}).status_code)
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert entered.acquire(timeout=60)
        assert api.get("/books").status_code == 429
        assert api.get("/books", key=api.add_key("read")).status_code == 200
        leave.set()
        for thread in threads:
            thread.join()
        assert statuses == [200, 200]
        assert api.get("/books").status_code == 200


def test_wrong_logins_are_rejected_logged_and_slowed_down(api: Api, limiter_clock: StoppedClock) -> None:
    def log_in(times: int) -> list[int]:
        return [api.get("/books", key=f"ace_{number:043}").status_code for number in range(times)]

    assert log_in(90) == [401] * 60 + [429] * 30
    assert api.get("/books").status_code == 200
    limiter_clock.now += 59
    assert log_in(1) == [429]
    limiter_clock.now += 2
    assert log_in(70) == [401] * 60 + [429] * 10
    assert len([row for row in audit_rows(api) if row.what == "login.rejected"]) == 120


def test_a_secret_is_stored_only_as_its_hash(api: Api, tmp_path: Path) -> None:
    secret = api.add_key("read")
    api.get("/books", key=secret)
    api.client.__exit__()
    api.service.database.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("server.db*"))
    assert secret[:8].encode() in stored
    assert secret.encode() not in stored


def test_a_login_token_works_once(sqlite: Database) -> None:
    with sqlite.writing() as connection:
        token = keys.add_login_token(connection)
    for expected in (True, False):
        with sqlite.writing() as connection:
            assert keys.use_login_token(connection, token) is expected
            assert not keys.use_login_token(connection, "another")
