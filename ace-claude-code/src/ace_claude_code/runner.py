"""`ClaudeCode`: Claude Code does tasks, and learns from how it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ace.runners import IntegrationRunner
from ace_claude_code.execute import ClaudeCodeExecuteStep
from ace_claude_code.skill_file import RULES_FILE, SkillFileStep
from ace_claude_code.to_trace import ClaudeCodeToTrace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol
    from ace.protocols import LLMClientLike, ReflectorLike, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["ClaudeCode"]


class ClaudeCode(IntegrationRunner):
    """Has Claude Code do tasks, learns from each, and leaves the skills where its other sessions read them.

    Make one with `from_roles`, `from_client` or `from_model`.
    """

    integration: ClassVar[str] = "claude_code"
    execute_step = ClaudeCodeExecuteStep
    to_trace = ClaudeCodeToTrace

    @classmethod
    def build_steps(
        cls,
        *,
        working_dir: str | os.PathLike[str],
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        skill_file: str | os.PathLike[str] | None = RULES_FILE,
        **options: Any,
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            working_dir: The folder that Claude Code works in.
            reflector: The reflector.
            skill_manager: The skill manager.
            skillbook: The book that the steps write; the runner over them needs the same one.
            skill_file: Where the skills are left for other sessions, see `from_roles`.
            **options: The other arguments of `from_roles`.
        """
        prepared = _with_skill_file(working_dir, skill_file, options)
        return super().build_steps(
            working_dir=working_dir,
            reflector=reflector,
            skill_manager=skill_manager,
            skillbook=skillbook,
            **prepared,
        )

    @classmethod
    def from_roles(
        cls,
        *,
        working_dir: str | os.PathLike[str],
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skill_file: str | os.PathLike[str] | None = RULES_FILE,
        **options: Any,
    ) -> Self:
        """Make a runner of two roles; Claude Code is the third.

        Args:
            working_dir: The folder that Claude Code works in.
            reflector: Who finds out what a run teaches.
            skill_manager: Who turns that into operations.
            skill_file: Where the skills are left for other sessions, below the working folder: a rules file of
                their own, or a marked block of a file such as `CLAUDE.md`; None leaves them nowhere.
            **options: Those of `ClaudeCodeExecuteStep`, such as timeout or allowed_tools; skillbook or
                skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir, checkpoint_interval,
                extra_steps.

        Raises:
            ValueError: Two options exclude each other.
            NotADirectoryError: There is no such working folder.
            ClaudeNotFoundError: There is no binary.
        """
        prepared = _with_skill_file(working_dir, skill_file, options)
        return super().from_roles(working_dir=working_dir, reflector=reflector, skill_manager=skill_manager, **prepared)

    @classmethod
    def from_model(
        cls,
        *,
        working_dir: str | os.PathLike[str],
        ace_model: str = "gpt-4o-mini",
        ace_max_tokens: int = 2048,
        ace_llm: LLMClientLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a runner whose two roles use one model.

        Args:
            working_dir: The folder that Claude Code works in.
            ace_model: The model that learns; `claude_code/` before a name asks Claude Code itself.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client that is taken instead of the model.
            **kwargs: The other arguments of `from_roles`.
        """
        if ace_llm is not None:
            return super().from_model(working_dir=working_dir, ace_llm=ace_llm, **kwargs)
        return super().from_model(working_dir=working_dir, ace_model=ace_model, ace_max_tokens=ace_max_tokens, **kwargs)


def _with_skill_file(
    working_dir: str | os.PathLike[str], skill_file: str | os.PathLike[str] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options with the step that leaves the skills in a file, after the steps of the caller."""
    if skill_file is None:
        return options
    path = Path(working_dir).absolute() / skill_file
    extra: Sequence[StepProtocol[ACEStepContext]] = options.get("extra_steps") or ()
    step = SkillFileStep(path, budget_tokens=options.get("skill_budget_tokens"))
    return {**options, "extra_steps": [*extra, step], "skill_file": path}
