"""The roles and their prompts. Modules are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.roles.agent import Agent
    from ace.roles.prompts import SKILLBOOK_USAGE_INSTRUCTIONS
    from ace.roles.reflector import Reflector
    from ace.roles.skill_manager import SkillManager
    from ace.roles.small_models import (
        SmallModelAgent,
        SmallModelReflector,
        SmallModelSkillManager,
        agent_for,
        reflector_for,
        skill_manager_for,
    )

__all__ = [
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "Agent",
    "Reflector",
    "SkillManager",
    "SmallModelAgent",
    "SmallModelReflector",
    "SmallModelSkillManager",
    "agent_for",
    "reflector_for",
    "skill_manager_for",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SKILLBOOK_USAGE_INSTRUCTIONS": "prompts",
        "Agent": "agent",
        "Reflector": "reflector",
        "SkillManager": "skill_manager",
        "SmallModelAgent": "small_models",
        "SmallModelReflector": "small_models",
        "SmallModelSkillManager": "small_models",
        "agent_for": "small_models",
        "reflector_for": "small_models",
        "skill_manager_for": "small_models",
    },
)
