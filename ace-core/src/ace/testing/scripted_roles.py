"""Roles without a model: what a task's code word teaches is one skill that holds it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, final

from ace.testing.scripted_model import code_words

if TYPE_CHECKING:
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.protocols import SkillbookReader

__all__ = ["ScriptedReflector", "ScriptedSkillManager", "lesson_of"]


def lesson_of(word: str) -> str:
    """Return the skill that the task with a code word teaches.

    Example:
        >>> lesson_of("kit0001code")
        'Heed what was learned of kit0001code.'
    """
    return f"Heed what was learned of {word}."


@final
class ScriptedReflector:
    """Learns from each task that its code word is to be heeded. `traces` holds what it was shown."""

    def __init__(self) -> None:
        self.traces: list[object] = []
        self._lock = threading.Lock()

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Return a reflection that names the code word of the task."""
        from ace.outputs import ReflectorOutput

        with self._lock:
            self.traces.append(kwargs.get("trace"))
        words = code_words(question) or code_words(json.dumps(kwargs.get("trace"), default=repr))
        return ReflectorOutput(
            reasoning="Looked for the code word.",
            error_identification="",
            root_cause_analysis="",
            correct_approach="",
            key_insight=lesson_of(words[0]) if words else "",
        )


@final
class ScriptedSkillManager:
    """Adds the key insight of each reflection as a skill."""

    def update_skills(
        self,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput:
        """Return the operation that adds the skill."""
        from ace.outputs import SkillManagerOutput
        from ace.updates import UpdateBatch, UpdateOperation

        insight = reflection.key_insight
        operations = [UpdateOperation("ADD", section="kit", content=insight)] if insight else []
        return SkillManagerOutput(update=UpdateBatch("From the reflection.", operations))
