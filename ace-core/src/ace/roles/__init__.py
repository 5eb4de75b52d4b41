"""The roles and their prompts. Modules are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.roles.agent import Agent
    from ace.roles.judgements import JudgementFinder, SmallModelJudgementFinder
    from ace.roles.prompts import SKILLBOOK_USAGE_INSTRUCTIONS
    from ace.roles.reflector import Reflector
    from ace.roles.skill_manager import SkillManager
    from ace.roles.small_models import (
        SmallModelAgent,
        SmallModelReflector,
        SmallModelSkillManager,
        agent_for,
        judgement_finder_for,
        reflector_for,
        skill_manager_for,
    )

__all__ = [
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "Agent",
    "JudgementFinder",
    "Reflector",
    "SkillManager",
    "SmallModelAgent",
    "SmallModelJudgementFinder",
    "SmallModelReflector",
    "SmallModelSkillManager",
    "agent_for",
    "judgement_finder_for",
    "reflector_for",
    "skill_manager_for",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SKILLBOOK_USAGE_INSTRUCTIONS": "prompts",
        "Agent": "agent",
        "JudgementFinder": "judgements",
        "Reflector": "reflector",
        "SkillManager": "skill_manager",
        "SmallModelAgent": "small_models",
        "SmallModelJudgementFinder": "judgements",
        "SmallModelReflector": "small_models",
        "SmallModelSkillManager": "small_models",
        "agent_for": "small_models",
        "judgement_finder_for": "small_models",
        "reflector_for": "small_models",
        "skill_manager_for": "small_models",
    },
)
