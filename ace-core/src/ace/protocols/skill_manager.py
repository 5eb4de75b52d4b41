"""What a skill manager must look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.outputs import ReflectorOutput, SkillManagerOutput
    from ace.protocols.skillbook import SkillbookReader

__all__ = ["SkillManagerLike"]


@runtime_checkable
class SkillManagerLike(Protocol):
    """Turns a reflection into changes of the skillbook. Nobody has to inherit from this class."""

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
            **kwargs: What a step passes on beyond this.
        """
        ...
