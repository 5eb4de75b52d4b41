"""Privacy of the whole service: what the model gets, what is in the files and the logs, and what is audited."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace import LiteLLMClient
from ace_server import audit, tables
from ace_server.database import Database, now
from ace_server.maintenance import Maintenance
from ace_server.retention import last_purge, request_deletion, run_deletions
from ace_server.rotation import open_seal
from ace_server.seal import KEYS_FILE, Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings
from tests.server.api import Api, running_api
from tests.support.command_line import Run
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest

MARKERS = ("jane.marker@acme.com", "0170 7654321", "4111 1111 1111 1111", "m4rker-Secret-77")
QUESTION = (
    "I am jane.marker@acme.com (call 0170 7654321). Why was 4111 1111 1111 1111 charged? My password is "
    "m4rker-Secret-77. Write to jane.marker@acme.com."
)


class Model:
    """Answers with the marks that it was asked with, and remembers everything that it received."""

    def __init__(self) -> None:
        self.received: list[str] = []

    def __call__(self, request: ScriptedRequest) -> Reply | dict[str, Any]:
        self.received.append(json.dumps(request.body, ensure_ascii=False))
        if "fail now" in request.text:
            return HttpError(500, request.text)
        answer = r"We wrote to \[EMAIL\_1\] about [card_1], [NAME_1]."
        return {"reasoning": "[PHONE_1] is a number.", "final_answer": answer}


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def api(database: Database, tmp_path: Path, model: Model) -> Iterator[Api]:
    with running_api(database, tmp_path, script=model) as found:
        yield found


def stored(api: Api, table: sa.Table = tables.request) -> list[sa.Row[Any]]:
    """Return the rows once they are written, which the response does not wait for."""
    app: Any = api.client.app
    api.client.portal.call(app.state.server.writer.write, lambda connection: None)  # type: ignore[union-attr]
    return api.rows(table)


def test_the_model_gets_no_marker_and_the_user_gets_the_originals(api: Api, model: Model) -> None:
    answer = api.ask(QUESTION, context=f"Ticket of {MARKERS[0]}", subject="jane", metadata={"mail": MARKERS[0]})
    assert model.received
    assert not [marker for marker in MARKERS for text in model.received if marker in text]
    assert "[EMAIL_1] (call [PHONE_1])" in model.received[0]
    assert "Ticket of [EMAIL_1]" in model.received[0]
    assert answer["answer"] == "We wrote to jane.marker@acme.com about 4111 1111 1111 1111, [NAME_1]."
    assert answer["reasoning"] == "0170 7654321 is a number."
    (row,) = stored(api)
    seal = api.service.seal
    assert seal.open(row.question) == QUESTION
    assert seal.open(row.answer) == answer["answer"]


def test_the_database_holds_no_marker_in_plain_text(tmp_path: Path, model: Model) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    with running_api(database, tmp_path, script=model) as api:
        request = api.ask(QUESTION, context=MARKERS[0], metadata={"mail": MARKERS[0]}, subject=MARKERS[0])["request_id"]
        feedback = {"request_id": request, "thumb": "down", "comment": MARKERS[0], "correction": MARKERS[3]}
        feedback["idempotency_key"] = MARKERS[0]
        assert api.post("/feedback", feedback).status_code == 202
        trace = {"question": QUESTION, "answer": MARKERS[2]}
        assert api.post("/traces", trace, params={"subject": MARKERS[0]}).status_code == 202
        assert api.delete(f"/subjects/{MARKERS[3]}").status_code == 202  # another one
        stored(api)
        raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert request.encode() in raw
    assert not [marker for marker in MARKERS if marker.encode() in raw]
    database.close()


def set_finder(api: Api, finder: str | None, *, anonymise: bool = True) -> None:
    with api.service.database.writing() as connection:
        connection.execute(sa.update(tables.book).values(anonymise=anonymise, anonymiser=finder))
    api.sync()


def test_a_book_can_have_a_finder_of_its_own_or_none(api: Api, model: Model) -> None:
    set_finder(api, "tests.server.finders:Names")
    answer = api.ask("Ann Lee is ann@acme.com")
    assert "[NAME_1] is [EMAIL_1]" in model.received[-1]
    assert answer["answer"].endswith("[card_1], Ann Lee.")
    set_finder(api, None, anonymise=False)
    api.ask("Ann Lee is ann@acme.com")
    assert "Ann Lee is ann@acme.com" in model.received[-1]


@pytest.mark.parametrize("finder", ["tests.server.finders:Broken", "acme_is_not_installed:Finder"])
def test_without_a_working_finder_the_model_is_not_asked(
    api: Api, model: Model, finder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    set_finder(api, finder)
    response = api.post("/answers", {"question": QUESTION})
    assert response.status_code == 503
    assert model.received == []
    assert not [marker for marker in MARKERS if marker in response.text + caplog.text]
    set_finder(api, None)
    assert api.post("/answers", {"question": QUESTION}).status_code == 200


def test_neither_errors_nor_logs_quote_the_user(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    responses = [
        api.post("/answers", {"question": QUESTION}),
        api.post("/answers", {"question": f"{QUESTION} fail now"}),
        api.post("/answers", {"question": [QUESTION]}),
        api.post("/answers", {"question": "x", "context": {"a": MARKERS[0]}, MARKERS[3]: 1}),
        api.post("/feedback", {"request_id": MARKERS[0], "thumb": MARKERS[3]}),
        api.post("/feedback", {"request_id": "req_0", "comment": MARKERS[0]}),
        api.get(f"/books/{MARKERS[0]}/skills"),
        api.get("/runs", params={"cursor": MARKERS[3]}),
        api.get("/books", key=MARKERS[3]),
    ]
    statuses = [response.status_code for response in responses]
    assert statuses[:5] == [200, 502, 400, 400, 400]
    texts = [response.text for response in responses[1:]]
    logged = [record for record in caplog.records if record.name != "httpx2"]  # the client of this test
    texts += [f"{record.name} {record.getMessage()} {record.exc_text}" for record in logged]
    assert any("ace_server.requests" in text for text in texts)
    assert [text for text in texts for marker in MARKERS if marker in text] == []


def what(api: Api) -> list[tuple[str, str | None]]:
    stored(api)
    with api.service.database.reading() as connection:
        rows = connection.execute(sa.select(tables.audit).order_by(tables.audit.c.number)).all()
    return [(row.what, row.object) for row in rows]


def test_reading_texts_wrong_keys_and_changes_are_in_the_audit_log(api: Api) -> None:
    request = api.ask("q", subject="jane@acme.com")["request_id"]
    stored(api)
    with api.service.database.writing() as connection:
        for number in range(2):
            # Maintenance, which may run at any moment, removes old reviews.
            row = {"id": f"rev_{number}", "at": time.time(), "book": "default", "kind": "uncertain", "state": "open"}
            connection.execute(sa.insert(tables.review).values(**row, request=request))
    reviews = api.get("/review").json()["items"]
    assert api.get("/books", key="ace_wrong").status_code == 401
    assert api.delete("/subjects/jane@acme.com").status_code == 202
    rows = what(api)
    assert ("text.read", " ".join(review["id"] for review in reviews)) in rows
    assert ("login.rejected", None) in rows
    pseudonym = api.pseudonym("jane@acme.com")
    assert ("subject.delete", pseudonym) in rows
    assert [row.subject for row in api.rows(tables.request)] in ([pseudonym], [])
    assert len(reviews) == 2
    assert audit.check(api.service.database).problem is None


def test_feedback_with_and_without_an_idempotency_key_is_stored_on_both_databases(api: Api) -> None:
    request = api.ask("q")["request_id"]
    for key in (None, None, "once", "once"):
        body = {"request_id": request, "thumb": "up", "idempotency_key": key}
        assert api.post("/feedback", body).status_code == 202
    assert len(stored(api, tables.feedback)) == 3


def test_a_subject_is_deleted_through_the_api(api: Api) -> None:
    kept = api.ask("mine", subject="bob")["request_id"]
    request = api.ask(QUESTION, subject="jane")["request_id"]
    assert api.post("/feedback", {"request_id": request, "comment": MARKERS[0]}).status_code == 202
    assert len(stored(api)) == 2
    assert api.delete("/subjects/jane").status_code == 202
    service = api.service
    later = now() + service.settings.answer_seconds + 15
    while run_deletions(service.database, service.settings, service.open_book, at=later):  # the service does it, too
        pass
    assert [row.id for row in api.rows(tables.request)] == [kept]
    assert api.rows(tables.feedback) == []
    assert api.post("/feedback", {"request_id": kept, "thumb": "up"}).status_code == 202


def purged_by_a_new_process(database: Database, folder: Path, *, until: Callable[[], bool]) -> None:
    settings = ServerSettings(data=folder)
    client = LiteLLMClient("openai/none", api_key="none")  # it is not called
    service = Service(settings=settings, database=database, seal=Seal([new_key()]), client=client, model="none")
    maintenance = Maintenance(service)
    maintenance.start()
    while not until():
        time.sleep(0.01)
    maintenance.stop()


def test_what_is_old_is_purged_at_the_start_if_no_process_ran_last_night(database: Database, tmp_path: Path) -> None:
    def add(name: str) -> None:
        with database.writing() as connection:
            connection.execute(sa.insert(tables.login_token).values(hash=name, at=0, expires_at=0))

    def names() -> list[str]:
        with database.reading() as connection:
            return list(connection.scalars(sa.select(tables.login_token.c.hash)))

    add("old")
    purged_by_a_new_process(database, tmp_path, until=lambda: last_purge(database) > 0)
    assert names() == []
    first = last_purge(database)
    add("older")  # another process, after the first one was restarted
    with database.writing() as connection:
        request_deletion(connection, "jane", by="key_1")
        connection.execute(sa.update(tables.deletion).values(at=0))
    purged_by_a_new_process(database, tmp_path, until=lambda: is_deleted(database))
    assert last_purge(database) == first
    assert names() == ["older"]


def is_deleted(database: Database) -> bool:
    with database.reading() as connection:
        return connection.execute(sa.select(tables.deletion)).one().done_at is not None


def test_the_commands_say_what_they_did(here: Run, tmp_path: Path) -> None:
    assert here("server", "migrate").code == 0
    data = tmp_path / "ace-server"
    database = Database(data / "server.db")
    seal = open_seal(database, data, environ={})
    row = {"book": "b", "kind": "feedback", "key": "k", "state": "new", "at": now() - 100 * 86_400}
    with database.writing() as connection:
        for number in range(3):
            connection.execute(sa.insert(tables.feedback).values(id=f"fb_{number}", comment=seal.seal("text"), **row))

    assert "feedback: 3 would be deleted" in here("server", "purge", "--dry-run").out
    done = here("server", "seal", "rotate")
    assert (done.code, done.out) == (0, "")
    assert f"3 rows sealed with the key {seal.first_key_id}" in done.err

    status = here("server", "status", "--json")
    head = json.loads(status.out)["audit_head"]
    assert head.startswith("1:")
    assert here("server", "status", "--audit-head", head).code == 0
    wrong = here("server", "status", "--audit-head", f"1:{'0' * 64}")
    assert (wrong.code, "row 1 is not the one that was noted" in wrong.out) == (1, True)
    assert here("server", "status", "--audit-head", "1:ab").code == 2

    keys = data / KEYS_FILE
    kept = keys.read_bytes()
    keys.unlink()
    missing = here("server", "seal", "rotate")
    assert missing.code == 2
    assert missing.err.count("\n") == 1
    assert "are sealed with the key" in missing.err
    assert not keys.exists()
    keys.write_bytes(kept)
    keys.chmod(0o600)

    with database.writing() as connection:
        connection.execute(sa.update(tables.audit).values(who="nobody"))
    tampered = here("server", "status")
    assert (tampered.code, "row 1 was changed" in tampered.out) == (1, True)
    assert "feedback: 3 deleted" in here("server", "purge").out
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.feedback)) == 0
    database.close()


def test_a_book_is_only_added_with_a_finder_that_can_be_loaded(here: Run, tmp_path: Path) -> None:
    assert here("server", "migrate").code == 0
    refused = here("server", "books", "add", "support", "--anonymiser", "acme_is_not_installed:Finder")
    assert (refused.code, "cannot be loaded: ModuleNotFoundError" in refused.err) == (2, True)
    assert here("server", "books", "add", "support", "--anonymiser", "ace_server.anonymise:BuiltInFinder").code == 0
    assert here("server", "books", "add", "plain", "--no-anonymise").code == 0
    database = Database(tmp_path / "ace-server" / "server.db")
    with database.reading() as connection:
        books = {row.name: (row.anonymise, row.anonymiser) for row in connection.execute(sa.select(tables.book))}
    database.close()
    assert books == {"support": (True, "ace_server.anonymise:BuiltInFinder"), "plain": (False, None)}
