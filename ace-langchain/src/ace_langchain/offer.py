"""Hands the skills of a run to a middleware that the agent brings along, and chooses those of one agent."""

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
    """Return the skills of a book as text for an agent.

    Those in a section such as `agent:researcher` are for the agent `researcher` only; all others are for every agent.

    Args:
        skillbook: The book.
        agent: The name of the agent; empty for one without a name.
        budget_tokens: Their maximum size, in tokens; None takes all of them.
        is_only_own: Whether to take only what is for this agent alone.

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
    """The skills of one run, and whether a middleware took them.

    Args:
        text_for: Returns the skills as text for the agent of this name.
    """

    def __init__(self, text_for: Callable[[str], str]) -> None:
        self._text_for = text_for
        self.is_taken = False

    def take(self, agent: str) -> str:
        """Return the skills, and remember that they were taken.

        Args:
            agent: The name of the agent that takes them.
        """
        self.is_taken = True
        return self._text_for(agent)


_offer: ContextVar[SkillOffer | None] = ContextVar("ace_langchain_offer", default=None)


@contextmanager
def offering(text_for: Callable[[str], str]) -> Iterator[SkillOffer]:
    """Offer skills to the middleware of whatever runs inside the `with` block.

    Args:
        text_for: Returns the skills as text for the agent of this name.

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
    """Take the skills that are offered; None if there is no offer.

    Args:
        agent: The name of the agent that takes them.
    """
    offer = _offer.get()
    return None if offer is None else offer.take(agent)
