"""What a run learns is proven on the correction that taught it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.environments import EnvironmentResult, Sample, TaskEnvironment
from ace.evaluation import SkillTests
from ace.outputs import AgentOutput
from ace.pipeline import CancellationToken, PipelineCancelled
from ace.protocols import DeduplicationConfig, SkillbookReader
from ace.protocols.observers import Event, ModelCalled, RunEnded, SkillProven, observing
from ace.providers import LiteLLMClient
from ace.roles import Agent, SmallModelAgent
from ace.runners import ACE, TraceAnalyser
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, ProveStep
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.clients import client_for
from tests.support.corrected_chats import (
    CODE,
    PAYER,
    TIDE,
    Lesson,
    chat,
    chats,
    correcting_script,
    lesson_number,
    small_judgement,
)
from tests.support.scripted_server import Script, ScriptedRequest, ScriptedServer


class SmallClient(LiteLLMClient):
    """A client of a small model."""

    is_small_model = True


def learned(
    book: Skillbook, script: Script, traces: Sequence[Any], **options: Any
) -> tuple[dict[str, int], list[SkillProven]]:
    """Learn from traces, one after the other; return how often each role asked, and what was proven."""
    events: list[Event] = []
    with ScriptedServer(script) as server, observing(events.append):
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, **options)
        runner.run(traces, max_in_flight=1)
        assert runner.failures == []
        calls = {role: len(server.by_role(role)) for role in ("reflector", "skill_manager", "agent")}
    return calls, [event for event in events if isinstance(event, SkillProven)]


def test_a_lesson_that_proves_is_kept_with_its_case_and_result() -> None:
    book = Skillbook()
    calls, proofs = learned(book, correcting_script(TIDE), chats([TIDE]))
    (skill,) = book.skills()
    assert (skill.content, skill.proof, skill.helpful) == (TIDE.rule, "proven", 1)
    (case,) = skill.cases
    assert (case.question, case.wrong, case.last_result) == (TIDE.question, TIDE.wrong, "passed")
    assert (case.model, bool(case.last_run_at), case.answer) == ("openai/scripted", True, TIDE.right)
    (proof,) = proofs
    assert (proof.skill_id, proof.passed, proof.before, proof.after) == (skill.id, True, TIDE.wrong, TIDE.right)
    assert calls == {"reflector": 1, "skill_manager": 1, "agent": 1}


def test_a_rule_that_lost_its_threshold_is_pending_as_it_was_written() -> None:
    spoilt = replace(PAYER, rule="Large bills are paid by Okafor.")
    book = Skillbook()
    calls, proofs = learned(book, correcting_script(spoilt), chats([spoilt]))
    (skill,) = book.pending_skills()
    assert (skill.content, "500" in skill.reason, book.skills()) == (spoilt.rule, True, [])
    assert (proofs[0].skill_id, proofs[0].passed) == (skill.id, False)
    assert calls["reflector"] == 2, "a strong model is told what came of its rule, and tries once more"
    assert calls["agent"] == 0


def test_a_rule_is_not_held_back_for_a_part_of_a_code() -> None:
    trip = Lesson(
        "Which timetable has trip 4?",
        "none",
        "No, trip 4 has the timetable kind4.",
        "kind4",
        "Trip 4 has the timetable kind4.",
        "kind4",
    )
    book = Skillbook()
    calls, _ = learned(book, correcting_script(trip), chats([trip]))
    assert [(skill.content, skill.proof) for skill in book.skills()] == [(trip.rule, "proven")]
    assert calls == {"reflector": 1, "skill_manager": 1, "agent": 1}


def test_a_rule_that_fails_gets_its_example_after_what_the_model_wrote() -> None:
    useless = replace(TIDE, rule="The tables have an h, as in 14h30.", needs="\0")
    book = Skillbook()
    calls, proofs = learned(book, correcting_script(useless), chats([useless]))
    (skill,) = book.skills()
    assert skill.content == f"{useless.rule} Example: {TIDE.question} -> {TIDE.right}"
    assert (skill.proof, proofs[0].retries, calls["agent"]) == ("proven", 1, 2)


def test_the_answer_of_its_own_case_is_removed_from_the_end_of_a_rule_that_passes_without_it() -> None:
    boats = Lesson(
        "How many boats take 13 guests?",
        "3",
        "No, a boat takes 4 guests, and we round up: 4",
        "4",
        "A boat takes 4 guests, and boats are rounded up: 4.",
        "boats are rounded up.",
    )
    book = Skillbook()
    learned(book, correcting_script(boats), chats([boats]))
    (skill,) = book.skills()
    assert (skill.content, skill.proof) == ("A boat takes 4 guests, and boats are rounded up.", "proven")


@pytest.mark.parametrize("unproven", ["pending", "drop"])
def test_what_never_proves_is_pending_or_dropped(unproven: str) -> None:
    spoilt = correcting_script(TIDE, broken_by={TIDE.question: ""})  # the agent never answers it
    book = Skillbook()
    _, proofs = learned(book, spoilt, chats([TIDE]), unproven=unproven)
    assert book.skills() == []
    pending = [(TIDE.rule, "failing", True)] if unproven == "pending" else []
    found = [(skill.content, skill.proof, TIDE.wrong in skill.reason) for skill in book.pending_skills()]
    assert found == pending
    assert proofs[0].passed is False


def test_a_superfluous_lesson_is_not_paid_for() -> None:
    book = Skillbook()
    script = correcting_script(TIDE)
    learned(book, script, chats([TIDE]))
    again = replace(TIDE, question="When is high water in Husum?", wrong="5 pm")
    calls, proofs = learned(book, correcting_script(TIDE, again), chats([again]))
    assert calls == {"reflector": 1, "skill_manager": 0, "agent": 1}, "the reflector recognises the correction"
    (skill,) = book.skills()
    assert [case.question for case in skill.cases] == [TIDE.question, again.question]
    assert (skill.proof, skill.helpful) == ("proven", 2)
    assert proofs[0].passed


def test_a_guess_without_a_skill_that_holds_the_value_is_not_taken_for_known() -> None:
    lucky = replace(TIDE, needs="")  # the agent answers correctly without any skill
    book = Skillbook()
    book.add_skill("house", "Dogs bark.")
    calls, _ = learned(book, correcting_script(lucky), chats([lucky]))
    assert calls["reflector"] == 1
    assert len(book.skills()) == 2


def test_a_skill_that_holds_the_value_but_does_not_help_is_not_taken_for_one_that_knows_it() -> None:
    book = Skillbook()
    book.add_skill("house", "High water is printed like 14h30 in Emden.")
    calls, _ = learned(book, correcting_script(TIDE), chats([TIDE]))
    assert calls["reflector"] == 1
    assert TIDE.rule in [skill.content for skill in book.skills()]


def test_proving_can_be_switched_off() -> None:
    book = Skillbook()
    calls, proofs = learned(book, correcting_script(TIDE), chats([TIDE]), prove=False)
    assert (calls["agent"], proofs) == (0, [])
    (skill,) = book.skills()
    assert skill.proof == "unproven"
    assert [case.last_result for case in skill.cases] == ["not_run"]


def test_each_of_several_corrections_in_one_trace_gets_its_own_skill_and_proof() -> None:
    book = Skillbook()
    learned(book, correcting_script(TIDE, PAYER, CODE), [chat(TIDE, PAYER, CODE)])
    assert {skill.content: skill.cases[0].question for skill in book.skills()} == {
        lesson.rule: lesson.question for lesson in (TIDE, PAYER, CODE)
    }
    assert {skill.proof for skill in book.skills()} == {"proven"}


BREAKS = Lesson(
    "When is low water in Emden?",
    "8:30 pm",
    "No, times of low water are told as minus 20h30.",
    "minus 20h30",
    "Tell times of water as minus 20h30.",
    "minus 20h30",
)


def breaking(cure: str) -> Script:
    """Answer wrongly about high water while the prompt holds the other rule without a text that cures it."""
    answered = correcting_script(TIDE, BREAKS)

    def script(request: ScriptedRequest) -> Any:
        asks_tide = request.role == "agent" and TIDE.question in request.text.rpartition("# Task")[2]
        if asks_tide and "minus 20h30" in request.text and cure not in request.text:
            return {"reasoning": "", "final_answer": "minus 14"}
        return answered(request)

    return script


def test_a_lesson_that_breaks_another_one_gets_its_example() -> None:
    example = f"Example: {BREAKS.question} -> {BREAKS.right}"
    book = Skillbook()
    learned(book, breaking(example), chats([TIDE, BREAKS]))
    first, second = book.skills()
    assert (first.content, first.proof) == (TIDE.rule, "proven")
    assert (second.content, second.proof) == (f"{BREAKS.rule} {example}", "proven")


def test_a_case_that_fails_only_once_beside_a_lesson_is_not_held_against_it(tmp_path: Path) -> None:
    answered = correcting_script(TIDE, BREAKS)
    failures = 0

    def script(request: ScriptedRequest) -> Any:
        nonlocal failures
        asks_tide = request.role == "agent" and TIDE.question in request.text.rpartition("# Task")[2]
        if asks_tide and BREAKS.rule in request.text and not failures:
            failures += 1
            return {"reasoning": "", "final_answer": TIDE.wrong}
        return answered(request)

    with Skillbook.open(tmp_path / "skills.db") as book:
        learned(book, script, chats([TIDE, BREAKS]))
        assert [skill.content for skill in book.skills()] == [TIDE.rule, BREAKS.rule]
        assert not [note for entry in book.history() for note in entry.skipped]
    assert failures == 1


def test_a_lesson_is_not_tried_on_a_case_that_it_has_nothing_to_do_with() -> None:
    script = correcting_script(TIDE, CODE, broken_by={TIDE.question: CODE.rule})
    book = Skillbook()
    calls, _ = learned(book, script, chats([TIDE, CODE]))
    assert [skill.proof for skill in book.skills()] == ["proven", "proven"]
    assert calls["agent"] == 2


def test_a_lesson_that_breaks_another_one_with_its_example_too_is_rolled_back_and_the_history_says_why(
    tmp_path: Path,
) -> None:
    script = correcting_script(TIDE, BREAKS, broken_by={TIDE.question: "minus 20h30"})
    with Skillbook.open(tmp_path / "skills.db") as book:
        _, proofs = learned(book, script, chats([TIDE, BREAKS]))
        (skill,) = book.skills()
        assert (skill.content, skill.proof) == (TIDE.rule, "proven")
        (skipped,) = [note for entry in book.history() for note in entry.skipped]
        assert TIDE.question in skipped["reason"]
        assert "it breaks case" in skipped["reason"]
    assert (proofs[1].passed, proofs[1].skill_id) == (False, "")


def test_a_case_that_fails_without_the_new_lesson_too_is_not_held_against_it(tmp_path: Path) -> None:
    ebb = Lesson(
        "When is ebb in Emden?",
        "9 pm",
        "No, ebb is told as E21h05.",
        "E21h05",
        "In Emden, low water is E21h05.",
        "E21h05",
    )
    script = correcting_script(TIDE, ebb, broken_by={TIDE.question: BREAKS.rule})
    with Skillbook.open(tmp_path / "skills.db") as book:
        learned(book, script, chats([TIDE]))
        book.add_skill("house", BREAKS.rule)  # by hand: from now on the case fails, whatever is learned
        calls, proofs = learned(book, script, chats([ebb]), final_test=False)
        assert [skill.content for skill in book.skills()] == [TIDE.rule, BREAKS.rule, ebb.rule]
        assert [skill.proof for skill in book.skills()] == ["failing", "unproven", "proven"]
        assert not [note for entry in book.history() for note in entry.skipped]
    assert (proofs[-1].passed, calls["agent"]) == (True, 3), "alone, and the case with and without it"


def test_a_lesson_stays_if_the_skill_that_it_breaks_only_lacks_its_example(tmp_path: Path) -> None:
    example = f"Example: {TIDE.question} -> {TIDE.right}"
    script = breaking(example)
    with Skillbook.open(tmp_path / "skills.db") as book:
        _, proofs = learned(book, script, chats([TIDE, BREAKS]))
        first, second = book.skills()
        assert (first.content, second.content) == (f"{TIDE.rule} {example}", BREAKS.rule)
        assert [skill.proof for skill in book.skills()] == ["proven", "proven"]
        assert not [note for entry in book.history() for note in entry.skipped]
        with ScriptedServer(script) as server:
            assert SkillTests(book, Agent(client_for(server))).run().share == 1.0
    assert proofs[1].passed


def test_proving_costs_one_call_for_what_is_known_and_for_each_new_skill() -> None:
    lessons = [lesson_number(number) for number in range(1, 13)]
    known = [replace(lesson, question=lesson.question.replace("What is", "Tell me")) for lesson in lessons[:6]]
    book = Skillbook()
    script = correcting_script(*lessons, *known)
    calls, proofs = learned(book, script, chats([*lessons, *known]), dedup_config=DeduplicationConfig(enabled=False))
    assert {skill.proof for skill in book.skills()} == {"proven"}
    assert len(book) == len(lessons)
    assert calls["agent"] == len(lessons) + len(known)
    assert (calls["reflector"], calls["skill_manager"]) == (len(lessons) + len(known), len(lessons))
    assert len(proofs) == len(lessons) + len(known)


def test_rules_that_fail_cost_no_more_calls_of_the_agent() -> None:
    useless = [
        replace(lesson_number(number), rule=f"The shelf is S-{number} for ware{number}.") for number in range(1, 9)
    ]
    book = Skillbook()
    calls, _ = learned(book, correcting_script(*useless), chats(useless))
    assert {skill.proof for skill in book.skills()} == {"proven"}
    assert calls["agent"] <= len(useless) * 4


def test_a_run_of_agents_that_are_not_ours_asks_them_nothing_unless_told_to() -> None:
    class Own:
        asked = 0

        def generate(self, *, question: str, context: str, skillbook: SkillbookReader, **_: Any) -> AgentOutput:
            Own.asked += 1
            texts = " ".join(skill.content for skill in skillbook.skills())
            return AgentOutput(reasoning="", final_answer="14h30" if "as 14h30" in texts else "2:30 pm")

    for prove, times, proof in (("auto", 0, "unproven"), (True, 1, "proven")):
        book = Skillbook()
        learned(book, correcting_script(TIDE), chats([TIDE]), proof_agent=Own(), prove=prove)
        assert (Own.asked, [skill.proof for skill in book.skills()]) == (times, [proof])


def test_a_small_model_takes_at_most_five_calls_per_trace() -> None:
    lessons = [lesson_number(number) for number in range(1, 17)]

    def script(request: ScriptedRequest) -> Mapping[str, Any]:
        if (judged := small_judgement(request, {lesson.correction: lesson.right for lesson in lessons})) is not None:
            return judged
        if '"rule"' in json.dumps(request.body):
            told = next(lesson for lesson in lessons if lesson.correction in request.text)
            return {"rule": told.rule}
        if '"final_answer"' in json.dumps(request.body):
            asked = request.text.rpartition("# Task")[2]
            found = next(lesson for lesson in reversed(lessons) if lesson.question in asked)
            known = found.rule in request.text or f"{found.question} -> {found.right}" in request.text
            return {"final_answer": found.right if known else found.wrong}
        raise AssertionError(request.text)

    book = Skillbook()
    events: list[Event] = []
    with ScriptedServer(script) as server, observing(events.append):
        client = SmallClient("openai/scripted", api_base=server.api_base, api_key="k" * 9)
        TraceAnalyser.from_client(client, skillbook=book).run(chats(lessons), max_in_flight=1)
        assert len(server.requests) <= 5 * len(lessons)
    assert {skill.proof for skill in book.skills()} == {"proven"}
    assert sum(len(skill.cases) for skill in book.skills()) == len(lessons)
    roles = {event.role for event in events if isinstance(event, ModelCalled)}
    assert roles == {"Judgements", "Reflector", "Prove"}


def test_max_cost_counts_the_calls_of_proofs() -> None:
    def counted(**options: Any) -> tuple[int, list[Event]]:
        events: list[Event] = []
        with ScriptedServer(correcting_script(TIDE, CODE, PAYER)) as server, observing(events.append):
            client = client_for(server, model="gpt-4o-mini")
            runner = TraceAnalyser.from_client(client)
            runner.run(chats([TIDE, CODE, PAYER]), max_in_flight=1, **options)
            return len(server.requests), events

    _, events = counted()
    calls = [event for event in events if isinstance(event, ModelCalled)]
    first = next(place for place, event in enumerate(calls) if event.role == "Prove")
    spent = sum(event.cost or 0.0 for event in calls[: first + 1])
    stopped, events = counted(max_cost=spent)
    assert stopped == first + 1, "the first proof reached the limit, and no other call was begun"
    assert [event.stopped_by for event in events if isinstance(event, RunEnded)] == ["max_cost"]


def test_a_run_that_is_cancelled_in_a_proof_can_be_resumed_and_pays_for_it_once(tmp_path: Path) -> None:
    lessons = [lesson_number(number) for number in range(1, 5)]
    token = CancellationToken()
    answered = correcting_script(*lessons)

    def script(request: ScriptedRequest) -> Any:
        if request.role == "agent":
            token.cancel()
        return answered(request)

    with ScriptedServer(script) as server, Skillbook.open(tmp_path / "skills.db") as book:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book)
        results = runner.run(chats(lessons), max_in_flight=1, run_id="monday", cancel_token=token)
        assert any(isinstance(result.error, PipelineCancelled) for result in results)
        runner.run(chats(lessons), max_in_flight=1, run_id="monday", resume=True)
        bodies = [json.dumps(request.body) for request in server.requests]
        assert len(bodies) == len(set(bodies)), "a call was paid for twice"
        assert [skill.proof for skill in book.skills()] == ["proven"] * len(lessons)


@pytest.mark.parametrize("workers", [1, 4])
def test_asynchronous_runs_and_roles_prove_as_well(workers: int) -> None:
    class Awaited:
        can_be_asked_again = True

        def __init__(self, agent: Agent) -> None:
            self.agent = agent

        async def generate(self, **arguments: Any) -> AgentOutput:
            return await self.agent.agenerate(**arguments)

    lessons = [lesson_number(number) for number in range(1, 9)]
    book = Skillbook()
    with ScriptedServer(correcting_script(*lessons)) as server:
        agent = Awaited(Agent(client_for(server)))
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, proof_agent=agent)
        asyncio.run(runner.arun(chats(lessons), workers=workers))
        assert runner.failures == []
    assert [skill.proof for skill in book.skills()] == ["proven"] * len(lessons)
    assert {skill.cases[0].question for skill in book.skills()} == {lesson.question for lesson in lessons}


def test_two_runs_on_one_book_prove_their_own_lessons() -> None:
    lessons = [lesson_number(number) for number in range(1, 13)]
    book = Skillbook()
    with ScriptedServer(correcting_script(*lessons)) as server, ThreadPoolExecutor(2) as pool:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book)
        halves = (chats(lessons[:6]), chats(lessons[6:]))
        assert [result.error for results in pool.map(runner.run, halves) for result in results] == [None] * 12
    assert [skill.proof for skill in book.skills()] == ["proven"] * len(lessons)
    assert sorted(case.question for skill in book.skills() for case in skill.cases) == sorted(
        lesson.question for lesson in lessons
    )


class Ends(TaskEnvironment):
    """Takes an answer that ends as the sample says it has to; it needs more than the question for that."""

    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        correct = agent_output.final_answer.endswith(sample.metadata["ending"])
        return EnvironmentResult(f"The answer has to end in {sample.metadata['ending']}.", metrics={"correct": correct})


def test_a_case_of_a_live_run_is_proven_by_the_environment_of_the_run() -> None:
    def script(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            learning = {"learning": "End each answer with over."}
            return {"reasoning": "", "correct_approach": "", "key_insight": "", "extracted_learnings": [learning]}
        if request.role == "skill_manager":
            return {"operations": [{"type": "ADD", "section": "radio", "content": "End each answer with over."}]}
        return {"reasoning": "", "final_answer": "Yes, over" if "End each answer" in request.text else "Yes"}

    book = Skillbook()
    with ScriptedServer(script) as server:
        runner = ACE.from_client(client_for(server), environment=Ends(), skillbook=book)
        runner.run([Sample("Do you hear me?", metadata={"ending": "over"})])
    (skill,) = book.skills()
    assert skill.proof == "proven"
    assert skill.cases[0].check == CaseCheck("environment", "Ends")


def test_a_correction_without_a_value_is_proven_by_a_judge() -> None:
    polite = Lesson(
        "How do we greet a guest of the house in the morning?",
        "Hey",
        "No, please be more polite and formal with our guests.",
        "Good morning, dear guest",
        "Be polite and formal with guests.",
        "polite and formal",
    )

    def script(request: ScriptedRequest) -> Any:
        if "\nRequirement: " in request.text:
            return {"passes": "Good morning" in request.text.rpartition("\nAnswer: ")[2]}
        return correcting_script(polite)(request)

    case = SkillCase.make(
        polite.question, CaseCheck("judge", "Is it polite?"), wrong=polite.wrong, correction=polite.correction
    )
    with ScriptedServer(script) as server:
        client = client_for(server)
        book = Skillbook()
        operation = UpdateOperation("ADD", section="house", content=polite.rule, cases=(case,))
        ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=UpdateBatch("", [operation]))
        judged = ProveStep(Agent(client), judge=client)(ctx).skill_manager_output
        left = ProveStep(Agent(client))(ctx).skill_manager_output
        small = ProveStep(SmallModelAgent(client))(ctx).skill_manager_output
    assert judged is not None and left is not None and small is not None
    assert [change.cases[0].last_result for change in judged.operations] == ["passed"]
    assert [change.cases[0].last_result for change in left.operations] == ["not_run"], (
        "nothing is proven without a judge"
    )
    assert [change.content for change in left.operations] == [polite.rule]
    assert [change.content for change in small.operations] == [polite.rule], "the words of a person are never a skill"
    assert len(server.requests) == 2, "what nothing can judge is not asked"


def test_a_small_change_of_an_old_skill_is_tried_on_its_older_cases() -> None:
    book = Skillbook()
    learned(book, correcting_script(TIDE), chats([TIDE]))
    (before,) = book.skills()
    case = SkillCase.make(BREAKS.question, CaseCheck("contains", "minus 20h30"), wrong=BREAKS.wrong)
    worse = UpdateOperation("UPDATE", skill_id=before.id, content="Tell times as minus 20h30.", cases=(case,))
    with ScriptedServer(correcting_script(TIDE, BREAKS)) as server:
        ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=UpdateBatch("", [worse]))
        ctx = ProveStep(Agent(client_for(server)))(ctx)
        ApplyStep(book)(ctx)
    assert book.skills()[0].content == before.content
    assert book.skills()[0].proof == "proven"


def test_what_an_overlapping_sample_has_added_meanwhile_is_not_added_again() -> None:
    book = Skillbook()
    script = correcting_script(TIDE)
    learned(book, script, chats([TIDE]))
    case = SkillCase.make(
        "When is high water in Husum?",
        CaseCheck("contains", "14h30"),
        wrong="2 pm",
        correction=TIDE.correction,
        expected="14h30",
    )
    operation = UpdateOperation("ADD", section="house", content=TIDE.rule, cases=(case,))
    with ScriptedServer(script) as server:
        step = ProveStep(Agent(client_for(server)))
        for holders, types in (({case.id: ()}, ["UPDATE"]), ({case.id: (book.skills()[0].id,)}, ["ADD"])):
            metadata = {"cases": (case,), "case_holders": holders, "known_cases": {}}
            batch = UpdateBatch("", [operation])
            ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch).replace(metadata=metadata)
            before = len(server.requests)
            output = step(ctx).skill_manager_output
            assert output is not None
            assert [change.type for change in output.operations] == types
            if types == ["UPDATE"]:
                assert len(server.requests) == before, "no call is made for it"
                assert output.operations[0].skill_id == book.skills()[0].id
