"""The SkillManager: turns a reflection into changes to the skillbook."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from ace._internal.arguments import checked_arguments, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import redactor_for
from ace.outputs import ConsolidationOutput, ReflectorOutput, SkillManagerOutput, UpdatesOutput
from ace.protocols.llm import AnyLLMClient
from ace.protocols.roles import SkillbookReader
from ace.retrieval import LexicalRanker
from ace.roles.prompts import (
    SKILL_MANAGER_PROMPT,
    Fence,
    PromptTemplate,
    format_optional,
    skills_for_prompt,
)
from ace.roles.rendering import cut_middle
from ace.roles.role_answers import checked_client, usable_answer
from ace.skill import TAGS, Skill, extract_cited_skill_ids
from ace.skillbook.line_formats import one_line
from ace.updates import OPERATION_TYPES, UpdateBatch, UpdateOperation

__all__ = ["SkillManager", "problem_with_batch"]

_LONGEST_REFLECTION = 48_000
_LONGEST_CONTEXT = 12_000
"""In UTF-8 bytes; a longer text is cut in the middle, with a mark."""
_TOGETHER = """\
There are {count} reflections, each on another execution. Decide for one after the other what it changes, as if the \
changes for those before it had already been made. Give one update for each, with its number and its own operations; \
the list of operations may be empty. If several reflections teach the same, add the skill only for the first one."""


class SkillManager:
    """Turns a reflection into changes to the skillbook.

    One batch requests at most `max_retries + 1` answers from the model.

    Args:
        llm: The client of the model.
        prompt_template: A template with the placeholder `reflection` and optionally `skillbook`, `stats`, `progress`
            and `question_context`.
        max_retries: How often the model is asked again if an answer is not usable.

    Raises:
        ValueError: The template has an unknown placeholder, or does not have `reflection`.
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
        """The prompt template as text."""
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
            reflection: The output of the reflector.
            skillbook: The current skills.
            question_context: The subject of the execution.
            progress: The progress of the run, such as `sample 3 of 10`.
            **kwargs: Further fields of the context of a step; they are not sent to the model.

        Returns:
            A batch that is empty, or in which at least one operation can be applied.

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
        """Decide without blocking the event loop; otherwise like `update_skills`.

        If the client has no `acomplete_structured`, it is called in a thread.

        Args:
            reflection: The output of the reflector.
            skillbook: The current skills.
            question_context: The subject of the execution.
            progress: The progress of the run, such as `sample 3 of 10`.
            **kwargs: Further fields of the context of a step; they are not sent to the model.

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
        # Redacting secrets in long texts would block an event loop for too long.
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
        return _without_source(output)

    def update_skills_together(
        self,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookReader,
        question_contexts: Sequence[str],
        progress: str = "",
    ) -> Mapping[int, SkillManagerOutput]:
        """Decide for each of several reflections which skills to add, update, tag or remove, in one request.

        It is not repeated if the answer is not usable: the caller can ask about fewer reflections.

        Args:
            reflections: The outputs of the reflector.
            skillbook: The current skills.
            question_contexts: The subject of each execution.
            progress: The progress of the run, such as `sample 3 of 10`.

        Returns:
            The batches by the number of their reflection, from 1. Numbers for which the answer contains no usable batch
            are missing. In a resumed run, a recorded answer may contain numbers of reflections that are not among
            these.

        Raises:
            ValueError: There are not as many reflections as subjects.
            UnusableAnswerError: The answer contains no usable batch.
            LLMCallError: The model could not be reached.
        """
        return finished(self._update_skills_together(BLOCKING, reflections, skillbook, question_contexts, progress))

    async def aupdate_skills_together(
        self,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookReader,
        question_contexts: Sequence[str],
        progress: str = "",
    ) -> Mapping[int, SkillManagerOutput]:
        """Decide without blocking the event loop; otherwise like `update_skills_together`.

        Args:
            reflections: The outputs of the reflector.
            skillbook: The current skills.
            question_contexts: The subject of each execution.
            progress: The progress of the run, such as `sample 3 of 10`.

        Raises:
            ValueError: There are not as many reflections as subjects.
            UnusableAnswerError: The answer contains no usable batch.
            LLMCallError: The model could not be reached.
        """
        return await self._update_skills_together(ON_LOOP, reflections, skillbook, question_contexts, progress)

    async def _update_skills_together(
        self,
        calling: Calling,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookReader,
        question_contexts: Sequence[str],
        progress: str,
    ) -> Mapping[int, SkillManagerOutput]:
        if len(reflections) != len(question_contexts):
            raise ValueError(
                f"there must be one question_context for each reflection, got {len(question_contexts)} for "
                f"{len(reflections)} reflections"
            )
        prompt = await calling.function(
            lambda: self._prompt_together(reflections, skillbook, question_contexts, progress)
        )
        output = await usable_answer(
            calling,
            self.llm,
            prompt,
            UpdatesOutput,
            lambda output: None if _usable_updates(output, skillbook) else "no update in it can be used",
            role="SkillManager",
            max_retries=0,
        )
        return _usable_updates(output, skillbook)

    def _prompt(
        self, reflection: ReflectorOutput, skillbook: SkillbookReader, question_context: str, progress: str
    ) -> str:
        found, about = self._shown(reflection, question_context)
        fence = Fence([found, about])
        values = {
            "reflection": fence.around(found),
            "stats": json.dumps(skillbook.stats()),
            "progress": format_optional(progress),
            "question_context": fence.around(about) if about else format_optional(None),
        }
        skills = skills_for_prompt(skillbook, reflection.key_insight)
        return self._template.lay_out(values, skills, about_skills=_about_skills(skillbook, [reflection]))

    def _prompt_together(
        self,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookReader,
        question_contexts: Sequence[str],
        progress: str,
    ) -> str:
        """Fill in the same template, so that rules and skills are the same as in requests about one reflection."""
        texts = [self._shown(*pair) for pair in zip(reflections, question_contexts, strict=True)]
        fence = Fence([text for pair in texts for text in pair])
        parts = [_TOGETHER.format(count=len(reflections))]
        for number, (found, about) in enumerate(texts, start=1):
            context = f"What its execution was about:\n\n{fence.around(about)}\n\n" if about else ""
            parts.append(f"## Reflection {number}\n\n{context}{fence.around(found)}")
        values = {
            "reflection": "\n\n".join(parts),
            "stats": json.dumps(skillbook.stats()),
            "progress": format_optional(progress),
            "question_context": "(given with each reflection)",
        }
        skills = skills_for_prompt(skillbook, "\n".join(reflection.key_insight for reflection in reflections))
        return self._template.lay_out(values, skills, about_skills=_about_skills(skillbook, reflections))

    def _shown(self, reflection: ReflectorOutput, question_context: str) -> tuple[str, str]:
        """Return a reflection and its subject, redacted. They may have any length; beginning and end are enough."""
        redactor = redactor_for(self.llm)
        whole = redactor.redact(reflection.model_dump_json(exclude={"raw"}, indent=2))
        found, _ = cut_middle(whole, _LONGEST_REFLECTION)
        about, _ = cut_middle(redactor.redact(question_context), _LONGEST_CONTEXT)
        return found, about

    def consolidate_skills(self, prompt: str) -> Mapping[str, Any]:
        """Decide what to do with similar skills. `ace.deduplication` writes the prompt.

        Args:
            prompt: The whole prompt, with the groups of similar skills.

        Returns:
            An object with the list `consolidation_operations`.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return finished(self._consolidate_skills(BLOCKING, prompt))

    async def aconsolidate_skills(self, prompt: str) -> Mapping[str, Any]:
        """Decide without blocking the event loop; otherwise like `consolidate_skills`.

        Args:
            prompt: The whole prompt, with the groups of similar skills.

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


def _without_source(output: SkillManagerOutput) -> SkillManagerOutput:
    """Return the output without provenance, which must not come from the model: a trace could claim to be another."""
    operations = [
        replace(operation, insight_source=None, metadata=operation.counters) for operation in output.update.operations
    ]
    return output.model_copy(update={"update": UpdateBatch(output.update.reasoning, operations)})


def _usable_updates(output: UpdatesOutput, skillbook: SkillbookReader) -> dict[int, SkillManagerOutput]:
    """Return the batches that can be used, by the number of their reflection.

    An update without a number cannot be attributed, and one of two for the same reflection is wrong: none is used.
    """
    numbers = [_number_of(update) for update in output.updates]
    found: dict[int, SkillManagerOutput] = {}
    for number, update in zip(numbers, output.updates, strict=True):
        if number is None or numbers.count(number) > 1:
            continue
        try:
            read = SkillManagerOutput.model_validate({**update, "raw": update})
        except ValidationError:
            continue
        if problem_with_batch(read.update, skillbook) is None:
            found[number] = _without_source(read)
    return found


def _number_of(update: object) -> int | None:
    """Return the number of the reflection that an update names; models write it as a text, too."""
    match update:
        case {"reflection": bool()}:
            return None
        case {"reflection": int(number)} if number > 0:
            return number
        case {"reflection": str(text)} if text.strip().isdecimal():
            return int(text)
    return None


_MOST_SECTIONS = 100
_MOST_TOLD_OF = 50
_MOST_TRACES = 3
_MOST_REJECTED = 10


@runtime_checkable
class _NamesSections(Protocol):
    """A skillbook that knows its sections without looking at all skills."""

    def section_names(self) -> list[str]: ...


def _about_skills(skillbook: SkillbookReader, reflections: Sequence[ReflectorOutput]) -> str:
    """Return the sections of the skillbook, the skills that reflections are about, and what a person has rejected.

    The counters of all skills change with every sample, so they must not be in the part of the prompt that repeats.
    """
    names = (
        skillbook.section_names()
        if isinstance(skillbook, _NamesSections)
        else [skill.section for skill in skillbook.skills()]
    )
    sections = list(dict.fromkeys(one_line(name) for name in names if name))
    named = []
    for reflection in reflections:
        named += [tag.id for tag in reflection.skill_tags]
        named += extract_cited_skill_ids(reflection.model_dump_json(exclude={"raw"}))
    skills = [skill for id in dict.fromkeys(named) if (skill := skillbook.get_skill(id)) is not None][:_MOST_TOLD_OF]
    parts = []
    if sections:
        more = f", and {len(sections) - _MOST_SECTIONS} more" if len(sections) > _MOST_SECTIONS else ""
        parts.append(f"Sections: {', '.join(sections[:_MOST_SECTIONS])}{more}")
    if skills:
        title = "Skills that the reflection is about:" if len(reflections) == 1 else "Skills that they are about:"
        parts.append("\n".join([title, *map(_record_of, skills)]))
    rejected = _rejected(skillbook, " ".join(reflection.key_insight for reflection in reflections))
    if rejected:
        lines = (f"- {one_line(skill.content)} (rejected: {one_line(skill.reason)})" for skill in rejected)
        parts.append("\n".join(["A person rejected these skills; do not add them again in other words:", *lines]))
    return "\n\n".join(parts)


def _rejected(skillbook: SkillbookReader, query: str) -> Sequence[Skill]:
    """Return the rejected skills, at most `_MOST_REJECTED` of them: those that are most relevant to a reflection."""
    rejected = [skill for skill in skillbook.skills(include_invalid=True) if skill.is_rejected]
    if len(rejected) <= _MOST_REJECTED:
        return rejected
    return LexicalRanker().best(query, rejected, _MOST_REJECTED)


def _record_of(skill: Skill) -> str:
    counters = f"helpful {skill.helpful}, harmful {skill.harmful}, neutral {skill.neutral}"
    traces = list(dict.fromkeys(one_line(source.trace_id) for source in skill.sources if source.trace_id))
    learned = f"; learned from {', '.join(traces[-_MOST_TRACES:])}" if traces else ""
    return f"- [{one_line(skill.id)}] in {one_line(skill.section) or 'no section'}: {counters}{learned}"


_LONGEST_CONTENT = 4000
_LONGEST_SECTION = 200
_REMOVALS_ALWAYS_ALLOWED = 3
_LARGEST_REMOVED_SHARE = 0.25


def problem_with_batch(batch: UpdateBatch, skillbook: SkillbookReader) -> str | None:
    """Return the reason why a batch is not usable, or None.

    A batch is usable if some of its operations can be applied; the others are skipped and reported when it is applied.

    Args:
        batch: The operations that the model returned.
        skillbook: The current skills.
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
            # A trace that says "delete all skills" must not succeed.
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
        return f"no such skill: {operation.skill_id!r}"
    if operation.type == "TAG" and not any(tag in operation.metadata for tag in TAGS):
        return f"TAG needs metadata with one of {', '.join(TAGS)}"
    return None
