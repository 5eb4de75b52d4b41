"""The prompts of the roles. Their texts are data files of this package."""

from __future__ import annotations

from importlib.resources import files

from ace.protocols.skillbook import SkillbookReader

__all__ = [
    "AGENT_PROMPT",
    "REFLECTOR_PROMPT",
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "SKILL_MANAGER_PROMPT",
    "SMALL_MODEL_AGENT_PROMPT",
    "SMALL_MODEL_REFLECTOR_PROMPT",
    "SMALL_MODEL_SKILL_MANAGER_PROMPT",
    "wrap_skillbook_context",
    "wrap_skillbook_for_external_agent",
]


def _text(name: str) -> str:
    return files("ace.implementations").joinpath("prompt_templates", name).read_text(encoding="utf-8")


AGENT_PROMPT = _text("agent.md")
"""Placeholders: question (needed), context, skillbook, reflection, current_date."""

REFLECTOR_PROMPT = _text("reflector.md")
"""Placeholders: question or trace (one is needed), reasoning, answer, ground_truth, feedback,
skillbook_excerpt."""

SKILL_MANAGER_PROMPT = _text("skill_manager.md")
"""Placeholders: reflection (needed), skillbook, stats, progress, question_context."""

SMALL_MODEL_AGENT_PROMPT = _text("small_model_agent.md")
"""As AGENT_PROMPT, for models of one or two billion parameters; `SmallModelAgent` omits the sections that are empty."""

SMALL_MODEL_REFLECTOR_PROMPT = _text("small_model_reflector.md")
"""As REFLECTOR_PROMPT, for models of one or two billion parameters; the trace is the record of one correction."""

SMALL_MODEL_SKILL_MANAGER_PROMPT = SKILL_MANAGER_PROMPT
"""The name of `SKILL_MANAGER_PROMPT` from when small models were asked for sections."""

SKILLBOOK_USAGE_INSTRUCTIONS = _text("skillbook_usage.md").strip()
"""Tells an agent of another framework how to use the skills that follow."""


def wrap_skillbook_for_external_agent(skillbook: SkillbookReader, budget_tokens: int | None = None) -> str:
    """Turn the skills of a book into text for the prompt of an agent of another framework.

    Args:
        skillbook: The skills.
        budget_tokens: The most tokens that the skills may take; None takes all of them.

    Returns:
        Instructions and skills; an empty string if the book has no skills.
    """
    skills = skillbook.as_prompt() if budget_tokens is None else skillbook.as_prompt(budget_tokens=budget_tokens)
    return f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}" if skills.strip() else ""


wrap_skillbook_context = wrap_skillbook_for_external_agent
