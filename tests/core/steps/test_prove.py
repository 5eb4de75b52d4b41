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
from tests.support.corrected_chats import CODE, PAYER, TIDE, Lesson, chat, chats, correcting_script, lesson_number
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


def test_an_inverted_rule_is_replaced_by_the_correction_with_its_worked_example() -> None:
    inverted = replace(PAYER, rule="Bills below 500 euros go to Okafor.")
    book = Skillbook()
    calls, proofs = learned(book, correcting_script(inverted), chats([inverted]))
    (skill,) = book.skills()
    example = f"Example: {PAYER.question} -> {PAYER.right} (not: {PAYER.wrong})"
    assert skill.content == f"{PAYER.correction} {example}"
    assert skill.proof == "proven"
    assert proofs[0].retries > 0
    assert calls["reflector"] == 2, "a strong model is told what came of its rule, and tries once more"
    assert calls["agent"] == 2


def test_a_rule_that_lost_its_threshold_costs_no_proof_before_it_is_replaced() -> None:
    vague = replace(PAYER, rule="Large bills are paid by Okafor.")
    book = Skillbook()
    calls, _ = learned(book, correcting_script(vague), chats([vague]))
    assert "500" in book.skills()[0].content
    assert calls["agent"] == 1


@pytest.mark.parametrize(("unproven", "left"), [("keep", 1), ("drop", 0)])
def test_what_never_proves_is_kept_or_dropped(unproven: str, left: int) -> None:
    spoilt = correcting_script(TIDE, broken_by={TIDE.question: ""})  # the agent never answers it
    book = Skillbook()
    _, proofs = learned(book, spoilt, chats([TIDE]), unproven=unproven)
    assert [skill.proof for skill in book.skills()] == ["failing"] * left
    assert proofs[0].passed is False


def test_a_superfluous_lesson_is_not_paid_for() -> None:
    book = Skillbook()
    script = correcting_script(TIDE)
    learned(book, script, chats([TIDE]))
    again = replace(TIDE, question="When is high water in Husum?", wrong="5 pm")
    calls, proofs = learned(book, correcting_script(TIDE, again), chats([again]))
    assert calls == {"reflector": 0, "skill_manager": 0, "agent": 1}
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


def test_a_lesson_that_breaks_another_one_gets_its_example() -> None:
    script = correcting_script(TIDE, BREAKS, broken_by={TIDE.question: BREAKS.rule})
    book = Skillbook()
    learned(book, script, chats([TIDE, BREAKS]))
    first, second = book.skills()
    assert (first.content, first.proof) == (TIDE.rule, "proven")
    assert second.content.startswith(BREAKS.correction)
    assert second.proof == "proven"


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
    script = correcting_script(TIDE, CODE, broken_by={TIDE.question: BREAKS.rule})
    with Skillbook.open(tmp_path / "skills.db") as book:
        learned(book, script, chats([TIDE]))
        book.add_skill("house", BREAKS.rule)  # by hand: from now on the case fails, whatever is learned
        calls, proofs = learned(book, script, chats([CODE]), final_test=False)
        assert [skill.content for skill in book.skills()] == [TIDE.rule, BREAKS.rule, CODE.rule]
        assert [skill.proof for skill in book.skills()] == ["failing", "unproven", "proven"]
        assert not [note for entry in book.history() for note in entry.skipped]
    assert (proofs[-1].passed, calls["agent"]) == (True, 4), "alone, in the book, and the case with and without it"


def test_a_lesson_stays_if_the_skill_that_it_breaks_only_lacks_its_example(tmp_path: Path) -> None:
    example = f"Example: {TIDE.question} -> {TIDE.right} (not: {TIDE.wrong})"
    answered = correcting_script(TIDE, BREAKS)

    def script(request: ScriptedRequest) -> Any:
        reply = answered(request)
        asks_tide = TIDE.question in request.text.rpartition("# Task")[2]
        if asks_tide and "minus 20h30" in request.text and example not in request.text:
            return {"reasoning": "", "final_answer": "minus 14"}
        return reply

    with Skillbook.open(tmp_path / "skills.db") as book:
        _, proofs = learned(book, script, chats([TIDE, BREAKS]))
        first, second = book.skills()
        assert (first.content, second.content) == (f"{TIDE.rule} {example}", BREAKS.rule)
        assert [skill.proof for skill in book.skills()] == ["proven", "proven"]
        assert not [note for entry in book.history() for note in entry.skipped]
        with ScriptedServer(script) as server:
            assert SkillTests(book, Agent(client_for(server))).run().share == 1.0
    assert proofs[1].passed


def test_proving_costs_one_call_for_what_is_known_and_two_to_four_for_each_new_skill() -> None:
    lessons = [lesson_number(number) for number in range(1, 13)]
    known = [replace(lesson, question=lesson.question.replace("What is", "Tell me")) for lesson in lessons[:6]]
    book = Skillbook()
    script = correcting_script(*lessons, *known)
    calls, proofs = learned(book, script, chats([*lessons, *known]), dedup_config=DeduplicationConfig(enabled=False))
    assert {skill.proof for skill in book.skills()} == {"proven"}
    assert len(book) == len(lessons)
    assert len(lessons) * 2 <= calls["agent"] - len(known) <= len(lessons) * 4
    assert calls["reflector"] == calls["skill_manager"] == len(lessons)
    assert len(proofs) == len(lessons) + len(known)


def test_rules_that_fail_cost_no_more_calls_of_the_agent() -> None:
    useless = [replace(lesson_number(number), rule=f"The shelf is S-{number}.") for number in range(1, 9)]
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
        found = next((lesson for lesson in lessons if lesson.question in request.text.splitlines()[-1]), None)
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
    assert {event.role for event in events if isinstance(event, ModelCalled)} == {"Reflector", "Prove"}


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
        if "# Requirement" in request.text:
            return {"passes": "Good morning" in request.text.partition("# Answer")[2].partition("# Requirement")[0]}
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
    [words] = [change.content or "" for change in small.operations]
    assert words.startswith(polite.correction), "the rule of a small model that nothing has proven is not trusted"


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


UNLIKE = Lesson(
    "Which label for broken crates?",
    "broken",
    "Refused. Broken crates: label K7-RED.",
    "K7-RED",
    "Broken crates: label K7-RED.",
    "label K7-RED",
)


@pytest.mark.parametrize("final_test", [True, False])
def test_the_final_test_finds_what_the_calls_of_a_lesson_did_not_reach(final_test: bool) -> None:
    book = Skillbook()
    script = correcting_script(PAYER, TIDE, UNLIKE, broken_by={TIDE.question: UNLIKE.rule})
    learned(book, script, chats([PAYER, TIDE, UNLIKE]), final_test=final_test)
    tide = book.skills()[1]
    if not final_test:
        assert (tide.content, tide.proof) == (TIDE.rule, "proven")
        return
    example = f"Example: {TIDE.question} -> {TIDE.right} (not: {TIDE.wrong})"
    assert tide.content == f"{TIDE.rule} {example}"
    # The script spoils the answer whatever the first skill says: the test says so.
    assert tide.proof == "failing"


def test_cases_that_fail_beside_each_other_are_parted_and_no_skill_is_left_without_its_case() -> None:
    times = [
        SkillCase.make(
            question, CaseCheck("contains", "14h30"), wrong="2:30 pm", correction=TIDE.correction, expected="14h30"
        )
        for question in (TIDE.question, "When is low water in Husum?")
    ]
    crates = SkillCase.make(
        "Which label for crates when high water or low water is near?",
        CaseCheck("contains", "K7-RED"),
        expected="K7-RED",
    )
    has_ended = False

    def script(request: ScriptedRequest) -> Mapping[str, Any]:
        if "crates" in request.text.rpartition("# Task")[2]:
            return {"final_answer": "K7-RED"}
        return {"final_answer": "2:30 pm" if has_ended else "14h30"}

    book = Skillbook()
    for number in range(4):
        book.add_skill("house", f"The shelf of ware{number} is S-{number}.")
    with ScriptedServer(script) as server:
        client = SmallClient("openai/scripted", api_base=server.api_base, api_key="k" * 9)
        step = ProveStep(SmallModelAgent(client), skillbook=book, regression_cases=0)
        for text, cases in ((TIDE.rule, times), ("When water is high or low: label K7-RED.", [crates])):
            batch = UpdateBatch("", [UpdateOperation("ADD", section="house", content=text, cases=tuple(cases))])
            ApplyStep(book)(step(ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=batch)))
        has_ended = True
        step.end_run(1)
    held = {case.question: skill for skill in book.skills() for case in skill.cases}
    assert len(held) == sum(len(skill.cases) for skill in book.skills()) == 3
    assert not [skill for skill in book.skills() if "Example: " in skill.content and not skill.cases]
    first, second = (held[case.question] for case in times)
    assert first.id != second.id
    for case, skill in zip(times, (first, second), strict=True):
        assert f"Example: {case.question} -> 14h30" in skill.content
        assert skill.content.count("Example: ") == 1


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


HUSUM = replace(TIDE, question="When is high water in Husum?", wrong="2 pm")


@pytest.mark.parametrize("spoilt", [None, TIDE, HUSUM], ids=["proves", "breaks the older case", "fails its own case"])
def test_a_correction_with_its_example_becomes_the_rule_of_a_second_case_if_that_proves(spoilt: Lesson | None) -> None:
    old, new = (
        SkillCase.make(
            lesson.question,
            CaseCheck("contains", "14h30"),
            wrong=lesson.wrong,
            correction=lesson.correction,
            expected="14h30",
        )
        for lesson in (TIDE, HUSUM)
    )
    quoted = f"{TIDE.correction} Example: {TIDE.question} -> 14h30 (not: {TIDE.wrong})"
    book = Skillbook()
    skill = book.add_skill("house", quoted, cases=(old,))
    book.put_cases(skill.id, [replace(old, last_result="passed")])
    script = correcting_script(TIDE, HUSUM, broken_by={} if spoilt is None else {spoilt.question: TIDE.rule})
    operation = UpdateOperation("ADD", section="house", content=TIDE.rule, cases=(new,))
    metadata = {"cases": (new,), "case_holders": {new.id: ()}, "known_cases": {}}
    ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=UpdateBatch("", [operation]))
    with ScriptedServer(script) as server:
        output = ProveStep(Agent(client_for(server)))(ctx.replace(metadata=metadata)).skill_manager_output
        assert len(server.requests) <= 3
    assert output is not None
    (done,) = output.operations
    assert (done.type, done.skill_id) == ("UPDATE", skill.id)
    assert done.content == (TIDE.rule if spoilt is None else None)
    ApplyStep(book)(ctx.replace(skill_manager_output=output, metadata=metadata))
    (kept,) = book.skills()
    assert kept.content == (TIDE.rule if spoilt is None else quoted)
    assert {case.id for case in kept.cases} == {old.id, new.id}
