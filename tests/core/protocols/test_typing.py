"""What people write as roles passes mypy's strict check without ignores; mypy checks this file too."""

from __future__ import annotations

from typing import Any, assert_type

from ace.context import SkillbookView
from ace.environments import EnvironmentResult, Sample, SimpleEnvironment, TaskEnvironment
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols import (
    AgentLike,
    AsyncLLMClientLike,
    LLMClientLike,
    LLMResponse,
    ReflectorLike,
    SkillbookReader,
    SkillManagerLike,
    StructuredAnswer,
)
from ace.providers import LiteLLMClient, wrap_with_instructor
from ace.roles import Agent
from ace.runners import ACE, ACELiteLLM
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch


class ViewAgent:
    """Is typed with what it receives, by keyword only."""

    def generate(self, *, question: str, context: str, skillbook: SkillbookView, **more: object) -> AgentOutput:
        assert_type(skillbook.as_prompt(), str)
        return AgentOutput(reasoning="", final_answer=question)


class ReaderAgent:
    """Is typed with the smallest protocol, by position or keyword, as the specification has it."""

    def generate(
        self,
        question: str,
        context: str,
        skillbook: SkillbookReader,
        reflection: str | None = None,
        **kwargs: Any,
    ) -> AgentOutput:
        return AgentOutput(reasoning="", final_answer=question)


class AsyncAgent:
    async def generate(self, *, question: str, context: str, skillbook: SkillbookView, **more: object) -> AgentOutput:
        return AgentOutput(reasoning="", final_answer=question)


class AsyncReflector:
    async def reflect(self, *, question: str, skillbook: SkillbookView, **more: object) -> ReflectorOutput:
        return ReflectorOutput(reasoning="", correct_approach="", key_insight=question)


class AsyncSkillManager:
    async def update_skills(self, *, reflection: ReflectorOutput, **more: object) -> SkillManagerOutput:
        return SkillManagerOutput(update=UpdateBatch(reflection.key_insight, []))


class AsyncJudge(TaskEnvironment):
    async def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("fine", metrics={"correct": 1.0})


class AsyncClient:
    async def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        return LLMResponse(prompt)

    async def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        return response_model.model_validate({"reasoning": "", "final_answer": "4"})


def test_roles_of_every_kind_have_the_types_of_their_protocols() -> None:
    agents: list[AgentLike] = [ViewAgent(), ReaderAgent(), AsyncAgent(), Agent(LiteLLMClient("gpt-4o-mini"))]
    reflector: ReflectorLike = AsyncReflector()
    skill_manager: SkillManagerLike = AsyncSkillManager()
    environments: list[TaskEnvironment] = [AsyncJudge(), SimpleEnvironment()]
    for agent in agents[:3]:
        for environment in environments:
            runner = ACE.from_roles(
                agent=agent, reflector=reflector, skill_manager=skill_manager, environment=environment
            )
            [result] = runner.run([Sample("2+2?", ground_truth="2+2?")])
            assert result.error is None


def test_clients_of_every_kind_have_the_types_of_their_protocols() -> None:
    plain: list[LLMClientLike] = [LiteLLMClient("gpt-4o-mini"), wrap_with_instructor(LiteLLMClient("gpt-4o-mini"))]
    assert all(isinstance(client, LLMClientLike) for client in plain)
    client: AsyncLLMClientLike = AsyncClient()
    output = Agent(client).generate("2+2?", "", Skillbook())
    assert_type(output, AgentOutput)
    assert ACELiteLLM(client).ask("2+2?") == "4"
    assert output.final_answer == "4"
