"""The resources `ace://skillbook/...` and `ace://skill/...` as Markdown, and the prompt `use_skills`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace import SkillbookView
from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS
from ace_mcp.errors import ErrorCode, MCPToolError
from ace_mcp.tools import matching

if TYPE_CHECKING:
    from ace import Skill, Skillbook
    from ace.skillbook import BlameEntry

__all__ = ["skill_page", "skillbook_page", "skills_prompt"]

_MOST_SKILLS = 20
"""The maximum number of skills in the prompt."""


def skillbook_page(book: Skillbook) -> str:
    """Return a skillbook as Markdown.

    Args:
        book: The skillbook.

    Example:
        >>> from ace import Skillbook
        >>> skillbook_page(Skillbook())
        '# Skillbook\\n\\nNothing was learned yet.\\n'
    """
    return f"# Skillbook\n\n{book.as_markdown().strip() or 'Nothing was learned yet.'}\n"


def skill_page(book: Skillbook, skill_id: str) -> str:
    """Return a skill and its history as Markdown.

    Args:
        book: The skillbook.
        skill_id: The id of the skill.

    Raises:
        MCPToolError: The skillbook has no such skill.
    """
    skill = book.get_skill(skill_id)
    if skill is None:
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR, f"no skill {skill_id!r}; ace.skillbook.get lists the ids", skill_id=skill_id
        )
    sources = [f"- {each.trace_id}: {each.sample_question}" for each in skill.sources] or ["- unknown"]
    history = [_history_line(entry) for entry in book.blame(skill_id)] if book.store is not None else []
    lines = [*_head(skill), "", "## Sources", "", *sources, "", "## History", "", *(history or ["- not recorded"])]
    return "\n".join([*lines, ""])


def _head(skill: Skill) -> list[str]:
    counters = f"helpful {skill.helpful}, harmful {skill.harmful}, neutral {skill.neutral}"
    return [f"# {skill.id}", "", skill.content, "", f"Section {skill.section}, {skill.status}; {counters}."]


def _history_line(entry: BlameEntry) -> str:
    by = f" by {entry.author}" if entry.author else ""
    return f"- version {entry.version}, {entry.at}{by}: {type(entry.event).__name__.lower()}"


def skills_prompt(book: Skillbook, question: str) -> str:
    """Return a question with the skills that match it, for the client's own model.

    Args:
        book: The skillbook.
        question: The question or task.
    """
    found = matching(question, SkillbookView(book).skills(), _MOST_SKILLS)
    if not found:
        return question
    skills = "\n".join(f"- [{each.id}] {each.content}" for each in found)
    return f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}\n\n{question}"
