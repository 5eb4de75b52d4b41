"""`ClaudeCode`, the runner that runs tasks in Claude Code and learns from them."""

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
    """Runs tasks in Claude Code, learns from each, and writes the skills to a file that its other sessions read.

    Create one with `from_roles`, `from_client` or `from_model`. By default, `run` starts a task when the earlier ones
    have been learned from (with `workers=N`, all but N - 1 of them); `max_in_flight=None` does not wait for that.
    """

    integration: ClassVar[str] = "claude_code"
    execute_step = ClaudeCodeExecuteStep
    to_trace = ClaudeCodeToTrace
    tasks_ahead: ClassVar[int] = 0
    """A task starts when the earlier ones have been learned from: repeating their mistakes costs more than the wait."""

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
            working_dir: The folder in which Claude Code works.
            reflector: Analyses the outcome of a task.
            skill_manager: Turns the analysis into changes to the skillbook.
            skillbook: The skillbook that the steps change; a runner of these steps must have the same one.
            skill_file: The file to which the skills are written for other sessions; see `from_roles`.
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
        """Create a runner from two roles; Claude Code takes the place of the third.

        Args:
            working_dir: The folder in which Claude Code works.
            reflector: Analyses the outcome of a task.
            skill_manager: Turns the analysis into changes to the skillbook.
            skill_file: The file in the working folder to which the skills are written for other sessions: a separate
                rules file, or a managed block of a file such as `CLAUDE.md`; None writes no file.
            **options: The options of `ClaudeCodeExecuteStep`, such as `timeout` or `allowed_tools`; and those of every
                runner, such as `skillbook_path` and `dedup_config`, see `ace.runners.LearningSettings`.

        Raises:
            ValueError: Two options exclude each other.
            NotADirectoryError: The working folder does not exist.
            ClaudeNotFoundError: The `claude` binary is not found.
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
        """Create a runner whose two roles use one model.

        Args:
            working_dir: The folder in which Claude Code works.
            ace_model: The model of the reflector and the skill manager; `claude_code/NAME` uses Claude Code itself.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client to use instead of `ace_model`.
            **kwargs: The other arguments of `from_roles`.
        """
        if ace_llm is not None:
            return super().from_model(working_dir=working_dir, ace_llm=ace_llm, **kwargs)
        return super().from_model(working_dir=working_dir, ace_model=ace_model, ace_max_tokens=ace_max_tokens, **kwargs)


def _with_skill_file(
    working_dir: str | os.PathLike[str], skill_file: str | os.PathLike[str] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options with the step that writes the skills to a file, after the steps of the caller."""
    if skill_file is None:
        return options
    path = Path(working_dir).absolute() / skill_file
    extra: Sequence[StepProtocol[ACEStepContext]] = options.get("extra_steps") or ()
    step = SkillFileStep(path, budget_tokens=options.get("skill_budget_tokens"))
    return {**options, "extra_steps": [*extra, step], "skill_file": path}
