"""The roles with their prompts. Nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.implementations.agent import Agent
    from ace.implementations.reflector import Reflector
    from ace.implementations.skill_manager import SkillManager
    from ace.implementations.trace_reading import read_trace

__all__ = ["Agent", "Reflector", "SkillManager", "read_trace"]

_HOMES = {
    "Agent": "agent",
    "Reflector": "reflector",
    "SkillManager": "skill_manager",
    "read_trace": "trace_reading",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
