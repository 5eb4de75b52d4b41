"""The Agent: answers questions with the help of a skillbook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from ace._internal.arguments import checked_arguments, instance_of, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.outputs import AgentOutput
from ace.protocols.errors import EmptyAnswerError, UnusableAnswerError
from ace.protocols.llm import AnyLLMClient
from ace.protocols.roles import SkillbookReader
from ace.roles.prompts import (
    AGENT_PROMPT,
    PromptTemplate,
    format_optional,
    recent_reflections_section,
    skills_for_prompt,
)
from ace.roles.role_answers import checked_client, usable_answer
from ace.skill import extract_cited_skill_ids

__all__ = ["Agent"]

_EMPTY = "final_answer is empty; write the answer there, or that it cannot be known"
_IN_BRACKETS = re.compile(r"\[([^\[\]]+)\]")


class Agent:
    """Answers questions with the help of a skillbook.

    One call requests at most `max_retries + 1` answers from the model.

    Args:
        llm: The client of the model.
        prompt_template: A template with the placeholder `question` and optionally `context`, `skillbook`,
            `reflection` and `current_date`.
        max_retries: How often the model is asked again if an answer is not usable.

    Raises:
        ValueError: The template has an unknown placeholder, or does not have `question`.
    """

    answer_type: ClassVar[type[AgentOutput]] = AgentOutput
    """The class of the answer that is requested from the model."""
    can_be_asked_again: ClassVar[bool] = True
    """Whether a question may be asked several times, because answering has no side effects."""

    @checked_arguments()
    def __init__(self, llm: AnyLLMClient, prompt_template: str = AGENT_PROMPT, *, max_retries: int = 3) -> None:
        self.llm = checked_client(llm)
        self.max_retries = whole_number("max_retries", max_retries, least=0)
        self._template = PromptTemplate(
            prompt_template,
            role="Agent",
            known=("question", "context", "skillbook", "reflection", "current_date"),
            needed=("question",),
        )

    @property
    def prompt_template(self) -> str:
        """The prompt template as text."""
        return self._template.text

    def generate(
        self,
        question: str,
        context: str | None,
        skillbook: SkillbookReader,
        reflection: str | None = None,
        *,
        recent_reflections: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> AgentOutput:
        """Answer one question.

        Args:
            question: The question or task.
            context: Additional information for the answer.
            skillbook: The skills to use.
            reflection: A reflection on an earlier attempt at the same question.
            recent_reflections: The most recent reflections on other questions, the newest one last; None if the run
                has no `reflection_window`. `SmallModelAgent` does not show them.
            **kwargs: Further fields of the context of a step; they are not sent to the model.

        Returns:
            The answer. Its `skill_ids` are the skills that the reasoning cites and that exist.

        Raises:
            UnusableAnswerError: The model gave no usable answer; an `EmptyAnswerError` if the answer was empty.
            LLMCallError: The model could not be reached.
            TypeError: The question or the context is not a string.
        """
        _check_texts(question, context)
        return finished(self._generate(BLOCKING, question, context, skillbook, reflection, recent_reflections))

    async def agenerate(
        self,
        question: str,
        context: str | None,
        skillbook: SkillbookReader,
        reflection: str | None = None,
        *,
        recent_reflections: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> AgentOutput:
        """Answer one question without blocking the event loop; otherwise like `generate`.

        If the client has no `acomplete_structured`, it is called in a thread.

        Args:
            question: The question or task.
            context: Additional information for the answer.
            skillbook: The skills to use.
            reflection: A reflection on an earlier attempt at the same question.
            recent_reflections: The most recent reflections on other questions, the newest one last; None if the run
                has no `reflection_window`. `SmallModelAgent` does not show them.
            **kwargs: Further fields of the context of a step; they are not sent to the model.

        Raises:
            UnusableAnswerError: The model gave no usable answer; an `EmptyAnswerError` if the answer was empty.
            LLMCallError: The model could not be reached.
            TypeError: The question or the context is not a string.
        """
        _check_texts(question, context)
        return await self._generate(ON_LOOP, question, context, skillbook, reflection, recent_reflections)

    async def _generate(
        self,
        calling: Calling,
        question: str,
        context: str | None,
        skillbook: SkillbookReader,
        reflection: str | None,
        recent: Sequence[str] | None,
    ) -> AgentOutput:
        prompt = self._prompt(question, context or "", skillbook, reflection or "", recent)
        empty: list[AgentOutput] = []

        def problem_with(output: AgentOutput) -> str | None:
            if output.final_answer.strip():
                return None
            empty.append(output)
            return _EMPTY

        try:
            output = await usable_answer(
                calling,
                self.llm,
                prompt,
                self._answer_type(question),
                problem_with,
                role="Agent",
                max_retries=self.max_retries,
            )
        except UnusableAnswerError as error:
            if error.problem != _EMPTY:
                raise
            cited = empty[-1].model_copy(update={"skill_ids": _cited(empty[-1].reasoning, skillbook)})
            raise EmptyAnswerError(_EMPTY, cited, raw_answers=error.raw_answers, role=error.role) from error
        return output.model_copy(update={"skill_ids": _cited(output.reasoning, skillbook)})

    def _answer_type(self, question: str) -> type[AgentOutput]:
        return self.answer_type

    def _prompt(
        self, question: str, context: str, skillbook: SkillbookReader, reflection: str, recent: Sequence[str] | None
    ) -> str:
        values = {
            "question": question,
            "context": format_optional(context),
            "reflection": format_optional(reflection),
            "current_date": today(),
        }
        skills = skills_for_prompt(skillbook, question, beside_recent=recent is not None)
        return self._template.lay_out(values, skills, recent=recent_reflections_section(recent or ()))


def _check_texts(question: object, context: object) -> None:
    instance_of("question", question, str)
    if context is not None:
        instance_of("context", context, str)


def today() -> str:
    """Return the local date in ISO 8601, as it is shown in prompts."""
    return datetime.now().astimezone().date().isoformat()


def _cited(reasoning: str, skillbook: SkillbookReader) -> list[str]:
    """Return the ids of the existing skills that the reasoning cites, in the order of their first citation.

    Imported skills may have ids of any form; such an id only counts as cited in brackets.
    """
    places = {skill_id: reasoning.index(skill_id) for skill_id in extract_cited_skill_ids(reasoning)}
    for match in _IN_BRACKETS.finditer(reasoning):
        for name in match[1].split(","):
            places.setdefault(name.strip(), match.start())
    ordered = sorted(places, key=lambda skill_id: places[skill_id])
    return [skill_id for skill_id in ordered if skillbook.get_skill(skill_id) is not None]
