"""The Agent for small models: shorter instructions, and answers of bounded length; they may go round in circles."""

from __future__ import annotations

from pydantic import Field

from ace.implementations.agent import Agent
from ace.implementations.prompts import SMALL_MODEL_AGENT_PROMPT
from ace.outputs import AgentOutput
from ace.outputs.lenient_fields import Text
from ace.protocols.llm import AnyLLMClient

__all__ = ["SmallModelAgent"]


class _ShortOutput(AgentOutput):
    """An answer whose schema bounds its length; a longer one of a server that knows no schema is taken as well."""

    reasoning: Text = Field(
        description="The id of the rule that fits, in brackets; then the steps to the answer.",
        json_schema_extra={"maxLength": 600},
    )
    final_answer: Text = Field(description="The answer alone.", json_schema_extra={"minLength": 1, "maxLength": 600})


class SmallModelAgent(Agent):
    """Answers questions with a small model. The arguments are those of `Agent`."""

    answer_type = _ShortOutput

    def __init__(
        self, llm: AnyLLMClient, prompt_template: str = SMALL_MODEL_AGENT_PROMPT, *, max_retries: int = 3
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries)
