"""Lists with cursors, reviews, experiments, and the deletion of a subject."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from ace_server import releases, reviews, tables
from ace_server.database import Database, new_id, now
from tests.server.api import Api, running_api
from tests.server.service_world import wait_until


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with running_api(database, tmp_path, feedback_wait=0.0) as found:
        yield found


def all_pages(api: Api, path: str, limit: int) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        mark = "&" if "?" in path else "?"
        page = api.get(f"{path}{mark}limit={limit}{cursor}").json()
        assert len(page["items"]) <= limit
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def test_lists_are_complete_page_by_page(api: Api) -> None:
    released = [api.publish(f"word{number}") for number in range(5)]
    skills = all_pages(api, "/books/default/skills", 2)
    assert [skill["content"] for skill in skills] == [f"Remember LESSON word{number}." for number in range(5)]
    assert [page["id"] for page in all_pages(api, "/books/default/releases", 2)] == released[::-1]
    runs = [new_id("bat") for _ in range(5)]
    with api.service.database.writing() as connection:
        for run in runs:
            row = {"id": run, "at": now(), "book": "default", "state": "queued", "samples": 1}
            connection.execute(sa.insert(tables.batch).values(row))
    assert [page["id"] for page in all_pages(api, "/runs?book=default", 2)] == runs[::-1]
    assert api.get(f"/runs/{runs[0]}").json()["state"] == "queued"
    for bad in ("limit=0", "limit=201", "limit=x", "cursor=%00", "cursor=%C3%A4"):
        assert api.get(f"/runs?{bad}").status_code == 400


def test_the_history_of_a_skill_is_listed(api: Api) -> None:
    api.publish("rain")
    with api.service.open_book("default") as book:
        book.tag_skill("lessons-00001", "helpful")
        book.update_skill("lessons-00001", content="Remember LESSON rain, always.")
    changes = all_pages(api, "/books/default/skills/lessons-00001/history", 1)
    assert [(change["version"], change["change"], change["content"]) for change in changes] == [
        (1, "added", "Remember LESSON rain."),
        (2, "tagged", None),
        (3, "updated", "Remember LESSON rain, always."),
    ]
    skill = api.get("/books/default/skills/lessons-00001").json()
    assert skill["content"] == "Remember LESSON rain.", "the published release has the first version"


def add_held_feedback(api: Api, word: str) -> tuple[str, str]:
    """Add feedback that a person has to decide about, and return its id and that of the review."""
    request = api.ask(f"What about {word}?")["request_id"]
    feedback = api.post("/feedback", {"request_id": request, "correction": f"LESSON {word}"}).json()["feedback_id"]
    with api.service.database.writing() as connection:
        connection.execute(sa.update(tables.feedback).where(tables.feedback.c.id == feedback).values(state="held"))
        review = reviews.add_review(
            connection, "default", "feedback", reason="for the test", request=request, feedback=feedback
        )
    return feedback, review


def test_a_review_is_decided_once_and_its_texts_are_for_reviewers(api: Api) -> None:
    feedback, review = add_held_feedback(api, "rain")
    other_feedback, other_review = add_held_feedback(api, "snow")
    reader = api.add_key("read")
    [_, plain] = api.get("/review", key=reader).json()["items"]
    assert (plain["id"], plain["question"]) == (review, None)
    [_, full] = api.get("/review").json()["items"]
    assert (full["question"], full["proposal"]) == ("What about rain?", "LESSON rain")
    assert api.post(f"/review/{review}", {"decision": "edit"}).status_code == 400
    decided = api.post(f"/review/{review}", {"decision": "accept", "note": "It is right."})
    assert (decided.status_code, decided.json()["state"]) == (200, "accepted")
    assert api.post(f"/review/{review}", {"decision": "reject"}).status_code == 409
    assert api.post(f"/review/{other_review}", {"decision": "reject"}).status_code == 200
    states = {row.id: row.state for row in api.rows(tables.feedback)}
    assert states == {feedback: "new", other_feedback: "rejected"}
    api.client.__exit__()  # stops the app, so that everything is written
    with api.service.database.reading() as connection:
        actions = list(connection.scalars(sa.select(tables.audit.c.what).order_by(tables.audit.c.number)))
    assert actions.count("text.read") == 1
    assert actions.count("review.decide") == 2


def test_a_release_cannot_be_edited(api: Api) -> None:
    with api.service.database.writing() as connection:
        release = releases.add_release(connection, "default", 0, by="worker", reason="for the test")
        review = reviews.add_review(connection, "default", "release", release=release)
    refused = api.post(f"/review/{review}", {"decision": "edit", "content": "Another text."})
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        400,
        "A release can be accepted or rejected, but not edited.",
    )
    assert [row.state for row in api.rows(tables.review)] == ["open"]


def test_a_review_that_is_deleted_while_it_is_decided_is_missing(api: Api) -> None:
    _, review = add_held_feedback(api, "rain")
    is_deciding = threading.Event()
    statuses: list[int] = []

    def note(connection: object, cursor: object, statement: str, *others: object) -> None:
        if threading.current_thread().name == "ace-server-writer":
            is_deciding.set()

    def decide() -> None:
        statuses.append(api.post(f"/review/{review}", {"decision": "accept"}).status_code)

    deciding = threading.Thread(target=decide)
    event.listen(api.service.database.engine, "before_cursor_execute", note)
    with api.service.database.writing() as connection:
        connection.execute(sa.delete(tables.review))
        deciding.start()
        is_deciding.wait()  # it has read the review, which is still there for others
    deciding.join()
    assert statuses == [404]


def test_an_experiment_divides_subjects_and_compares_the_arms(api: Api) -> None:
    first, second = api.publish("rain"), api.publish("snow")
    body = {"arms": [{"release": first, "weight": 1}, {"release": second, "weight": 1}]}
    started = api.post("/experiments", body)
    assert started.status_code == 201
    assert api.post("/experiments", body).status_code == 409
    experiment = started.json()["id"]
    api.sync()
    releases: dict[str, set[str]] = {}
    for subject in [f"user {number % 32}" for number in range(36)]:
        answer = api.ask("What about snow?", subject=subject)
        assert answer["experiment"] == experiment
        releases.setdefault(subject, set()).add(answer["release"])
        score = 1.0 if answer["answer"] == "LESSON snow" else 0.0
        sent = api.post("/feedback", {"request_id": answer["request_id"], "score": score})
        assert sent.status_code == 202
    assert all(len(release) == 1 for release in releases.values()), "a subject stays in its arm"
    assert {release for ids in releases.values() for release in ids} == {first, second}
    report = api.get(f"/experiments/{experiment}").json()
    assert [arm["mean_score"] for arm in report["arms"]] == [0.0, 1.0]
    assert [arm["feedback_rate"] for arm in report["arms"]] == [1.0, 1.0]
    assert sum(arm["requests"] for arm in report["arms"]) == 36
    difference = report["arms"][1]["difference"]
    assert difference["value"] == 1.0
    assert difference["p"] < 0.01
    assert difference["requests_needed"] == 0
    for winner in (5, True):
        assert api.post(f"/experiments/{experiment}/stop", {"winner": winner}).status_code == 400
    assert api.post(f"/experiments/{experiment}/stop", {"winner": 0}).json()["state"] == "stopped"
    assert api.post(f"/experiments/{experiment}/stop", {}).status_code == 409
    api.sync()
    assert api.ask("What about snow?")["release"] == first
    assert [item["winner"] for item in api.get("/experiments").json()["items"]] == [0]


def test_arms_are_different_releases_of_the_book(api: Api) -> None:
    first = api.publish("rain")
    missing = f"rel_{'0' * 32}"
    for arms, status in [
        ([{"release": first}], 400),
        ([{"release": first}, {"release": first}], 400),
        ([{"release": first}, {"release": missing}], 404),
        ([{"release": first, "weight": 0}, {"release": missing}], 400),
        ([{"release": first, "weight": True}, {"release": missing}], 400),
    ]:
        assert api.post("/experiments", {"arms": arms}).status_code == status


def test_a_subject_is_deleted(api: Api) -> None:
    request = api.ask("What about rain?", subject="ann@acme.example")["request_id"]
    api.ask("What about snow?", subject="bob")
    assert api.post("/feedback", {"request_id": request, "thumb": "up"}).status_code == 202
    assert api.delete("/subjects/ann@acme.example").status_code == 202
    ann, bob = api.pseudonym("ann@acme.example"), api.pseudonym("bob")
    wait_until(
        lambda: ann not in {row.subject for table in (tables.request, tables.feedback) for row in api.rows(table)}
    )
    assert [row.subject for row in api.rows(tables.request)] == [bob]
    assert api.post("/feedback", {"request_id": request, "thumb": "up"}).status_code == 404
