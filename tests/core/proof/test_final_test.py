"""The final test of a run, and what proofs note, when agents, environments and records misbehave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace import read_trace
from ace.cases import cases_of, worked_example
from ace.cli.commands.skillbook.prune import unneeded_skills
from ace.context import ACEStepContext, SkillbookView
from ace.deduplication import DeduplicationManager
from ace.environments import EnvironmentResult
from ace.evaluation import SkillTests
from ace.outputs import AgentOutput, ExtractedLearning, ReflectorOutput, SkillManagerOutput
from ace.proof import CaseProver
from ace.protocols import DeduplicationConfig
from ace.runners import TraceAnalyser
from ace.skill import CaseCheck, CheckKind, SkillCase
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, KnownStep, LeakageGuard, ProveStep
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.corrected_chats import corrected

SECRET = "Ida, jane.roe@harbour-club.de, key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


class Answering:
    """An agent of a caller: answers by a function of the question and the texts of the skills."""

    def __init__(self, answer: Callable[[str, str], str]) -> None:
        self._answer = answer

    def generate(self, *, question: str, context: str, skillbook: Any, **_: Any) -> AgentOutput:
        """Answer."""
        texts = "\n".join(skill.content for skill in skillbook.skills())
        return AgentOutput(reasoning="", final_answer=self._answer(question, texts))


def case_of(question: str, value: str, *, kind: CheckKind = "contains", wrong: str = "", said: str = "") -> SkillCase:
    expected = "" if kind == "environment" else value
    made = SkillCase.make(question, CaseCheck(kind, value), wrong=wrong, correction=said, expected=expected)
    return replace(made, last_result="passed", last_run_at="2026-01-01T00:00:00+00:00", answer=value)


ELSE = "Something else is true of the shelf of ware one, two, three, 1 or 2, and of who is on duty on Monday."
"""A text that fits the questions here better than the skills that answer them."""
ONE = case_of("Shelf of ware one?", "S-1")
TWO = case_of("Shelf of ware two?", "S-2", wrong="S-9")


def end_after(book: Skillbook, agent: Answering, operations: Sequence[UpdateOperation], **options: Any) -> None:
    """Prove operations and apply them, change the book so that their cases are shown other skills, and end the run."""
    step = ProveStep(agent, skillbook=book, **options)
    for operation in operations:
        batch = UpdateBatch("", [operation])
        ApplyStep(book)(step(ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch)))
    book.add_skill("other", ELSE)
    step.end_run(len(operations))


class Judging:
    """An environment that accepts good answers, and all answers to questions about ware one."""

    def evaluate(self, sample: Any, agent_output: Any) -> EnvironmentResult:
        """Judge."""
        correct = "one" in sample.question or agent_output.final_answer == "good"
        return EnvironmentResult(feedback="", ground_truth=None, metrics={"correct": float(correct)})


def test_a_failing_case_without_an_example_stays_where_it_is() -> None:
    cases = tuple(
        case_of(question, "Env", kind="environment") for question in ("Ware one?", "Ware two?", "Ware three?")
    )
    book = Skillbook()
    added = UpdateOperation("ADD", section="x", content="Boats rule.", cases=cases)
    agent = Answering(lambda question, texts: "bad" if ELSE in texts else "good")
    end_after(book, agent, [added], environments={"Env": Judging()})
    first, _ = book.skills()
    assert [skill.content for skill in book.skills()] == ["Boats rule.", ELSE]
    assert [case.last_result for case in first.cases] == ["passed", "failed", "failed"]


def test_what_an_agent_raises_in_the_final_test_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def answer(question: str, texts: str) -> str:
        if "Something else" in texts:
            raise RuntimeError("the tool broke")
        return "S-1"

    book = Skillbook()
    added = UpdateOperation("ADD", section="x", content="Ware one: S-1.", cases=(ONE,))
    end_after(book, Answering(answer), [added])
    assert book.skills()[0].proof == "proven"
    assert "the tool broke" in caplog.text


def test_two_skills_with_the_same_case_get_the_same_result() -> None:
    book = Skillbook()
    answer = Answering(lambda question, texts: "S-9" if "Something else" in texts else "S-1")
    texts = ("Ware one is on S-1.", "Ware one: S-1.")
    operations = [UpdateOperation("ADD", section="x", content=text, cases=(ONE,)) for text in texts]
    end_after(book, answer, operations)
    assert [skill.proof for skill in book.skills() if skill.cases] == ["failing", "failing"]


def test_each_case_of_a_lesson_has_its_own_result() -> None:
    book = Skillbook()
    added = UpdateOperation("ADD", section="x", content="Wares: S-1 and S-2.", cases=(ONE, TWO))
    step = ProveStep(Answering(lambda question, texts: "S-1"), skillbook=book)
    batch = UpdateBatch("", [added])
    ApplyStep(book)(step(ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch)))
    [skill] = book.pending_skills()
    assert {case.question: case.last_result for case in skill.cases} == {
        ONE.question: "passed",
        TWO.question: "failed",
    }


def test_a_known_case_is_asked_again_if_the_skill_that_knew_it_changes_in_the_same_trace() -> None:
    book = Skillbook()
    skill = book.add_skill("shelf", "Ware 1 has the shelf S-1.")

    def answer(question: str, texts: str) -> str:
        number = question.rstrip("?")[-1]
        return f"S-{number}" if f"are {number} has the shelf S-{number}" in texts else "no idea"

    class Forgetful:
        """A reflector and a skill manager that replace the older rule."""

        def reflect(self, **_: Any) -> ReflectorOutput:
            """Reflect."""
            learned = [ExtractedLearning(learning="Ware 9 has the shelf S-9.")]
            return ReflectorOutput(reasoning="", correct_approach="", key_insight="k", extracted_learnings=learned)

        def update_skills(self, **_: Any) -> SkillManagerOutput:
            """Replace."""
            changed = UpdateOperation("UPDATE", skill_id=skill.id, content="Ware 9 has the shelf S-9.")
            return SkillManagerOutput(update=UpdateBatch("", [changed]))

    turns = [
        text
        for n in (1, 9)
        for text in (f"Which shelf has ware {n}?", "S-4", f"No, ware {n} has the shelf S-{n}.", f"S-{n}")
    ]
    chat = corrected(*turns)
    roles: Any = Forgetful()
    agent = Answering(answer)
    runner = TraceAnalyser.from_roles(
        reflector=roles, skill_manager=roles, skillbook=book, proof_agent=agent, prove=True
    )
    runner.run([chat])
    assert runner.failures == []
    (kept,) = book.skills()
    assert {case.question[-2]: case.last_result for case in kept.cases} == {"1": "failed", "9": "passed"}
    report = SkillTests(book, agent).run(note=False)
    assert {test.case.question[-2]: test.result for test in report.cases} == {"1": "failed", "9": "passed"}


@pytest.mark.parametrize(
    ("rule", "right", "answer", "is_known"),
    [
        ("Deliver to a desk within 15 minutes.", "desk 5", "desk 5", False),  # a part of a number decides nothing
        ("Contact a desk.", "desk C", "desk C", False),
        ("Parcels are handed out at desk 5.", "desk 5", "desk 5", True),
        ("Parcels are handed out at desk 5.", "desk 5", "desk 3", False),  # the skill is there and not followed
    ],
)
def test_a_case_is_known_if_a_skill_has_its_value_and_the_answer_is_correct(
    rule: str, right: str, answer: str, is_known: bool
) -> None:
    book = Skillbook()
    book.add_skill("d", rule)
    said = f"No, parcels are handed out at {right}."
    turns = ("At which desk are parcels handed out?", "desk 3", said, right)
    chat = corrected(*turns)
    step = KnownStep(CaseProver(Answering(lambda question, texts: answer)))
    ctx = step(ACEStepContext(skillbook=SkillbookView(book), trace=chat))
    assert bool(ctx.metadata["known_cases"]) is is_known
    assert len(ctx.metadata["cases"]) == 1


@pytest.mark.parametrize("where", ["proof", "final test"])
def test_the_answer_that_a_case_keeps_is_redacted(where: str) -> None:
    book = Skillbook()
    case = case_of("Who is on duty on Monday?", "Ida", kind="regex")
    agent = Answering(lambda question, texts: SECRET if where == "proof" or "Something else" in texts else "Ida")
    added = UpdateOperation("ADD", section="d", content="On Monday it is Ida.", cases=(case,))
    end_after(book, agent, [added])
    (kept,) = book.skills()[0].cases
    assert kept.answer.startswith("Ida, ") and "jane.roe" not in kept.answer and "sk-proj" not in kept.answer


def test_a_better_text_that_the_guard_refuses_gives_way_to_the_text_with_its_example() -> None:
    class Revealing:
        """A reflector whose second text holds an address."""

        def reflect(self, **_: Any) -> ReflectorOutput:
            """Reflect."""
            learned = [ExtractedLearning(learning="Send boat orders to Okafor, okafor@harbour-club.de.")]
            return ReflectorOutput(reasoning="", correct_approach="", key_insight="k", extracted_learnings=learned)

    case = case_of("Who gets boat orders?", "Okafor", wrong="Ida", said="No, boat orders for Emden go to Okafor.")
    book, guard, reflector = Skillbook(), LeakageGuard(), Revealing()
    agent = Answering(lambda question, texts: "Okafor" if "Send" in texts or "Example" in texts else "Ida")
    added = UpdateOperation("ADD", section="o", content="Boat orders for Emden go to Okafor.", cases=(case,))
    step = ProveStep(agent, skillbook=book, guard=guard, reflector=reflector)
    batch = UpdateBatch("", [added])
    ctx = step(ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch, trace={}))
    ApplyStep(book, guard=guard)(ctx)
    (skill,) = book.skills()
    assert (skill.content, skill.proof) == (f"{added.content} {worked_example(case)}", "proven")


def test_a_pattern_of_a_record_that_does_not_compile_yields_no_case() -> None:
    record = {"question": "q?", "answer": "a", "check": {"kind": "regex", "value": "("}}
    assert cases_of(read_trace(record)) == ()


def test_no_answer_is_kept_with_what_must_not_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    ida = case_of("Who is on duty on Monday?", "Ida", kind="regex")
    bo = case_of("Who is on duty on Tuesday?", "Bo", kind="regex")
    book = Skillbook()
    first = book.add_skill("d", "On Monday Ida is on duty.", cases=[ida])
    second = book.add_skill("d", "On Tuesday Bo is on duty.", cases=[bo])
    agent = Answering(lambda question, texts: SECRET)
    report = SkillTests(book, agent).run(without=True, note=False)
    evidence = " ".join(skill.evidence for skill in unneeded_skills(book.skills(), report))

    class Merging:
        """A client that merges the two skills."""

        def consolidate_skills(self, *, prompt: str) -> dict[str, Any]:
            """Merge."""
            merged = {
                "source_ids": [first.id, second.id],
                "keep_id": first.id,
                "merged_content": "On Monday Ida and on Tuesday Bo is on duty.",
            }
            return {"consolidation_operations": [{"type": "MERGE", **merged}]}

    config = DeduplicationConfig(similarity_threshold=0.01, within_section_only=False)
    merging: Any = Merging()
    consolidated = DeduplicationManager(config, merging, prover=CaseProver(agent)).consolidate(book)
    assert "Ida" in evidence and "would be answered 'Ida, " in caplog.text
    for text in (evidence, book.dumps(), str(consolidated), caplog.text):
        assert "jane.roe" not in text and "sk-proj" not in text


OTHER = case_of("What do dogs do?", "bark")


class Choosing(Answering):
    """An agent of a caller that shows three skills."""

    def shown_skills(self, question: str, skillbook: Any) -> Sequence[Any]:
        """Return the skills that share a word with the question."""
        words = set(question.rstrip("?").split())
        return [skill for skill in skillbook.skills() if words & set(skill.content.rstrip(".").split())][:3]

    def generate(self, *, question: str, context: str, skillbook: Any, **_: Any) -> AgentOutput:
        """Answer with the skills that are shown."""
        texts = "\n".join(skill.content for skill in self.shown_skills(question, skillbook))
        return AgentOutput(reasoning="", final_answer=self._answer(question, texts))


@pytest.mark.parametrize("kind", [Choosing, Answering])
def test_what_a_run_adds_is_tried_on_the_cases_of_earlier_runs_if_its_proof_took_all_calls(
    kind: type[Answering],
) -> None:
    book = Skillbook()
    far = book.add_skill("y", "Dogs bark.", cases=[OTHER])
    book.put_cases(far.id, [OTHER])
    old = book.add_skill("x", "Ware one has S-1.", cases=[ONE])
    book.put_cases(old.id, [ONE])
    asked: list[str] = []

    def answer(question: str, texts: str) -> str:
        asked.append(question)
        if "dogs" in question:
            return "bark"
        if "one" in question:
            return "S-1" if "S-2" not in texts or worked_example(ONE) in texts else "S-2"
        return "S-2"

    step = ProveStep(kind(answer), skillbook=book, calls_per_skill=2)
    added = UpdateOperation("ADD", section="x", content="Shelf of ware one or two, S-2.", cases=(TWO,))
    batch = UpdateBatch("", [added])
    ApplyStep(book)(step(ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch)))
    assert not [question for question in asked if "one" in question], "the proof left a call for it"
    step.end_run(1)
    repaired = book.get_skill(old.id)
    assert repaired is not None
    assert worked_example(ONE) in repaired.content
    assert {skill.proof for skill in book.skills()} == {"proven"}
    assert "What do dogs do?" not in asked, "a skill that does not compete is not asked about"
    assert SkillTests(book, kind(answer)).run().share == 1.0


def test_a_known_case_is_asked_again_if_other_skills_are_shown_with_it_by_the_time_it_is_written() -> None:
    book = Skillbook()
    skill = book.add_skill("x", "Ware one has S-1.", cases=[TWO])

    def answer(question: str, texts: str) -> str:
        return "S-1" if "S-1" in texts and ("ware nine" not in texts or worked_example(case) in texts) else "S-9"

    said = "No, ware one has the shelf S-1."
    turns = ("Shelf of ware one?", "S-4", said, "S-1")
    chat = corrected(*turns)
    agent = Choosing(answer)
    proof = ProveStep(agent, skillbook=book)
    ctx = KnownStep(proof.prover)(ACEStepContext(skillbook=SkillbookView(book), trace=chat))
    (case,) = ctx.metadata["cases"]
    assert ctx.metadata["known_cases"] == {case.id: skill.id}
    book.add_skill("x", "Shelf of ware one or ware nine is S-9.")  # by an overlapping sample
    ApplyStep(book)(proof(ctx.replace(skill_manager_output=UpdateBatch())))
    proof.end_run(1)
    kept = book.get_skill(skill.id)
    assert kept is not None and worked_example(case) in kept.content
    assert {stored.id: stored.last_result for stored in kept.cases}[case.id] == "passed"


EDITED = "A person has written where ware one is."


@pytest.mark.parametrize("where", ["this book", "another process"])
@pytest.mark.parametrize("passes", [True, False], ids=["passes", "fails"])
@pytest.mark.parametrize("edit", ["text", "removal", "case"])
def test_a_skill_that_is_edited_during_the_final_test_keeps_the_edit_and_gets_no_result_for_it(
    tmp_path: Path, where: str, passes: bool, edit: str
) -> None:
    path = tmp_path / "skills.db"
    asked: list[str] = []

    def change(book: Skillbook) -> None:
        skill = next(stored for stored in book.skills() if stored.section == "x")
        if edit == "text":
            book.update_skill(skill.id, content=EDITED)
        elif edit == "removal":
            book.remove_skill(skill.id)
        else:
            book.remove_cases(skill.id, [ONE.id])

    def answer(question: str, texts: str) -> str:
        if "Something else" not in texts:
            return "S-1"
        asked.append(texts)
        if len(asked) == 1 and where == "this book":
            change(book)
        elif len(asked) == 1:
            with Skillbook.open(path) as other:
                change(other)
        return "S-1" if passes else "S-9"

    with Skillbook.open(path) as book:
        added = UpdateOperation("ADD", section="x", content="Ware one: S-1.", cases=(ONE,))
        end_after(book, Answering(answer), [added])
    with Skillbook.open(path) as book:
        found = [skill for skill in book.skills() if skill.section == "x"]
    if edit == "removal":
        assert found == []
        return
    (skill,) = found
    if edit == "case":
        assert (skill.content, skill.cases) == ("Ware one: S-1.", ())
        return
    assert skill.content == EDITED, "the edit is overwritten"
    assert EDITED in asked[1 if passes else 2], "the case is asked again with the new text"
    assert [case.last_result for case in skill.cases] == ["passed" if passes else "failed"]


def test_the_results_of_the_final_test_have_a_time_and_are_one_version(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        added = [
            UpdateOperation("ADD", section="x", content=f"No. {n}: S-{n}.", cases=(case_of(f"Ware {n}?", f"S-{n}"),))
            for n in (1, 2)
        ]
        answer = Answering(lambda question, texts: f"S-{question[-2]}")
        end_after(book, answer, added)
        version = book.version
        assert version is not None
        last = book.history(version - 1)
        assert [entry.author for entry in last] == ["proof"]
        times = [case.last_run_at for skill in book.skills() for case in skill.cases]
        assert len(times) == 2 and all(time > "2026-01-01T00:00:00+00:00" for time in times)
