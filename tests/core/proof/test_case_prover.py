"""An agent is asked the question of a case with chosen skills, and its answer is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.environments import EnvironmentResult, Sample, TaskEnvironment
from ace.outputs import AgentOutput, ExtractedLearning, ReflectorOutput
from ace.proof import CaseProver
from ace.protocols import LLMCallError, SkillbookReader
from ace.retrieval import TopSkills
from ace.roles import Agent
from ace.skill import CaseCheck, Skill, SkillCase
from ace.skillbook import Skillbook
from ace.steps import AgentStep
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, HttpError, Reply, ScriptedRequest, ScriptedServer

TIDES = Skill("tides-00001", "tides", "Write times of tides as 14h30.")
DOGS = Skill("dogs-00002", "dogs", "Dogs bark.")
CASE = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm", expected="14h30")


def knows_tides(request: ScriptedRequest) -> Mapping[str, Any]:
    """The agent writes the time as a skill in its prompt says."""
    return {"reasoning": "", "final_answer": "14h30" if "as 14h30" in request.text else "2:30 pm"}


def test_a_case_passes_with_the_skill_that_it_needs() -> None:
    with ScriptedServer(knows_tides) as server:
        prover = CaseProver(Agent(client_for(server)))
        with_it, without = prover.outcome(CASE, [DOGS, TIDES]), prover.outcome(CASE, [DOGS])
        assert (with_it.passed, with_it.answer, with_it.shown) == (True, "14h30", (DOGS.id, TIDES.id))
        assert (without.passed, without.answer) == (False, "2:30 pm")
        assert prover.model == "openai/scripted"


def test_the_same_question_with_the_same_skills_is_asked_once() -> None:
    with ScriptedServer(knows_tides) as server:
        prover = CaseProver(Agent(client_for(server)))
        outcomes = [prover.outcome(CASE, [TIDES]) for _ in range(3)]
        assert len(server.requests) == 1
        assert {outcome.passed for outcome in outcomes} == {True}
        prover.outcome(CASE, [TIDES.replace(content="Write times as 15h00.")])
        assert len(server.requests) == 2


def test_a_retrieval_chooses_what_the_agent_is_shown() -> None:
    with ScriptedServer(knows_tides) as server:
        prover = CaseProver(Agent(client_for(server)), retrieval=TopSkills(1))
        question = "How do you write the times of the tides?"
        outcome = prover.outcome(SkillCase.make(question, CASE.check), [DOGS, TIDES])
        assert (outcome.passed, outcome.shown) == (True, (TIDES.id,))
        assert "Dogs bark" not in server.requests[0].text


def test_an_inactive_skill_is_not_shown() -> None:
    with ScriptedServer(knows_tides) as server:
        prover = CaseProver(Agent(client_for(server)))
        assert prover.outcome(CASE, [TIDES.replace(status="invalid")]).shown == ()


class ChoosesFirst:
    """An agent that shows its model the first skill only, with the example of its case."""

    def __init__(self) -> None:
        self.asked = 0

    def shown_skills(self, question: str, skillbook: SkillbookReader) -> Sequence[Skill]:
        return skillbook.skills()[:1]

    async def generate(self, *, question: str, context: str, skillbook: SkillbookReader, **_: Any) -> AgentOutput:
        self.asked += 1
        shown = self.shown_skills(question, skillbook)
        return AgentOutput(reasoning="", final_answer=" ".join(skill.content for skill in shown) or "nothing")


def test_an_agent_that_chooses_its_skills_is_asked_which() -> None:
    agent = ChoosesFirst()
    prover = CaseProver(agent)
    assert prover.shows_examples
    assert prover.outcome(CASE, [TIDES, DOGS]).shown == (TIDES.id,)
    assert prover.outcome(CASE, [DOGS, TIDES]).passed is False
    assert asyncio.run(prover.aoutcome(CASE, [TIDES])).passed
    assert agent.asked == 2, "the third one shows what the first one showed"
    prover.outcome(CASE, [TIDES.replace(cases=(CASE,))])
    assert agent.asked == 3, "the example of the case is part of what is shown"


class Judges(TaskEnvironment):
    """Takes an answer with a certain word."""

    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        right = "14h30" in agent_output.final_answer and sample.question == CASE.question
        return EnvironmentResult("", metrics={"correct": float(right)})


def test_a_check_by_an_environment_is_made_by_the_one_with_its_name() -> None:
    case = SkillCase.make(CASE.question, CaseCheck("environment", "tides"))
    with ScriptedServer(knows_tides) as server:
        prover = CaseProver(Agent(client_for(server)), environments={"tides": Judges()})
        assert prover.outcome(case, [TIDES]).passed is True
        assert prover.outcome(case, []).passed is False
        unknown = SkillCase.make(CASE.question, CaseCheck("environment", "another"))
        assert prover.outcome(unknown, [TIDES]).passed is None


def test_a_judge_is_asked_with_the_rubric_and_only_its_yes_passes() -> None:
    def script(request: ScriptedRequest) -> Reply | Mapping[str, Any]:
        if "final_answer" in request.text:
            return knows_tides(request)
        assert "Is it a time of our table?" in request.text
        return {"passes": "14h30" in request.text}

    case = SkillCase.make(CASE.question, CaseCheck("judge", "Is it a time of our table?"))
    with ScriptedServer(script) as server:
        client = client_for(server)
        prover = CaseProver(Agent(client), judge=client)
        assert prover.outcome(case, [TIDES]).passed is True
        assert prover.outcome(case, [DOGS]).passed is False
        assert CaseProver(Agent(client)).outcome(case, [TIDES]).passed is None


def test_an_agent_without_a_usable_answer_fails_the_case_and_a_server_that_is_away_is_an_error() -> None:
    replies: list[Reply] = [Answer("no JSON")]
    with ScriptedServer(lambda request: replies[0]) as server:
        prover = CaseProver(Agent(client_for(server, max_retries=0), max_retries=0))
        assert prover.outcome(CASE, [TIDES]).passed is False
        replies[0] = HttpError(503)
        with pytest.raises(LLMCallError):
            prover.outcome(CASE, [DOGS])


def test_a_step_notes_what_an_agent_that_chooses_its_skills_was_shown() -> None:
    book = Skillbook()
    first = book.add_skill("tides", TIDES.content)
    book.add_skill("dogs", DOGS.content)
    ctx = AgentStep(ChoosesFirst())(ACEStepContext(sample=Sample(CASE.question), skillbook=SkillbookView(book)))
    assert ctx.metadata["shown_skill_ids"] == (first.id,)


def test_a_reflector_is_not_asked_for_the_case_of_a_learning() -> None:
    assert "case_id" not in str(ReflectorOutput.model_json_schema())
    assert ExtractedLearning(learning="Write 14h30.", case_id=CASE.id).case_id == CASE.id


def test_a_judge_is_asked_only_about_answers_that_code_cannot_judge() -> None:
    case = SkillCase.make("How many boats are there?", CaseCheck("numeric", "3"), expected="3")

    def script(request: ScriptedRequest) -> Mapping[str, Any]:
        said = request.text.rpartition("\nAnswer: ")[2]
        return {"difference": "none", "passes": said.startswith("drei")}

    class Saying:
        answer = ""

        def generate(self, **_: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer=self.answer)

    found = []
    with ScriptedServer(script) as server:
        for judge in (client_for(server), None):
            for answer in ("3", "4", "drei", "viele"):
                agent = Saying()
                agent.answer = answer
                found.append(CaseProver(agent, judge=judge).outcome(case, []).passed)
        assert len(server.requests) == 2
        assert "What is right: 3\n" in server.requests[0].text
    assert found == [True, False, True, False, True, False, None, None]
