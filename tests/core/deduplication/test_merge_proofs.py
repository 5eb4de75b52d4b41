"""Changes of skills that have cases are proven on these cases, and refused where they would break one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace import Reflector, SkillManager, TraceAnalyser, learning_tail
from ace.deduplication import DeduplicationConfig, DeduplicationManager, DeleteOp, MergeOp, UpdateOp
from ace.outputs import AgentOutput
from ace.proof import CaseProver
from ace.protocols import LLMCallError
from ace.providers import LiteLLMClient
from ace.skill import CaseCheck, InsightSource, Skill, SkillCase
from ace.skillbook import Skillbook
from ace.steps import DeduplicateStep
from tests.core.deduplication.test_contradictions import CONTRADICTING, EVERYWHERE, REWORDED, SAME
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TIDES = ("Write times as 14h30.", "Write times as 2:30 pm.")


class Quoting:
    """An agent that answers with the first skill that it is shown, letter by letter."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
        self.questions.append(question)
        return AgentOutput(reasoning="", final_answer=skillbook.skills()[0].content)


class OutOfReach:
    def generate(self, **kwargs: Any) -> AgentOutput:
        raise LLMCallError("model 'm' cannot be reached")


class Judge:
    """A skill manager that wants what it is told to want."""

    def __init__(self, *operations: dict[str, Any]) -> None:
        self.operations = operations
        self.asked = 0

    def consolidate_skills(self, *, prompt: str) -> dict[str, Any]:
        self.asked += 1
        return {"consolidation_operations": list(self.operations)}


def merging(content: str, keep_id: str = "s-00001") -> Judge:
    return Judge({"type": "MERGE", "source_ids": ["s-00001", "s-00002"], "keep_id": keep_id, "merged_content": content})


def quoted(text: str) -> SkillCase:
    """The case that exactly this text of a rule passes."""
    return SkillCase.make(f"What does the rule {text!r} say?", CaseCheck("regex", f"^{re.escape(text)}$"))


def holding(*values: str, question: str = "When is high water?", **fields: Any) -> SkillCase:
    return SkillCase.make(question, CaseCheck("contains", "\n".join(values)), **fields)


def book_of(*skills: tuple[str, Sequence[SkillCase]]) -> Skillbook:
    book = Skillbook()
    for content, cases in skills:
        book.add_skill("s", content, cases=cases)
    return book


def contents(book: Skillbook) -> list[str]:
    return [skill.content for skill in book.skills()]


def manager(judge: Judge | None = None, agent: Any = None) -> DeduplicationManager:
    return DeduplicationManager(EVERYWHERE, judge, prover=CaseProver(agent) if agent is not None else None)


# What no model decides


@pytest.mark.parametrize("agent", [None, Quoting()])
@pytest.mark.parametrize("kind", CONTRADICTING)
def test_contradicting_rules_with_cases_are_never_merged_by_rule(kind: str, agent: Quoting | None) -> None:
    book = book_of(*((text, [quoted(text)]) for text in CONTRADICTING[kind]))
    assert manager(agent=agent).consolidate(book).applied == ()
    assert contents(book) == list(CONTRADICTING[kind])


@pytest.mark.parametrize("kind", SAME)
def test_one_text_with_cases_needs_no_proof(kind: str) -> None:
    first, second = (holding("units", question=f"Task {number}?") for number in (1, 2))
    book = book_of((SAME[kind][0], [first]), (SAME[kind][1], [second]))
    assert [operation.type for operation in manager().consolidate(book).applied] == ["MERGE"]
    assert {case.id for case in book.skills()[0].cases} == {first.id, second.id}


@pytest.mark.parametrize("kind", REWORDED)
def test_another_wording_with_cases_needs_a_proof(kind: str) -> None:
    texts = REWORDED[kind]
    cases = [holding("check", "first", question=f"Task {number}?") for number in (1, 2)]
    book = book_of(*zip(texts, [[case] for case in cases], strict=True))
    result = manager().consolidate(book)
    assert result.applied == () and len(book) == 2
    assert "not proven" in result.skipped[0].reason
    assert not book.similarity_decisions(), "with an agent it may be proven yet"

    agent = Quoting()
    manager(agent=agent).consolidate(book)
    [kept] = book.skills()
    assert {case.id for case in kept.cases} == {case.id for case in cases}
    assert kept.proof == "proven"
    assert len(agent.questions) == 2, "each case is asked once"


def test_cases_that_are_decided_by_other_values_need_a_proof() -> None:
    text = "Follow the list of the harbour."
    pilots = holding("Petersen", question="Who?", correction="No, it is Petersen.", expected="Petersen")
    piers = holding("pier C", question="Where?", correction="No, it is pier C.", expected="pier C")
    book = book_of((text, [pilots]), (text, [piers]))
    result = manager().consolidate(book)
    assert result.applied == () and "different values" in result.skipped[0].reason

    both = "Petersen takes pier C."
    book = book_of((both, [pilots]), (both, [piers]))
    assert len(manager().consolidate(book).applied) == 1, "the text holds the values of both"


def test_a_rule_merge_that_breaks_a_case_keeps_the_skills_apart() -> None:
    the_shorter = "Check units first."
    third = holding("first", question="Task 3?")
    book = book_of(("Check the units first.", []), (the_shorter, [quoted(the_shorter)]), ("check units first", [third]))
    agent = Quoting()
    result = manager(agent=agent).consolidate(book)
    assert sorted(operation.type for operation in result.applied) == ["KEEP", "MERGE"]
    assert contents(book) == ["Check the units first.", the_shorter]
    decision = book.get_similarity_decision("s-00001", "s-00002")
    assert decision is not None and quoted(the_shorter).id in decision.reasoning
    assert [case.id for case in book.skills()[0].cases] == [third.id]
    asked = len(agent.questions)
    assert not manager(agent=agent).consolidate(book)
    assert len(agent.questions) == asked, "what broke a case is not tried again"


# What a model wants


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", CONTRADICTING)
def test_a_model_that_merges_contradicting_rules_is_refused_by_the_proof(kind: str, keep: int) -> None:
    texts = CONTRADICTING[kind]
    for merged in (texts[keep], " ".join(texts), ""):
        book = book_of(*((text, [quoted(text)]) for text in texts))
        result = manager(merging(merged, f"s-0000{keep + 1}"), Quoting()).consolidate(book)
        assert contents(book) == list(texts)
        [skipped] = result.skipped
        assert skipped.operation.type == "MERGE"
        if "would be lost" in skipped.reason and not skipped.reason.startswith("case "):
            continue  # it is refused before any case is asked
        assert [operation.type for operation in result.applied] == ["KEEP"]
        decision = book.get_similarity_decision("s-00001", "s-00002")
        assert decision is not None and "case" in decision.reasoning


@pytest.mark.parametrize("kind", ["a number", "a name", "a code", "a format", "a unit", "punctuation in quotes"])
def test_a_model_that_drops_a_value_is_refused_without_cases(kind: str) -> None:
    texts = CONTRADICTING[kind]
    for operation in (
        merging(texts[0]),
        Judge({"type": "DELETE", "skill_id": "s-00002"}),
        Judge({"type": "UPDATE", "skill_id": "s-00002", "new_content": texts[0]}),
    ):
        book = book_of(*((text, []) for text in texts))
        result = manager(operation).consolidate(book)
        assert result.applied == () and "would be lost" in result.skipped[0].reason
        assert contents(book) == list(texts)


def test_a_merge_that_loses_the_value_of_a_case_costs_no_question() -> None:
    case = holding("14h30", correction="No, write it as 14h30.", expected="14h30", wrong="2:30 pm")
    book = book_of((TIDES[0], [case]), ("Write all times in one form.", []))
    agent = Quoting()
    result = manager(merging("Write all times in one form."), agent).consolidate(book)
    assert [operation.type for operation in result.applied] == ["KEEP"]
    assert "needs '14h30'" in result.skipped[0].reason
    assert agent.questions == []


def test_a_proven_merge_keeps_all_cases_with_their_results() -> None:
    merged = "Write high and low water as 14h30."
    cases = [replace(holding("14h30", question=f"{tide} water?"), last_result="failed") for tide in ("High", "Low")]
    book = book_of(("Write high water as 14h30.", [cases[0]]), ("Write low water as 14h30.", [cases[1]]))
    agent = Quoting()
    agent.llm = replace_model("scripted")  # type: ignore[attr-defined]
    result = manager(merging(merged), agent).consolidate(book)
    assert [operation.type for operation in result.applied] == ["MERGE"]
    [kept] = book.skills()
    assert kept.content == merged
    assert [(case.id, case.last_result, case.model) for case in kept.cases] == [
        (case.id, "passed", "scripted") for case in cases
    ]
    assert all(case.last_run_at for case in kept.cases)


@dataclass
class ClientOf:
    model: str


def replace_model(model: str) -> ClientOf:
    return ClientOf(model)


def test_a_proven_merge_is_one_version(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        for tide in ("high", "low"):
            book.add_skill("s", f"Write {tide} water as 14h30.", cases=[holding("14h30", question=tide)])
        before, version = book.dumps(), book.version
        assert version is not None
        manager(merging("Write high and low water as 14h30."), Quoting()).consolidate(book)
        assert book.version == version + 1
        assert book.history()[-1].author == "deduplication"
        assert book.skills()[0].proof == "proven"
        book.rollback(version)
        assert book.dumps() == before


def test_without_a_prover_a_model_cannot_reword_skills_with_cases() -> None:
    for operation in (
        merging("Write high and low water as 14h30."),
        Judge({"type": "UPDATE", "skill_id": "s-00001", "new_content": "Write high water as 14h30, always."}),
    ):
        book = book_of(
            ("Write high water as 14h30.", [holding("14h30")]), ("Write low water as 14h30.", [holding("14h30")])
        )
        result = manager(operation).consolidate(book)
        assert result.applied == () and "no agent was given" in result.skipped[0].reason
        assert len(book) == 2 and not book.similarity_decisions()


def test_a_skill_with_cases_that_a_model_removes_is_merged_and_proven() -> None:
    wanted = Judge({"type": "DELETE", "skill_id": "s-00002", "reasoning": "nothing new"})
    low = holding("14h30", question="Low water?")
    book = book_of(("Write all times as 14h30.", []), ("Write times as 14h30.", [low]))
    [merge] = manager(wanted, Quoting()).consolidate(book).applied
    assert (merge.type, merge.reasoning) == ("MERGE", "nothing new")
    [kept] = book.skills()
    assert (kept.content, [case.id for case in kept.cases]) == ("Write all times as 14h30.", [low.id])

    book = book_of((TIDES[1], []), (TIDES[0], [holding("14h30")]))
    assert manager(wanted, Quoting()).consolidate(book).skipped
    assert contents(book) == [TIDES[1], TIDES[0]]


def test_a_new_wording_is_proven() -> None:
    similar: tuple[str, list[SkillCase]] = ("Write low water as 14h30.", [])
    for new, is_done in (("Write times of high water as 14h30.", True), ("Write 14h30 as 2:30 pm.", False)):
        case = holding("14h30", wrong="2:30 pm")
        book = book_of((TIDES[0], [case]), similar)
        judge = Judge({"type": "UPDATE", "skill_id": "s-00001", "new_content": new})
        result = manager(judge, Quoting()).consolidate(book)
        assert bool(result.applied) is is_done
        assert contents(book)[0] == (new if is_done else TIDES[0])


def test_what_failed_before_breaks_nothing() -> None:
    never = replace(holding("X7"), last_result="failed")
    book = book_of(("Write high water as 14h30.", [never]), ("Write low water as 14h30.", []))
    agent = Quoting()
    assert manager(merging("Write all water as 14h30."), agent).consolidate(book).applied
    assert len(agent.questions) == 2, "with the merged text, and with the own one"
    assert book.skills()[0].proof == "failing"


def test_what_fails_in_the_book_but_passes_alone_is_broken_by_a_merge() -> None:
    disturbed = replace(quoted("Write low water as 14h30."), last_result="failed")
    book = book_of(("Write high water as 14h30.", []), ("Write low water as 14h30.", [disturbed]))
    result = manager(merging("Write all water as 14h30."), Quoting()).consolidate(book)
    assert [operation.type for operation in result.applied] == ["KEEP"]


def test_an_agent_out_of_reach_costs_no_skill(caplog: pytest.LogCaptureFixture) -> None:
    book = book_of(("Write high water as 14h30.", [holding("14h30")]), ("Write low water as 14h30.", []))
    result = manager(merging("Write all water as 14h30."), OutOfReach()).consolidate(book)
    assert result.applied == () and "cannot be reached" in result.problem
    assert not book.similarity_decisions() and len(book) == 2
    assert "could not be run" in caplog.text


def test_a_check_that_needs_a_judge_proves_nothing_without_one() -> None:
    polite = SkillCase.make("Greet.", CaseCheck("judge", "Is it polite?"))
    book = book_of(("Write high water as 14h30.", [polite]), ("Write low water as 14h30.", []))
    result = manager(merging("Write all water as 14h30."), Quoting()).consolidate(book)
    assert result.applied == () and "could not be judged" in result.skipped[0].reason
    assert not book.similarity_decisions()


# Managers and provers of others


def test_operations_by_hand_are_proven_too() -> None:
    book = book_of(("Write high water as 14h30.", [holding("14h30")]), ("Write low water as 2:30 pm.", []))
    report = manager(agent=Quoting()).apply_operations(
        [
            MergeOp(("s-00001", "s-00002"), "s-00001", "Write all water as 2:30 pm."),
            UpdateOp("s-00001", "Write 2:30 pm."),
            UpdateOp("s-00009", "x"),
            UpdateOp("s-00002", "Write low water as 14h30."),
        ],
        book,
    )
    assert contents(book) == ["Write high water as 14h30.", "Write low water as 14h30."]
    assert [operation.type for operation in report.applied] == ["KEEP", "UPDATE"]
    assert [skipped.operation.type for skipped in report.skipped] == ["MERGE", "UPDATE", "UPDATE"]
    by_hand = DeduplicationManager().apply_operations([DeleteOp("s-00001")], book)
    assert len(by_hand.applied) == 1, "what a person removes by hand is removed"


def test_a_prover_of_another_kind_may_be_given() -> None:
    @dataclass
    class Outcome:
        answer: str
        passed: bool | None

    class Refuses:
        def outcome(self, case: SkillCase, skills: Sequence[Skill]) -> Outcome:
            return Outcome("", "high" in skills[0].content)

    book = book_of(("Write high water as 14h30.", [holding("14h30")]), ("Write low water as 14h30.", []))
    proved = DeduplicationManager(EVERYWHERE, merging("Write all water as 14h30."), prover=Refuses())
    assert [operation.type for operation in proved.consolidate(book).applied] == ["KEEP"]


def test_a_prover_is_given_once() -> None:
    own, other = CaseProver(Quoting()), CaseProver(Quoting())
    assert DeduplicationManager(prover=own).with_prover(other).prover is own
    plain = DeduplicationManager()
    assert plain.with_prover(own).prover is own and plain.prover is None
    assert plain.with_prover(own).detector is plain.detector
    with pytest.raises(TypeError, match="prover"):
        DeduplicationManager(prover=Quoting())  # type: ignore[arg-type]


def steps_of(manager: Any, **options: Any) -> DeduplicateStep:
    client = LiteLLMClient("openai/nobody")
    tail = learning_tail(Reflector(client), SkillManager(client), Skillbook(), dedup_manager=manager, **options)
    return next(step for step in tail if isinstance(step, DeduplicateStep))


def test_a_run_that_proves_gives_its_prover_to_the_manager() -> None:
    class AskedAgain(Quoting):
        can_be_asked_again = True

    class Reports:
        def get_similarity_report(self, skillbook: Skillbook) -> str | None:
            return None

    agent, plain, others = AskedAgain(), DeduplicationManager(), Reports()
    given = steps_of(plain, agent=agent).manager
    assert isinstance(given, DeduplicationManager) and isinstance(given.prover, CaseProver)
    assert given.prover.agent is agent
    assert plain.prover is None
    for options in ({}, {"agent": agent, "prove": False}, {"agent": agent, "provenance": "ids"}, {"agent": Quoting()}):
        unproven = steps_of(plain, **options).manager
        assert isinstance(unproven, DeduplicationManager) and unproven.prover is None
    assert steps_of(others, agent=agent).manager is others


def test_a_run_refuses_the_merge_of_contradicting_rules() -> None:
    texts = ("Write the time of high water as 14h30.", "Write the time of low water as 2:30 pm.")

    def script(request: ScriptedRequest) -> Any:
        if "You keep a skillbook" in request.text:
            both = {"source_ids": ["tides-00001", "tides-00002"], "keep_id": "tides-00001"}
            merged = "Write all times as 14h30, never as 2:30 pm."
            return {"reasoning": "", "consolidation_operations": [{"type": "MERGE", **both, "merged_content": merged}]}
        if request.role == "agent":
            return {"reasoning": "", "final_answer": "14h30" if "14h30" in request.text else "2:30 pm"}
        if request.role == "reflector":
            return REFLECTION
        return update()

    with ScriptedServer(script) as server:
        book = Skillbook()
        for text, tide, answer in zip(texts, ("high", "low"), ("14h30", "2:30 pm"), strict=True):
            case = holding(answer, question=f"When is {tide} water?")
            book.add_skill("tides", text, cases=[case])
        runner = TraceAnalyser.from_client(
            client_for(server),
            skillbook=book,
            dedup_config=DeduplicationConfig(similarity_threshold=0.5, embedding_provider="lexical"),
        )
        runner.run([{"question": "2+2?", "answer": "4"}])
    assert contents(book) == list(texts)
    decision = book.get_similarity_decision("tides-00001", "tides-00002")
    assert decision is not None and "When is low water?" in decision.reasoning


# Nothing is lost

TEXTS = [text for pair in [*list(SAME.values())[:3], *list(REWORDED.values())[:2], TIDES] for text in pair]
SKILLS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sets(st.integers(0, 5), max_size=3)), max_size=7)
LEXICAL = DeduplicationConfig(embedding_provider="lexical", similarity_threshold=0.1)


@settings(deadline=None)
@given(SKILLS, st.booleans(), st.sampled_from(["merge", "delete", "nothing"]))
def test_no_case_and_no_source_is_ever_lost(skills: list[tuple[str, set[int]]], has_agent: bool, wanted: str) -> None:
    book = Skillbook()
    for place, (text, numbers) in enumerate(skills):
        cases = [holding("the", question=f"{number}?") for number in sorted(numbers)]
        book.add_skill("s", text, cases=cases, insight_source=InsightSource(f"t#{place}"))
    ids = [skill.id for skill in book.skills()]
    operations: list[dict[str, Any]] = []
    for first, second in zip(ids[::2], ids[1::2], strict=False):
        if wanted == "merge":
            operations.append({"type": "MERGE", "source_ids": [first, second], "keep_id": second})
        elif wanted == "delete" and book.skills()[ids.index(first)].cases:
            operations.append({"type": "DELETE", "skill_id": first})
    before = {case.id for skill in book.skills() for case in skill.cases}
    prover = CaseProver(Quoting()) if has_agent else None
    DeduplicationManager(LEXICAL, Judge(*operations), prover=prover).consolidate(book)
    assert {case.id for skill in book.skills() for case in skill.cases} == before
    assert {source.trace_id for skill in book.skills() for source in skill.sources} == {
        f"t#{place}" for place in range(len(skills))
    }
    assert Skillbook.loads(book.dumps()).dumps() == book.dumps()
