"""What a reviewer sees of a candidate, and what becomes of the others when one is accepted or rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace_server import releases, tables
from ace_server.database import Database
from tests.server.api import Api, running_api
from tests.server.service_world import SEAL_KEY, add_feedback, add_request, learn_all, rows_of
from tests.support.command_line import Done, Run


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    settings: dict[str, Any] = {"publish": "review", "batch_size": 1, "batch_age": 0.0}
    with running_api(database, tmp_path, feedback_wait=0.0, **settings) as found:
        yield found


def learned(api: Api, *words: str) -> None:
    """Learn a lesson from each word, in a batch of its own."""
    for word in words:
        add_feedback(api.service, add_request(api.service, word), correction=f"LESSON {word}")
        assert learn_all(api.service) == ["ended"]


def queue(api: Api) -> list[dict[str, Any]]:
    """The open reviews, oldest first."""
    items: list[dict[str, Any]] = api.get("/review").json()["items"]
    return items[::-1]


def decide(api: Api, review: dict[str, Any], decision: str, **fields: object) -> int:
    return api.post(f"/review/{review['id']}", {"decision": decision, **fields}).status_code


def published(api: Api) -> list[str]:
    """The skills that users get."""
    [release] = [row for row in rows_of(api.service, tables.release) if row.state == "published"]
    with closing(api.service.open_book("default")) as book:
        return [skill.content.removeprefix("Remember LESSON ") for skill in book.as_of(release.version).skills()]


def test_what_was_rejected_is_not_published_with_what_was_learned_later(api: Api) -> None:
    learned(api, "poison")
    [poison] = queue(api)
    assert decide(api, poison, "reject") == 200
    learned(api, "tides")
    [tides] = queue(api)
    assert [change["after"] for change in tides["changes"]] == ["Remember LESSON tides."]
    assert decide(api, tides, "accept") == 200
    assert published(api) == ["tides."]


def test_what_was_rejected_is_not_in_the_candidates_that_were_made_before(api: Api) -> None:
    learned(api, "winds", "poison", "tides")
    winds, poison, tides = queue(api)
    assert decide(api, poison, "reject") == 200
    first, rest = queue(api)
    assert first["id"] == winds["id"] and rest["id"] != tides["id"]
    assert decide(api, tides, "accept") == 409, "it contains what was rejected"
    assert [change["after"] for change in rest["changes"]] == ["Remember LESSON winds.", "Remember LESSON tides."]
    assert decide(api, rest, "accept") == 200
    assert published(api) == ["winds.", "tides."]
    assert queue(api) == [], "the first one is older than what is published"


def test_what_was_rejected_is_not_learned_again(api: Api) -> None:
    learned(api, "poison")
    assert decide(api, queue(api)[0], "reject") == 200
    learned(api, "poison")
    assert queue(api) == []
    with closing(api.service.open_book("default")) as book:
        assert [skill.content for skill in book.skills()] == []


def test_a_rejection_restores_a_text_that_was_changed_and_a_skill_that_was_removed(api: Api) -> None:
    api.publish("rain", "snow")
    with closing(api.service.open_book("default")) as book:
        first, second = book.skills()
        book.update_skill(first.id, content="Always pay twice.")
        book.remove_skill(second.id)
        version = book.version or 0
    with api.service.database.writing() as connection:
        release = releases.add_release(connection, "default", version, by="worker")
        connection.execute(
            sa.insert(tables.review).values(
                id="rev_" + "1" * 32, at=1.0, book="default", kind="release", release=release, state="open"
            )
        )
    [review] = queue(api)
    assert [change["kind"] for change in review["changes"]] == ["changed", "removed"]
    assert decide(api, review, "reject") == 200
    with closing(api.service.open_book("default")) as book:
        assert sorted(skill.content for skill in book.skills()) == ["Remember LESSON rain.", "Remember LESSON snow."]


def test_a_rejection_does_not_undo_what_a_person_did_to_the_skill(api: Api) -> None:
    learned(api, "tides")
    with closing(api.service.open_book("default")) as book:
        [skill] = book.skills()
        book.update_skill(skill.id, pinned=True)
    assert decide(api, queue(api)[0], "reject") == 200
    with closing(api.service.open_book("default")) as book:
        assert [skill.pinned for skill in book.skills()] == [True]


def test_older_candidates_leave_the_queue_when_a_newer_release_is_published(api: Api) -> None:
    learned(api, "winds", "poison", "tides")
    *older, newest = queue(api)
    assert api.post(f"/releases/{newest['release']}/publish").status_code == 200
    assert queue(api) == []
    assert [decide(api, review, "accept") for review in older] == [409, 409]
    superseded = api.get("/review?state=superseded").json()["items"]
    assert {item["id"] for item in superseded} == {item["id"] for item in older}
    assert [item["id"] for item in api.get("/review?state=accepted").json()["items"]] == [newest["id"]]
    assert published(api) == ["winds.", "poison.", "tides."]


def test_accepting_what_removes_a_skill_asks(api: Api) -> None:
    api.publish("rain", "snow")
    with closing(api.service.open_book("default")) as book:
        book.remove_skill(book.skills()[0].id)
        version = book.version or 0
    with api.service.database.writing() as connection:
        release = releases.add_release(connection, "default", version, by="worker")
        values = {"id": "rev_" + "1" * 32, "at": 1.0, "book": "default", "kind": "release", "state": "open"}
        connection.execute(sa.insert(tables.review).values(values | {"release": release}))
    [review] = queue(api)
    refused = api.post(f"/review/{review['id']}", {"decision": "accept"})
    assert refused.status_code == 409 and "would remove 1 skill" in refused.json()["error"]["message"]
    assert published(api) == ["rain.", "snow."] and len(queue(api)) == 1
    assert decide(api, review, "accept", confirm_removals=True) == 200
    assert published(api) == ["snow."]


def test_a_reviewer_sees_what_was_asked_answered_and_corrected(api: Api) -> None:
    learned(api, "tides")
    [review] = queue(api)
    [feedback] = rows_of(api.service, tables.feedback)
    [change] = review["changes"]
    assert change["origins"] == [
        {
            "feedback": feedback.id,
            "question": "What about tides?",
            "answer": "unknown",
            "correction": "LESSON tides",
            "comment": None,
        }
    ]
    [plain] = api.get("/review", key=api.add_key("read")).json()["items"]
    assert plain["changes"] is None


def test_a_reviewer_sees_a_trace_that_a_skill_was_learned_from(api: Api) -> None:
    trace = {"question": "Which port?", "answer": "80", "feedback": "Wrong: LESSON ports"}
    add_feedback(api.service, None, kind="trace", trace=json.dumps(trace))
    assert learn_all(api.service) == ["ended"]
    [[origin]] = [change["origins"] for change in queue(api)[0]["changes"]]
    assert (origin["question"], origin["answer"]) == ("Which port?", "80") and "LESSON ports" in origin["comment"]


def test_a_candidate_is_reviewed_on_the_command_line(api: Api, here: Run) -> None:
    if not api.service.database.is_sqlite:
        return  # the command has its own way to Postgres
    learned(api, "tides", "poi\u202eson")

    def command(*words: str) -> Done:
        data = ("--data", api.service.settings.data)
        return here("server", "review", *words, *data, environ={"ACE_SERVER_KEYS": SEAL_KEY})

    shown = command("list")
    assert shown.code == 0, shown.err
    for text in ("Remember LESSON tides.", "question: What about tides?", "answer: unknown", "poi\\x202eson"):
        assert text in shown.out, text
    [first, second] = command("list", "--json").data["reviews"]
    assert command("reject", second["id"]).code == 0
    assert command("accept", first["id"]).code == 0
    assert published(api) == ["tides."] and queue(api) == []
    again = command("accept", first["id"])
    assert again.code == 2 and "no such open review" in again.err
