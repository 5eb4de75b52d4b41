"""`SmallModelSkillManager`: a skill manager for models of one or two billion parameters."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ace.arguments import checked_class
from ace.implementations.asking import usable_answer
from ace.implementations.helpers import format_optional
from ace.implementations.prompts import SMALL_MODEL_SKILL_MANAGER_PROMPT
from ace.implementations.skill_manager import SkillManager
from ace.implementations.small_model_outputs import Placement
from ace.outputs import ExtractedLearning, ReflectorOutput, SkillManagerOutput
from ace.protocols.calling import Calling
from ace.protocols.llm import AnyLLMClient
from ace.protocols.redaction import redactor_for
from ace.protocols.skillbook import SkillbookReader
from ace.retrieval import words
from ace.skill import Skill
from ace.updates import UpdateBatch, UpdateOperation

__all__ = ["SmallModelSkillManager"]

_LEAST_SIMILARITY = 0.4
_MOST_SIMILAR = 3
_NO_SECTION = "general"


@checked_class
class SmallModelSkillManager(SkillManager):
    """Turns a reflection into changes of the skillbook, with a small model.

    Free operations on a skillbook are too much for a small model: it changes the first skill that it sees.
    So the text of a skill is the learning itself, and the model is asked one short question for each: in
    which section does it belong, and does one of the similar skills say the same? Without learnings it is
    not asked at all.

    Args:
        llm: A client.
        prompt_template: A template as for `SkillManager`; its reflection is one learning, its skillbook the
            similar skills, and its stats the sections with the number of skills in each.
        max_retries: How often to ask again when an answer cannot be used.
    """

    def __init__(
        self, llm: AnyLLMClient, prompt_template: str = SMALL_MODEL_SKILL_MANAGER_PROMPT, *, max_retries: int = 3
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries)

    async def _update_skills(
        self,
        calling: Calling,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str,
        progress: str,
    ) -> SkillManagerOutput:
        """Return one ADD for each new learning, one UPDATE for each that a skill says already."""
        learnings = [learning for learning in reflection.extracted_learnings if learning.learning.strip()]
        placed = [await self._operation(calling, learning, skillbook) for learning in learnings]
        batch = UpdateBatch(reflection.key_insight, [operation for operation, _ in placed])
        return SkillManagerOutput(update=batch, raw={"placements": [raw for _, raw in placed]})

    async def _operation(
        self, calling: Calling, learning: ExtractedLearning, skillbook: SkillbookReader
    ) -> tuple[UpdateOperation, dict[str, Any]]:
        text = learning.learning.strip()
        similar = _similar_skills(text, skillbook.skills())
        placement = await self._placement(calling, text, similar, skillbook)
        said = next((skill for skill in similar if skill.id == placement.same_as.strip(" []")), None)
        if said is not None:
            operation = UpdateOperation(
                "UPDATE",
                content=max(said.content, text, key=len),
                skill_id=said.id,
                justification=learning.justification or None,
                evidence=learning.evidence or None,
            )
        else:
            operation = UpdateOperation(
                "ADD",
                section=placement.section.strip().lower() or _NO_SECTION,
                content=text,
                justification=learning.justification or None,
                evidence=learning.evidence or None,
            )
        return operation, placement.raw

    async def _placement(
        self, calling: Calling, text: str, similar: Sequence[Skill], skillbook: SkillbookReader
    ) -> Placement:
        sections = Counter(skill.section for skill in skillbook.skills())
        shown = " ".join(f"[{skill.id}] {skill.content}" for skill in similar)
        prompt = self._template.fill(
            {
                "reflection": redactor_for(self.llm).redact(text),
                "skillbook": format_optional(shown),
                "stats": json.dumps(sections, ensure_ascii=False),
                "progress": format_optional(None),
                "question_context": format_optional(None),
            }
        )
        return await usable_answer(
            calling,
            self.llm,
            prompt,
            Placement,
            lambda answer: None,
            role="SkillManager",
            max_retries=self.max_retries,
        )


def _similar_skills(text: str, skills: Sequence[Skill]) -> list[Skill]:
    """Return the skills that share enough words with a text, the most similar first."""
    wanted = frozenset(words(text))
    scored = [(_cosine(wanted, frozenset(words(skill.content))), skill) for skill in skills]
    near = sorted((pair for pair in scored if pair[0] >= _LEAST_SIMILARITY), key=lambda pair: -pair[0])
    return [skill for _, skill in near[:_MOST_SIMILAR]]


def _cosine(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / math.sqrt(len(first) * len(second)) if first and second else 0.0
