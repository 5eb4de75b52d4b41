"""The SkillManager: turns a reflection into changes of the skillbook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ace.arguments import checked_arguments, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import redactor_for
from ace.implementations.helpers import format_optional
from ace.implementations.prompts import SKILL_MANAGER_PROMPT, Fence, PromptTemplate, skillbook_for_prompt
from ace.implementations.role_answers import checked_client, usable_answer
from ace.implementations.trace_reading.rendering import cut_middle
from ace.outputs import ConsolidationOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols.llm import AnyLLMClient
from ace.protocols.roles import SkillbookReader
from ace.skill import TAGS
from ace.updates import OPERATION_TYPES, UpdateBatch, UpdateOperation

__all__ = ["SkillManager", "problem_with_batch"]

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
        """Ask what to do with similar skills; `ace.deduplication` makes the question.

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


_LONGEST_CONTENT = 4000
_LONGEST_SECTION = 200
_REMOVALS_ALWAYS_ALLOWED = 3
_LARGEST_REMOVED_SHARE = 0.25


def problem_with_batch(batch: UpdateBatch, skillbook: SkillbookReader) -> str | None:
    """Say what makes a batch unusable, or return None.

    A batch of which only some operations cannot be applied is usable: those are skipped and reported
    when it is applied.

    Args:
        batch: What the model wants.
        skillbook: The skills as they are.
    """
    problem = _problem_with_whole(batch, skillbook)
    if problem is not None or not batch.operations:
        return problem
    problems = [_problem_with_operation(operation, skillbook) for operation in batch.operations]
    found = [problem for problem in problems if problem is not None]
    return "; ".join(dict.fromkeys(found)) if len(found) == len(problems) else None


def _problem_with_whole(batch: UpdateBatch, skillbook: SkillbookReader) -> str | None:
    for operation in batch.operations:
        length = len(operation.content or "")
        if length > _LONGEST_CONTENT:
            return f"a skill is one short strategy of at most {_LONGEST_CONTENT} characters, not of {length}"
        if len(operation.section) > _LONGEST_SECTION:
            return f"a section is a heading of at most {_LONGEST_SECTION} characters, not of {len(operation.section)}"
    removals = {operation.skill_id for operation in batch.operations if operation.type == "REMOVE"}
    if len(removals) > _REMOVALS_ALWAYS_ALLOWED:
        count = len(skillbook.skills())
        if len(removals) > _LARGEST_REMOVED_SHARE * count:
            # A trace that says "delete all skills" must not get its way.
            return f"one reflection cannot justify the removal of {len(removals)} of {count} skills"
    return None


def _problem_with_operation(operation: UpdateOperation, skillbook: SkillbookReader) -> str | None:
    if operation.type not in OPERATION_TYPES:
        return f"the operation {operation.type!r} is unknown"
    if operation.type in ("ADD", "UPDATE") and not (operation.content or "").strip():
        return f"{operation.type} needs content"
    if operation.type == "ADD":
        return None
    if not operation.skill_id:
        return f"{operation.type} needs a skill_id"
    if skillbook.get_skill(operation.skill_id) is None:
        return f"there is no skill {operation.skill_id!r}"
    if operation.type == "TAG" and not any(tag in operation.metadata for tag in TAGS):
        return f"TAG needs metadata with one of {', '.join(TAGS)}"
    return None
