"""Whole groups are shuffled, work is done at the end of each epoch, and a run can end when nothing changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace import Skillbook, TraceAnalyser
from ace.pipeline import CancellationToken
from ace.protocols.observers import Event, RunEnded, observing
from ace.runners import RecordedTrace, unfinished_runs
from ace.steps import EndOfEpoch, PruneStep
from tests.support.clients import client_for
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


def traces(*tasks: str) -> list[RecordedTrace]:
    return [
        RecordedTrace({"task": f"{task} {part}", "answer": f"LESSON {task}"}, f"{task}/{part}", task)
        for task in tasks
        for part in (1, 2)
    ]


class Noting:
    """A step that notes the order of the traces and the ends of epochs."""

    requires: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, book: Skillbook) -> None:
        self.lane_key = book
        self.noted: list[str] = []

    def __call__(self, ctx: Any) -> Any:
        self.noted.append(ctx.metadata["place"])
        return ctx

    def end_epoch(self, epoch: int) -> None:
        self.noted.append(f"end of {epoch}")


def run(book: Skillbook, inputs: list[RecordedTrace], *steps: Any, **options: Any) -> list[str]:
    """Run, and return why it ended."""
    events: list[Event] = []
    with ScriptedServer(learning_script()) as server, observing(events.append):
        runner = TraceAnalyser.from_client(
            client_for(server), skillbook=book, prove=False, extra_steps=steps, unproven="keep"
        )
        runner.run(inputs, **options)
        assert runner.failures == []
    return [event.stopped_by for event in events if isinstance(event, RunEnded)]


@pytest.mark.parametrize("wait", [True, False])
def test_groups_stay_together_and_each_epoch_ends_once(wait: bool) -> None:
    book = Skillbook()
    step = Noting(book)
    assert isinstance(step, EndOfEpoch)
    with ScriptedServer(learning_script()) as server:
        runner = TraceAnalyser.from_client(
            client_for(server), skillbook=book, prove=False, extra_steps=[step], unproven="keep"
        )
        runner.run(traces("a", "b", "c", "d"), 2, shuffle=3, max_in_flight=1, wait=wait)
        runner.wait_for_background()
    assert [note for note in step.noted if note.startswith("end")] == ["end of 1", "end of 2"]
    assert step.noted[8] == "end of 1"
    epochs = step.noted[:8], step.noted[9:17]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1])
    for epoch in epochs:
        for first, second in zip(epoch[::2], epoch[1::2], strict=True):
            assert (first[:1], first[2:], second[2:]) == (second[:1], "1", "2")


def test_a_run_ends_after_an_epoch_that_changes_no_skill(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        token = CancellationToken()
        step = Noting(book)
        assert run(book, traces("a", "b"), step, epochs=9, stop_idle=True, cancel_token=token) == ["nothing_accepted"]
        assert [note for note in step.noted if note.startswith("end")] == ["end of 1", "end of 2"]
        assert token.reason == "nothing_accepted"
        assert unfinished_runs(book) == [], "it is complete"
        assert len(book) == 2


def test_a_run_that_changes_skills_to_the_end_has_no_such_reason() -> None:
    book = Skillbook()
    assert run(book, traces("a"), epochs=1, stop_idle=True) == [""]
    assert run(book, traces("b"), epochs=1) == [""]


def test_pruning_is_one_version_and_keeps_the_skills_at_the_limit_and_pinned_ones(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        for harmful in (3, 4, 5, 6):
            book.add_skill("rules", f"Guess {harmful} times.", metadata={"harmful": harmful})
        book.update_skill("rules-00004", pinned=True)
        step = PruneStep(book)
        run(book, traces("a"), step)
        kept = [skill.id for skill in book.skills()]
        assert step.pruned == ["rules-00002", "rules-00003"] and kept[:2] == ["rules-00001", "rules-00004"]
        removed = [entry for entry in book.history() if entry.author == "prune after epoch 1"]
        assert len(removed) == 1 and len(removed[0].events) == 2
        assert len(book.skills(include_invalid=True)) == len(kept) + 2, "removed softly"
