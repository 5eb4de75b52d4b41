"""Passes the skills of a run to the middleware of its agent, and selects those for one agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

from ace import Skillbook
from ace.context import SelectedSkills, SkillbookView
from ace.integrations import wrap_skillbook_for_external_agent
from ace.protocols import SkillbookReader

__all__ = ["SkillOffer", "offered_skills", "offering", "skills_text"]

_AGENT = "agent:"


def skills_text(
    skillbook: SkillbookReader, agent: str = "", budget_tokens: int | None = None, *, is_only_own: bool = False
) -> str:
    """Render the skills for an agent.

    Skills in a section such as `agent:researcher` are only for the agent `researcher`; all others are for every agent.

    Args:
        skillbook: The skillbook to render.
        agent: The name of the agent; empty for an agent without a name.
        budget_tokens: The maximum size of the skills, in tokens; None includes all of them.
        is_only_own: Whether to include only the skills that are for this agent alone.

    Example:
        >>> book = Skillbook()
        >>> _ = book.add_skill("tides", "Ask the harbour master.")
        >>> _ = book.add_skill("agent:researcher", "Read the almanac.")
        >>> ["almanac" in skills_text(book, name) for name in ("", "researcher", "writer")]
        [False, True, False]
    """
    skills = [skill for skill in skillbook.skills() if skill.is_active]
    chosen = [
        skill
        for skill in skills
        if (skill.section == f"{_AGENT}{agent}" if is_only_own or skill.section.startswith(_AGENT) else True)
    ]
    if len(chosen) < len(skills):
        skillbook = SelectedSkills(SkillbookView(Skillbook()), chosen)
    return wrap_skillbook_for_external_agent(skillbook, budget_tokens)


@final
class SkillOffer:
    """The skills of one run, and whether a middleware has used them.

    Args:
        text_for: Returns the skills as text for the agent of a name.
    """

    def __init__(self, text_for: Callable[[str], str]) -> None:
        self._text_for = text_for
        self.is_taken = False

    def take(self, agent: str) -> str:
        """Return the skills for the agent of a name, and remember that they were used."""
        self.is_taken = True
        return self._text_for(agent)


_offer: ContextVar[SkillOffer | None] = ContextVar("ace_langchain_offer", default=None)


@contextmanager
def offering(text_for: Callable[[str], str]) -> Iterator[SkillOffer]:
    """Offer skills to the middleware of agents that run inside the `with` block.

    Args:
        text_for: Returns the skills as text for the agent of a name.

    Example:
        >>> with offering(lambda agent: "[maths-00001] Add.") as offer:
        ...     offered_skills()
        '[maths-00001] Add.'
        >>> offer.is_taken
        True
    """
    offer = SkillOffer(text_for)
    token = _offer.set(offer)
    try:
        yield offer
    finally:
        _offer.reset(token)


def offered_skills(agent: str = "") -> str | None:
    """Return the offered skills for the agent of a name; None outside `offering`."""
    offer = _offer.get()
    return None if offer is None else offer.take(agent)
