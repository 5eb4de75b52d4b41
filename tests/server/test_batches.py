"""Batches: which feedback is in them, and what a person decides first."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace_server import reviews, tables
from ace_server.batches import BatchNotFailedError, make_batches, retry_batch
from ace_server.database import Database, now
from ace_server.service import Service
from tests.server.service_world import add_book, add_feedback, add_request, rows_of, service_on, states

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Service:
    return service_on(database, tmp_path, NOWHERE, batch_size=3, batch_age=100)


def give(service: Service, count: int) -> list[str]:
    return [add_feedback(service, add_request(service, f"word{number}"), thumb="up") for number in range(count)]


def decide(service: Service, review: str, decision: reviews.ReviewDecision, **values: Any) -> None:
    with service.database.writing() as connection:
        reviews.decide(connection, service.seal, review, decision, by="key_2", **values)


def begin(service: Service, batch: str) -> None:
    """Make a batch running, so that the next one may be queued."""
    with service.database.writing() as connection:
        connection.execute(sa.update(tables.batch).where(tables.batch.c.id == batch).values(state="running"))


def test_full_batches_are_made_one_after_the_other_and_the_rest_waits_for_its_age(service: Service) -> None:
    add_book(service)
    first = give(service, 7)
    [one] = make_batches(service)
    assert make_batches(service) == []  # it is queued
    begin(service, one)
    [two] = make_batches(service)
    begin(service, two)
    assert make_batches(service) == []  # one is left, which is not old enough
    made = rows_of(service, tables.batch)
    assert [(row.id, row.samples, row.attempts) for row in made] == [(one, 3, 0), (two, 3, 0)]
    assert [[row.id for row in rows_of(service, tables.feedback, batch=batch.id)] for batch in made] == [
        first[:3],
        first[3:6],
    ]
    add_feedback(service, add_request(service, "late"), thumb="up", at=now() - 101)
    [last] = make_batches(service)
    assert [row.state for row in rows_of(service, tables.feedback, batch=last)] == ["batched"] * 2


def test_a_key_that_sends_much_feedback_leaves_room_for_the_others(service: Service) -> None:
    add_book(service)
    flood = give(service, 20)
    ann, bob = (add_feedback(service, add_request(service, key), thumb="up", key=key) for key in ("ann", "bob"))
    [batch] = make_batches(service)
    assert {row.id for row in rows_of(service, tables.feedback, batch=batch)} == {flood[0], ann, bob}


def test_large_traces_are_in_batches_of_their_own(tmp_path: Path, database: Database) -> None:
    service = service_on(database, tmp_path, NOWHERE, batch_size=3, batch_age=0, max_trace_mb=1)
    add_book(service)
    large = '{"question": "' + 700_000 * "x" + '"}'
    traces = [add_feedback(service, None, kind="trace", trace=large) for _ in range(2)]
    for trace in traces:
        [batch] = make_batches(service)
        assert [row.id for row in rows_of(service, tables.feedback, batch=batch)] == [trace]
        begin(service, batch)


def test_workers_make_batches_at_once_without_sharing_feedback(service: Service) -> None:
    names = [f"book{number}" for number in range(5)]
    for name in names:
        add_book(service, name)
        for number in range(6):
            request = add_request(service, f"word{number}", book=name)
            add_feedback(service, request, book=name, thumb="up")
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(make_batches(service))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made)) == 5
    assert sorted(row.book for row in rows_of(service, tables.batch)) == names
    assert sorted(states(service)) == ["batched"] * 15 + ["new"] * 15


def test_each_book_has_its_own_settings(service: Service) -> None:
    add_book(service, "small", batch_size=1)
    add_book(service, "silent", learning="off", batch_size=1)
    for book in ("small", "silent"):
        add_feedback(service, add_request(service, "word", book=book), book=book, thumb="up")
    assert len(make_batches(service)) == 1
    assert [(row.book, row.state) for row in rows_of(service, tables.feedback)] == [
        ("small", "batched"),
        ("silent", "new"),
    ]


@pytest.mark.parametrize(
    ("first", "second", "is_held"),
    [
        ({"thumb": "up"}, {"thumb": "down"}, True),
        ({"correction": "Lyon"}, {"correction": "Paris"}, True),
        ({"correction": "Lyon"}, {"correction": " lyon"}, False),
        ({"thumb": "down"}, {"correction": "Lyon"}, False),
    ],
)
def test_contradictory_feedback_is_held(
    service: Service, first: dict[str, str], second: dict[str, str], is_held: bool
) -> None:
    add_book(service, batch_size=2)
    request = add_request(service, "word", subject="jane")
    given = [add_feedback(service, request, subject="jane", **feedback) for feedback in (first, second)]
    assert len(make_batches(service)) == (not is_held)
    assert states(service) == ["held" if is_held else "batched"] * 2
    listed = rows_of(service, tables.review)
    assert {(row.kind, row.feedback, row.request, row.subject) for row in listed} == {
        ("contradiction", id, request, "jane") for id in given if is_held
    }


def test_feedback_that_contradicts_what_was_learned_is_held(service: Service) -> None:
    add_book(service, batch_size=1)
    request = add_request(service, "word")
    add_feedback(service, request, thumb="up", state="learned")
    add_feedback(service, request, thumb="down")
    assert make_batches(service) == []
    assert states(service) == ["learned", "held"]


def test_a_person_decides_about_held_feedback(service: Service) -> None:
    add_book(service, batch_size=1)
    request = add_request(service, "word")
    kept, dropped = (add_feedback(service, request, thumb=thumb) for thumb in ("up", "down"))
    make_batches(service)
    [first], [second] = ([row.id for row in rows_of(service, tables.review, feedback=id)] for id in (kept, dropped))
    decide(service, first, "accept")
    decide(service, second, "reject")
    assert len(make_batches(service)) == 1
    assert {row.id: row.state for row in rows_of(service, tables.feedback)} == {kept: "batched", dropped: "rejected"}
    with pytest.raises(reviews.AlreadyDecidedError):
        decide(service, first, "reject")


def test_a_reviewed_book_learns_only_what_was_accepted(service: Service) -> None:
    add_book(service, learning="reviewed", batch_size=1)
    give(service, 2)
    assert make_batches(service) == []
    first, _ = rows_of(service, tables.review)
    assert first.kind == "feedback"
    decide(service, first.id, "edit", ground_truth="Lyon")
    assert len(make_batches(service)) == 1
    [batched] = rows_of(service, tables.feedback, state="batched")
    assert service.seal.open(batched.correction) == "Lyon"


def test_uncertain_requests_are_listed_up_to_a_share(service: Service) -> None:
    add_book(service, review_share=0.25)
    reason = "no skill was cited"
    asked = [add_request(service, f"word{number}", uncertain=reason) for number in range(3)]
    make_batches(service)
    assert rows_of(service, tables.review) == []
    asked += [add_request(service, "another"), add_request(service, "one more")]
    make_batches(service)
    make_batches(service)
    [listed] = rows_of(service, tables.review)
    assert (listed.kind, listed.request, listed.reason) == ("uncertain", asked[2], reason)
    asked += [add_request(service, f"later{number}", uncertain=reason) for number in range(2)]
    make_batches(service)
    assert [row.request for row in rows_of(service, tables.review)] == [asked[2], asked[6]]


def test_the_right_answer_to_an_uncertain_request_is_learned(service: Service) -> None:
    add_book(service, learning="reviewed", review_share=1, batch_size=1)
    request = add_request(service, "word", uncertain="no skill was cited")
    make_batches(service)
    [listed] = rows_of(service, tables.review)
    decide(service, listed.id, "edit", ground_truth="Lyon")
    assert len(make_batches(service)) == 1
    [feedback] = rows_of(service, tables.feedback)
    assert (feedback.request, feedback.state, feedback.key) == (request, "batched", "key_2")


def test_a_heuristic_book_judges_requests_without_feedback(service: Service) -> None:
    add_book(service, learning="heuristic", batch_size=2)
    asked = [add_request(service, f"word{number}", subject="jane", at=now() - 101) for number in range(3)]
    add_request(service, "fresh")
    add_feedback(service, asked[0], thumb="up")
    assert len(make_batches(service)) == 1
    assert make_batches(service) == []
    judged = rows_of(service, tables.feedback, kind="judgement")
    assert {(row.request, row.subject) for row in judged} == {(asked[1], "jane"), (asked[2], "jane")}


def test_only_a_failed_batch_is_tried_again(service: Service) -> None:
    add_book(service, batch_size=1)
    give(service, 1)
    [batch] = make_batches(service)
    with pytest.raises(BatchNotFailedError), service.database.writing() as connection:
        retry_batch(connection, batch)
