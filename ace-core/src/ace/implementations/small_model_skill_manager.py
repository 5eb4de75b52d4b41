"""`SmallModelSkillManager`: a skill manager for small models, which it does not ask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ace.arguments import checked_class
from ace.implementations.prompts import SKILL_MANAGER_PROMPT
from ace.implementations.skill_manager import SkillManager
from ace.outputs import ExtractedLearning, ReflectorOutput, SkillManagerOutput
from ace.protocols.calling import Calling
from ace.protocols.llm import AnyLLMClient
from ace.protocols.skillbook import SkillbookReader
from ace.retrieval import LexicalRanker, words
from ace.skill import Skill
from ace.updates import UpdateBatch, UpdateOperation

__all__ = ["SmallModelSkillManager"]

_LEAST_SHARED: Final = 0.4
"""The share of what a rule names that the most similar skill has to name to attract it into its section."""
_NO_SECTION: Final = "general"
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_FUNCTION_WORD_LIST: Final = (
    "when whenever where while for from with without about into over under the and but not all any each every always "
    "never use write give ask asks say says name add put take make makes send get gets has have are was were does did "
    "you your our their his her its this that these those who whom whose which what there here then than only also "
    "if must should shall will would can could may might someone somebody something new"
)
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
"""Words that name nothing."""


@checked_class
class SmallModelSkillManager(SkillManager):
    """Turns a reflection into changes of the skillbook, without a call of the model.

    A small model judges neither whether two rules say the same nor where one belongs: it says "the same" of any two.
    So each learning becomes a skill, word for word; one that the book has already, but for punctuation behind words and
    the first letter, is an UPDATE of that skill, which so keeps where else it was learned. The section is that of the
    most similar skill, by words. Where none is similar, it is a word of the rule.

    For the same reason it leaves similar skills undecided: `consolidate_skills` wants nothing to be merged.

    Args:
        llm: A client; it is not asked.
        prompt_template: Checked as for `SkillManager`, and not used.
        max_retries: Not used.
    """

    def __init__(self, llm: AnyLLMClient, prompt_template: str = SKILL_MANAGER_PROMPT, *, max_retries: int = 3) -> None:
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
        # Comparing with all skills of a large book takes long enough to hold up an event loop.
        operations = await calling.function(lambda: _operations(learnings, skillbook.skills()))
        return SkillManagerOutput(update=UpdateBatch(reflection.key_insight, operations))

    async def _consolidate_skills(self, calling: Calling, prompt: str) -> Mapping[str, Any]:
        """Leave all similar skills as they are."""
        return {"reasoning": "A small model cannot tell similar rules apart.", "consolidation_operations": []}


def _operations(learnings: Sequence[ExtractedLearning], skills: Sequence[Skill]) -> list[UpdateOperation]:
    said = {_normalised(skill.content): skill for skill in reversed(skills)}
    sections = _Sections(skills)
    each_once = {_normalised(learning.learning): learning for learning in reversed(learnings)}
    return [_operation(learning, said.get(text), sections) for text, learning in reversed(each_once.items())]


def _operation(learning: ExtractedLearning, known: Skill | None, sections: _Sections) -> UpdateOperation:
    text = learning.learning.strip()
    more: dict[str, Any] = {
        "justification": learning.justification or None,
        "evidence": learning.evidence or None,
    }
    if known is not None:
        return UpdateOperation("UPDATE", content=known.content, skill_id=known.id, **more)
    return UpdateOperation("ADD", section=sections.of(text), content=text, **more)


class _Sections:
    """Finds the section of a rule among those of the skills."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = skills
        self._ranker = LexicalRanker()

    def of(self, rule: str) -> str:
        names = _names_in(rule)
        for skill in self._ranker.best(rule, self._skills, 1):
            if len(names & _names_in(skill.content)) >= max(1, _LEAST_SHARED * len(names)):
                return skill.section
        return next((word for word in map(str.lower, _WORD.findall(rule)) if _is_name(word)), _NO_SECTION)


def _names_in(text: str) -> frozenset[str]:
    """Return the words of a text that may name what it is about."""
    found = (word for word in map(str.lower, _WORD.findall(text)) if _is_name(word))
    return frozenset(stem for word in found for stem in words(word))


def _is_name(word: str) -> bool:
    return word not in _FUNCTION_WORDS and not word.endswith(("ing", "ed"))


def _normalised(text: str) -> str:
    """Return a rule in the form in which it is compared: case and signs inside it may be what it is about."""
    normal = " ".join(word.rstrip(".,;:!?") or word for word in text.split())
    return normal[:1].casefold() + normal[1:]
