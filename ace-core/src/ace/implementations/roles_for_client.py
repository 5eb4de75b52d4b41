"""Which roles suit a client: small models get shorter questions."""

from __future__ import annotations

from ace.arguments import checked_arguments
from ace.implementations.agent import Agent
from ace.implementations.reflector import Reflector
from ace.implementations.skill_manager import SkillManager
from ace.implementations.small_model_agent import SmallModelAgent
from ace.implementations.small_model_reflector import SmallModelReflector
from ace.implementations.small_model_skill_manager import SmallModelSkillManager
from ace.protocols.llm import AnyLLMClient

__all__ = ["agent_for", "reflector_for", "skill_manager_for"]


@checked_arguments()
def agent_for(client: AnyLLMClient) -> Agent:
    """Return an agent that suits a client.

    Args:
        client: A client; one that calls a small model says so with an attribute `is_small_model`.
    """
    return SmallModelAgent(client) if _is_small(client) else Agent(client)


@checked_arguments()
def reflector_for(client: AnyLLMClient) -> Reflector:
    """Return a reflector that suits a client.

    Args:
        client: A client; one that calls a small model says so with an attribute `is_small_model`.
    """
    return SmallModelReflector(client) if _is_small(client) else Reflector(client)


@checked_arguments()
def skill_manager_for(client: AnyLLMClient) -> SkillManager:
    """Return a skill manager that suits a client.

    Args:
        client: A client; one that calls a small model says so with an attribute `is_small_model`.
    """
    return SmallModelSkillManager(client) if _is_small(client) else SkillManager(client)


def _is_small(client: AnyLLMClient) -> bool:
    return getattr(client, "is_small_model", False) is True
