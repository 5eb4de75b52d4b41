"""`SmallModelReflector`: a reflector for models of one or two billion parameters."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ace.arguments import checked_class
from ace.implementations.asking import usable_answer
from ace.implementations.prompts import SMALL_MODEL_REFLECTOR_PROMPT
from ace.implementations.reflector import Reflector
from ace.implementations.repeated_words import first_repeated, word_runs
from ace.implementations.small_model_outputs import Lesson
from ace.outputs import ExtractedLearning, ReflectorOutput, SkillTag
from ace.protocols.calling import Calling
from ace.protocols.llm import AnyLLMClient

__all__ = ["SmallModelReflector"]

logger = logging.getLogger(__name__)

_REPEATED_WORDS = 8


@checked_class
class SmallModelReflector(Reflector):
    """Finds out what can be learned from one execution, with a small model.

    A small model analyses badly and follows examples well. So it is shown two examples, and asked for
    the mistake and one rule instead of a whole analysis. A rule that repeats the question itself is none.

    Args:
        llm: A client.
        prompt_template: A template as for `Reflector`.
        max_retries: How often to ask again when an answer cannot be used.
        max_trace_tokens: The most tokens that the record of the execution may take.
    """

    def __init__(
        self,
        llm: AnyLLMClient,
        prompt_template: str = SMALL_MODEL_REFLECTOR_PROMPT,
        *,
        max_retries: int = 3,
        max_trace_tokens: int | None = None,
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries, max_trace_tokens=max_trace_tokens)

    async def _ask(self, calling: Calling, prompt: str, cited: Sequence[str]) -> ReflectorOutput:
        lesson = await usable_answer(
            calling, self.llm, prompt, Lesson, lambda answer: None, role="Reflector", max_retries=self.max_retries
        )
        rule, mistake = lesson.rule.strip(), lesson.what_went_wrong.strip()
        if first_repeated(rule, set(word_runs(self.prompt_template, _REPEATED_WORDS)), _REPEATED_WORDS):
            logger.info("Nothing is learned from a rule that repeats the question to the reflector: %r", rule)
            rule = ""
        learnings = [ExtractedLearning(learning=rule, atomicity_score=1.0, evidence=mistake)] if rule else []
        # Whether a cited skill caused the mistake is more than a small model can judge.
        tag = "neutral" if mistake else "helpful"
        return ReflectorOutput(
            reasoning=mistake or "Nothing went wrong.",
            error_identification=mistake,
            root_cause_analysis="",
            correct_approach=rule,
            key_insight=rule,
            extracted_learnings=learnings,
            skill_tags=[SkillTag(id=skill_id, tag=tag) for skill_id in cited],
            raw=lesson.raw,
        )
