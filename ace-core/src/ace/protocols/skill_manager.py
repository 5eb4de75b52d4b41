"""What a skill manager must look like."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import ReflectorOutput, SkillManagerOutput

__all__ = ["SkillManagerLike"]


@runtime_checkable
class SkillManagerLike(Protocol):
    """Turns a reflection into changes of the skillbook. No inheritance is needed.

    The method is called by keyword only and may be `async def`; see also `ace.protocols.RoleError`.
    """

    def update_skills(
        self,
        *,
        reflection: ReflectorOutput,
        skillbook: SkillbookView,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput | Awaitable[SkillManagerOutput]:
        """Decide which skills to add, update, tag or remove.

        Args:
            reflection: What the reflector found.
            skillbook: The skills as they are.
            question_context: What the execution was about.
            progress: How far the run has come, such as `sample 3 of 10`.
            **kwargs: What a step passes on beyond this.
        """
        ...
