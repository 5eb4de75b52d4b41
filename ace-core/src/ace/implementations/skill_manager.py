"""The SkillManager: turns a reflection into changes of the skillbook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ace.arguments import checked_arguments, whole_number
from ace.implementations.asking import checked_client, usable_answer
from ace.implementations.fence import Fence
from ace.implementations.helpers import format_optional
from ace.implementations.operation_checks import problem_with_batch
from ace.implementations.prompt_template import PromptTemplate
from ace.implementations.prompts import SKILL_MANAGER_PROMPT
from ace.implementations.skillbook_prompt import skillbook_for_prompt
from ace.implementations.trace_reading.fitting import cut_middle
from ace.outputs import ConsolidationOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.protocols.llm import AnyLLMClient
from ace.protocols.redaction import redactor_for
from ace.protocols.skillbook import SkillbookReader
from ace.updates import UpdateBatch

__all__ = ["SkillManager"]

_LONGEST_REFLECTION = 48_000
_LONGEST_CONTEXT = 12_000
"""In UTF-8 bytes; what is longer is cut in the middle, visibly."""


class SkillManager:
    """Turns a reflection into changes of the skillbook.

    One batch costs at most `max_retries + 1` answers of the model, in all.

    Args:
        llm: A client.
        prompt_template: A template with the placeholder reflection and, where wanted, skillbook,
            stats, progress and question_context.
        max_retries: How often to ask again when an answer cannot be used.

    Raises:
        ValueError: The template has an unknown placeholder or lacks reflection.
    """

    @checked_arguments()
    def __init__(self, llm: AnyLLMClient, prompt_template: str = SKILL_MANAGER_PROMPT, *, max_retries: int = 3) -> None:
        self.llm = checked_client(llm)
        self.max_retries = whole_number("max_retries", max_retries, least=0)
        self._template = PromptTemplate(
            prompt_template,
            role="SkillManager",
            known=("reflection", "skillbook", "stats", "progress", "question_context"),
            needed=("reflection",),
        )

    @property
    def prompt_template(self) -> str:
        """The text of the template."""
        return self._template.text

    def update_skills(
        self,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput:
        """Decide which skills to add, update, tag or remove.

        Args:
            reflection: What the reflector found.
            skillbook: The skills as they are.
            question_context: What the execution was about.
            progress: How far the run has come, such as `sample 3 of 10`.
            **kwargs: What a step passes on beyond this; it is not sent to the model.

        Returns:
            The batch. At least one of its operations can be applied, or it has none.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return finished(self._update_skills(BLOCKING, reflection, skillbook, question_context, progress))

    async def aupdate_skills(
        self,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput:
        """Decide from asynchronous code; otherwise like `update_skills`.

        With a client that has `acomplete_structured`, no thread waits for the answer.

        Args:
            reflection: What the reflector found.
            skillbook: The skills as they are.
            question_context: What the execution was about.
            progress: How far the run has come, such as `sample 3 of 10`.
            **kwargs: What a step passes on beyond this; it is not sent to the model.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return await self._update_skills(ON_LOOP, reflection, skillbook, question_context, progress)

    async def _update_skills(
        self,
        calling: Calling,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str,
        progress: str,
    ) -> SkillManagerOutput:
        # Hiding secrets in long texts takes long enough to hold up an event loop.
        prompt = await calling.function(lambda: self._prompt(reflection, skillbook, question_context, progress))
        output = await usable_answer(
            calling,
            self.llm,
            prompt,
            SkillManagerOutput,
            lambda output: problem_with_batch(output.update, skillbook),
            role="SkillManager",
            max_retries=self.max_retries,
        )
        # Which trace taught a skill is not for a model to say, or a trace could pass for another one.
        operations = [replace(operation, insight_source=None) for operation in output.update.operations]
        return output.model_copy(update={"update": UpdateBatch(output.update.reasoning, operations)})

    def _prompt(
        self, reflection: ReflectorOutput, skillbook: SkillbookReader, question_context: str, progress: str
    ) -> str:
        # A model may return a reflection of any length; head and tail of it will do.
        redactor = redactor_for(self.llm)
        whole = redactor.redact(reflection.model_dump_json(exclude={"raw"}, indent=2))
        found, _ = cut_middle(whole, _LONGEST_REFLECTION)
        about, _ = cut_middle(redactor.redact(question_context), _LONGEST_CONTEXT)
        fence = Fence([found, about])
        return self._template.fill(
            {
                "reflection": fence.around(found),
                "skillbook": format_optional(skillbook_for_prompt(skillbook, reflection.key_insight)),
                "stats": json.dumps(skillbook.stats()),
                "progress": format_optional(progress),
                "question_context": fence.around(about) if about else format_optional(None),
            }
        )

    def consolidate_skills(self, prompt: str) -> Mapping[str, Any]:
        """Ask what shall become of similar skills; `ace.deduplication` makes the question.

        Args:
            prompt: The whole question, with the groups of similar skills.

        Returns:
            The answer: an object with the list `consolidation_operations`.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return finished(self._consolidate_skills(BLOCKING, prompt))

    async def aconsolidate_skills(self, prompt: str) -> Mapping[str, Any]:
        """Ask from asynchronous code; otherwise like `consolidate_skills`.

        Args:
            prompt: The whole question, with the groups of similar skills.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return await self._consolidate_skills(ON_LOOP, prompt)

    async def _consolidate_skills(self, calling: Calling, prompt: str) -> Mapping[str, Any]:
        answer = await usable_answer(
            calling,
            self.llm,
            prompt,
            ConsolidationOutput,
            lambda output: None,
            role="SkillManager",
            max_retries=self.max_retries,
        )
        return answer.model_dump(include={"reasoning", "consolidation_operations"})
