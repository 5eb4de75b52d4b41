"""What a run keeps of a trace besides the skills: its texts and cases without what is sensitive, or only its name."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ace.outputs import ReflectorOutput, SkillManagerOutput
from ace.protocols.deduplication import DeduplicationConfig
from ace.runners import TraceAnalyser
from ace.skill import CaseCheck, InsightSource, Provenance, SkillCase
from ace.skillbook import Skillbook
from ace.steps import UpdateStep, learning_tail
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.runners.test_privacy import CARD, KEY, MAIL, PHONE, PRIVATE
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

ZEBRA = "zebra"
"""A word that is in every text of the trace, and not in the skill."""
TRACE = {
    "question": f"Where does the {ZEBRA} graze?",
    "context": f"The {ZEBRA} came in May.",
    "answer": f"The {ZEBRA} grazes at pier 4.",
    "feedback": f"No, the {ZEBRA} grazes at pier 7.",
    "messages": [
        {"role": "user", "content": f"Where does the {ZEBRA} graze?"},
        {"role": "assistant", "content": f"The {ZEBRA} grazes at pier 4."},
        {"role": "user", "content": f"No, that is wrong. The {ZEBRA} grazes at pier 7."},
        {"role": "assistant", "content": f"You are right, the {ZEBRA} grazes at pier 7."},
    ],
}
SKILL = "Animals graze at pier 7."


class Reflector:
    def reflect(self, **_: object) -> ReflectorOutput:
        return ReflectorOutput.model_validate(
            {**REFLECTION, "error_identification": f"The {ZEBRA} was sought.", "key_insight": f"A {ZEBRA} grazes."}
        )


class Manager:
    """Asks for what it was given."""

    def __init__(self, *operations: UpdateOperation) -> None:
        self.operations = operations

    def update_skills(self, **_: object) -> SkillManagerOutput:
        return SkillManagerOutput(update=UpdateBatch(f"The {ZEBRA} said so.", self.operations))


def zebra_case(**changes: Any) -> SkillCase:
    texts: dict[str, Any] = {
        "context": f"The {ZEBRA} came in May.",
        "wrong": f"The {ZEBRA} grazes at pier 4.",
        "correction": f"No, the {ZEBRA} grazes at pier 7.",
        "expected": f"The {ZEBRA} grazes at pier 7.",
        "trace_id": "runs.jsonl#1",
    }
    return SkillCase.make(f"Where does the {ZEBRA} graze?", CaseCheck("contains", f"{ZEBRA}-7"), **{**texts, **changes})


def stored_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def everything() -> list[UpdateOperation]:
    """Return operations that would bring every text of the trace into a book, if they may."""
    texts: dict[str, Any] = {"justification": f"A {ZEBRA}.", "evidence": f"The {ZEBRA} grazed."}
    source = InsightSource("runs.jsonl#1", ZEBRA, 1, 1, "kit", ZEBRA, ZEBRA)
    return [
        UpdateOperation("ADD", section="animals", content=SKILL, cases=[zebra_case()], **texts),
        UpdateOperation("ADD", section="animals", content="Ask twice.", insight_source=source),
        UpdateOperation("UPDATE", skill_id="animals-00001", cases=[zebra_case(context="later")]),
        UpdateOperation("UPDATE", skill_id="animals-00001", metadata={"helpful": 1}, cases=[zebra_case()], **texts),
        UpdateOperation("UPDATE", skill_id="unknown", content="Animals graze.", cases=[zebra_case()], **texts),
        UpdateOperation("TAG", skill_id="animals-00001", metadata={"neutral": 1}, **texts),
    ]


@pytest.mark.parametrize("suffix", ["db", "json"])
@pytest.mark.parametrize("provenance", ["full", "ids"])
def test_with_ids_only_the_skill_itself_is_kept(suffix: str, provenance: Provenance, tmp_path: Path) -> None:
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(),
        skill_manager=Manager(*everything()),
        skillbook_path=tmp_path / f"skills.{suffix}",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval=1,
        provenance=provenance,
        unproven="keep",
    )
    [result] = runner.run([TRACE])
    assert result.error is None
    first, second = runner.skillbook.skills()
    runner.skillbook.close()
    stored = stored_in(tmp_path)
    assert SKILL.encode() in stored
    assert (ZEBRA.encode() in stored) == (provenance == "full")
    assert (first.helpful, first.neutral) == (1, 1)
    [source] = first.sources
    assert source.trace_id != ""
    assert (source.step, source.integration) == (1, result.output.metadata["integration"] if result.output else None)
    assert second.sources[0].trace_id == "runs.jsonl#1"
    assert second.sources[0].integration == "kit"
    assert bool(first.cases) == (provenance == "full")
    assert first.proof == "unproven"


def test_what_models_said_of_a_trace_is_deleted_when_its_run_has_ended(tmp_path: Path) -> None:
    is_down = True

    def script(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            return {**REFLECTION, "error_identification": f"A {ZEBRA}.", "key_insight": f"The {ZEBRA} grazes."}
        if is_down and "Second" in request.text:
            return HttpError(503)
        return UpdateBatch(ZEBRA, [change for change in everything() if change.type == "ADD"]).to_dict()

    def runner() -> TraceAnalyser:
        return TraceAnalyser.from_client(
            client, skillbook_path=tmp_path / "skills.db", provenance="ids", unproven="keep"
        )

    with ScriptedServer(script) as server:
        client = client_for(server)
        first = runner()
        results = first.run([TRACE, {**TRACE, "question": "Second?"}], run_id="zoo", max_in_flight=1)
        assert [result.error is None for result in results] == [True, False]
        first.skillbook.close()
        assert tables_with(ZEBRA, tmp_path / "skills.db") == {"answer"}, "a resumed run needs them"
        is_down = False
        asked = len(server.requests)
        again = runner()
        results = again.run([TRACE, {**TRACE, "question": "Second?"}], run_id="zoo", resume=True)
        assert len(server.requests) == asked + 1
        again.skillbook.close()
    assert tables_with(ZEBRA, tmp_path / "skills.db") == set()
    assert ZEBRA.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("skills.db*"))


def tables_with(word: str, path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table for table in tables if word in str(connection.execute(f"SELECT * FROM {table}").fetchall())}


def test_the_provenance_is_checked_early() -> None:
    wrong: Any = "none"
    for make in (
        lambda: UpdateStep(Manager(), provenance=wrong),
        lambda: learning_tail(Reflector(), Manager(), Skillbook(), provenance=wrong, unproven="keep"),
        lambda: TraceAnalyser.from_roles(
            reflector=Reflector(), skill_manager=Manager(), provenance=wrong, unproven="keep"
        ),
    ):
        with pytest.raises(ValueError, match="provenance must be one of full, ids, got 'none'"):
            make()


def learned(tmp_path: Path, case: SkillCase, **options: Any) -> tuple[SkillCase, ...]:
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(),
        skill_manager=Manager(UpdateOperation("ADD", section="animals", content=SKILL, cases=[case])),
        skillbook_path=tmp_path / "skills.db",
        **options,
        unproven="keep",
    )
    [result] = runner.run([TRACE])
    assert result.error is None
    [skill] = runner.skillbook.skills()
    runner.skillbook.close()
    return skill.cases


def private_case() -> SkillCase:
    return zebra_case(
        context=f"Her key is {KEY}.",
        wrong=f"I call {PHONE}.",
        correction=f"No, write to {MAIL}!",
        expected=f"Write to {MAIL}, card {CARD}.",
        trace_id=f"{KEY}.jsonl#1",
    )


def test_a_case_is_stored_without_what_is_sensitive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_PASSWORD", "gate4-opens")
    case = private_case()
    asked = SkillCase.make(f"Is it gate4-opens, {MAIL}?", case.check, **_texts(case))
    [kept] = learned(tmp_path, asked)
    assert kept.question == "Is it [hidden: secret], [hidden: email_address]?"
    assert kept.id == SkillCase.make(kept.question, kept.check, context=kept.context).id
    assert kept.context == "Her key is [hidden: secret]."
    assert kept.wrong == "I call [hidden: phone_number]."
    assert kept.correction == "No, write to [hidden: email_address]!"
    assert kept.expected == "Write to [hidden: email_address], card [hidden: card_number]."
    assert kept.trace_id == "[hidden: secret].jsonl#1"
    assert kept.check == case.check
    stored = stored_in(tmp_path)
    assert [kind for kind, value in PRIVATE.items() if value.encode() in stored] == []
    assert b"gate4-opens" not in stored


def test_what_is_allowed_stays_in_a_case(tmp_path: Path) -> None:
    [kept] = learned(tmp_path, private_case(), allow=["email_address"])
    assert kept.correction == f"No, write to {MAIL}!"
    assert kept.context == "Her key is [hidden: secret]."


@pytest.mark.parametrize("value", [MAIL, f"7\n{PHONE}", "gate4-opens"])
def test_a_check_that_would_be_redacted_proves_nothing(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ZOO_PASSWORD", "gate4-opens")
    with caplog.at_level(logging.WARNING):
        assert learned(tmp_path, SkillCase.make("Where?", CaseCheck("contains", value), trace_id="runs.jsonl#1")) == ()
    assert "of runs.jsonl#1 is dropped: its check asks for a value that is redacted" in caplog.text
    assert value not in caplog.text
    assert value.encode() not in stored_in(tmp_path)


def _texts(case: SkillCase) -> dict[str, Any]:
    return {name: getattr(case, name) for name in ("context", "wrong", "correction", "expected", "trace_id")}


def test_the_history_does_not_list_the_vectors_of_a_merge_that_changed_nothing(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")  # which the wheel of ace-core does without
    operations = [UpdateOperation("ADD", section="zoo", content=text) for text in (SKILL, "Feed no bread to ducks.")]
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(),
        skill_manager=Manager(*operations),
        skillbook_path=tmp_path / "skills.db",
        dedup_config=DeduplicationConfig(),
        unproven="keep",
    )
    [result] = runner.run([TRACE])
    assert result.error is None
    assert all(skill.embedding is not None for skill in runner.skillbook.skills())
    assert [len(entry.events) for entry in runner.skillbook.history()] == [2]
    runner.skillbook.close()
