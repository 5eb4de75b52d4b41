"""A gate decides whether the operations of a sample are applied; judgements of skills are applied in any case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ace import Skillbook, TraceAnalyser
from ace.context import ACEStepContext
from ace.evaluation import CounterGate
from ace.protocols import GateVerdict
from ace.protocols.observers import BatchJudged, Event, observing
from ace.protocols.roles import SkillbookReader
from ace.steps import ApplyStep, GateStep
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.clients import client_for
from tests.support.command_line import ace
from tests.support.role_inputs import REFLECTION, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

JUDGED = {"question": "Round?", "answer": "Down.", "ground_truth": "Up."}
ADD = {"type": "ADD", "section": "rules", "content": "Round up."}
LOSE = {"type": "REMOVE", "skill_id": "rules-00001"}
BLAME = {"type": "TAG", "skill_id": "rules-00001", "metadata": {"harmful": 1}}


def script(*operations: dict[str, Any]) -> Any:
    """A script whose reflector judges the first skill harmful, and whose skill manager requests the operations."""

    def answer(request: ScriptedRequest) -> Mapping[str, Any] | str:
        if request.role == "reflector":
            return {**REFLECTION, "skill_tags": [{"id": "rules-00001", "tag": "harmful"}]}
        return update(*operations) if request.role == "skill_manager" else "ready"

    return answer


def book_in(folder: Path) -> Skillbook:
    book = Skillbook.open(folder / "skills.db")
    book.add_skill("rules", "Check the units.", metadata={"helpful": 3})
    book.commit()
    return book


def learned(book: Skillbook, *operations: dict[str, Any], **options: Any) -> list[BatchJudged]:
    events: list[Event] = []
    with ScriptedServer(script(*operations)) as server, observing(events.append):
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, prove=False, **options)
        runner.run([JUDGED])
        assert runner.failures == []
    return [event for event in events if isinstance(event, BatchJudged)]


def test_a_refused_batch_changes_no_skill_but_the_judgements_in_it_are_applied(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        [event] = learned(book, LOSE, BLAME, ADD, gate=CounterGate())
        [skill] = book.skills(include_invalid=True)
        assert (skill.content, skill.helpful, skill.harmful) == ("Check the units.", 3, 2)
        reason = "gate: net score 1 -> 0 (-1)"
        entry = book.history()[-1]
        assert [note["reason"] for note in entry.skipped] == [reason, reason]
        assert (event.gate, event.accepted, f"gate: {event.reason}") == ("CounterGate", False, reason)
        assert (event.before["net"], event.after["net"], bool(event.trace_id)) == (1, 0, True)


def test_an_accepted_batch_is_applied_as_a_whole(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        [event] = learned(book, ADD, BLAME, gate=CounterGate())
        assert [skill.content for skill in book.skills()] == ["Check the units.", "Round up."]
        assert (event.accepted, event.reason) == (True, "net score unchanged at 1, skills 1 -> 2 (+1)")
        assert not book.history()[-1].skipped


def test_without_a_gate_everything_is_applied(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        assert learned(book, LOSE, ADD) == []
        assert [skill.content for skill in book.skills()] == ["Round up."]


def test_a_batch_of_judgements_is_not_judged(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        assert learned(book, BLAME, gate=CounterGate()) == []
        assert book.skills()[0].harmful == 2


class Noting:
    """A gate that accepts everything and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Sequence[UpdateOperation]] = []

    def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> GateVerdict:
        self.shown.append(batch.operations)
        return GateVerdict(True, f"{len(skillbook.skills())} skills")


def test_the_gate_is_shown_only_what_would_be_applied(tmp_path: Path) -> None:
    gate = Noting()
    secret = {"type": "ADD", "section": "rules", "content": "The key is sk-" + "a1B2" * 12}
    second = {**ADD, "content": "Round down."}
    with book_in(tmp_path) as book:
        learned(book, secret, ADD, BLAME, second, gate=gate, max_operations=1)
        assert [[skill.content for skill in shown] for shown in gate.shown] == [["Round up.", None]]
        assert [skill.content for skill in book.skills()] == ["Check the units.", "Round up."]
        leak, limit = (note["reason"] for note in book.history()[-1].skipped)
        assert "an access key" in leak and limit == "one answer may make at most 1 changes (max_operations)"


def test_an_operation_beyond_the_limit_is_not_applied_in_place_of_a_refused_one(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        [event] = learned(book, LOSE, ADD, gate=CounterGate(), max_operations=1)
        assert not event.accepted
        assert [skill.content for skill in book.skills(include_invalid=True)] == ["Check the units."]
        assert len(book.history()[-1].skipped) == 2


def test_a_sample_that_is_already_learned_is_not_judged_again() -> None:
    gate = Noting()
    ctx = ACEStepContext(metadata=MappingProxyType({"already_learned": True}))
    assert GateStep(gate, Skillbook())(ctx) is ctx
    assert gate.shown == []


def test_the_limit_of_operations_does_not_count_judgements(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        learned(book, BLAME, BLAME, ADD, max_operations=1)
        assert (book.skills()[0].harmful, len(book)) == (3, 2)


def test_a_gate_that_returns_something_else_fails_the_sample(tmp_path: Path) -> None:
    class Truthy(Noting):
        def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> Any:
            return True

    with book_in(tmp_path) as book, ScriptedServer(script(ADD)) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, prove=False, gate=Truthy())
        [result] = runner.run([JUDGED])
        assert isinstance(result.error, TypeError)
        assert "the result of Truthy.judge must be a GateVerdict, got True" in str(result.error)
        assert (result.failed_at, len(book)) == ("GateStep", 1)


def test_wrong_gates_and_limits_are_refused_at_once() -> None:
    book = Skillbook()
    with pytest.raises(TypeError, match="gate"):
        GateStep("counters", book)  # type: ignore[arg-type]  # refused
    with pytest.raises(TypeError, match="gate"):
        TraceAnalyser.from_roles(reflector=None, skill_manager=None, gate="counters")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_operations"):
        ApplyStep(book, max_operations=0)


def test_ace_learn_with_a_gate_reports_what_it_refused(tmp_path: Path) -> None:
    book_in(tmp_path).close()
    (tmp_path / "trace.json").write_text(json.dumps(JUDGED), encoding="utf-8")
    with ScriptedServer(script(LOSE)) as server:
        model = ("--model", "openai/scripted", "--api-base", server.api_base)
        learn = ("learn", "trace.json", *model, "--gate", "counters", "--no-merge")
        done = ace(*learn, "--json", folder=tmp_path)
        assert (done.code, done.data["gate"]) == (0, {"accepted": 0, "refused": 1}), done.err
        assert [omission["reason"] for omission in done.data["left_out"]] == ["gate: net score 2 -> 0 (-2)"]
        shown = ace(*learn, "--again", folder=tmp_path)
        rows = [" ".join(line.split()) for line in shown.out.splitlines()]
        assert not [row for row in rows if row.startswith("traces whose changes the gate accepted")]
        assert "traces whose changes the gate refused 1" in rows
        log = ace("skillbook", "log", folder=tmp_path).out
        assert "1 skipped (gate: net score 2 -> 0 (-2))" in log
        other = ace(*learn, "--skillbook", "skills.json", folder=tmp_path)
        assert (other.code, (tmp_path / "skills.json").exists()) == (2, False)
        assert "--gate counters needs a skillbook with a history, and 'skills.json' has none" in other.err
    assert json.loads(ace("skillbook", "show", "--json", folder=tmp_path).out)["skills"]
