"""The tools: what each does with a session. The methods block, and are called on threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from mcp.types import ToolAnnotations
from pydantic import BaseModel

from ace_mcp.models import (
    AskInput,
    AskOutput,
    GetSkillbookInput,
    GetSkillbookOutput,
    SkillbookStats,
    SkillOutput,
    SkillSource,
)

if TYPE_CHECKING:
    from ace import Skill, Skillbook
    from ace_mcp.sessions import SessionRegistry

__all__ = ["SkillbookTool", "SkillbookTools"]

_MOST_ANSWERS = 1000
"""How many answers a session remembers for feedback."""


@dataclass(frozen=True, slots=True)
class SkillbookTool:
    """A tool, as clients see it, and the function that carries it out."""

    name: str
    """Its name."""
    title: str
    """Its name for people."""
    description: str
    """What it does."""
    input: type[BaseModel]
    """Its arguments."""
    output: type[BaseModel]
    """Its result."""
    annotations: ToolAnnotations
    """What a client may rely on before it calls the tool."""
    call: Callable[[Any], BaseModel]
    """Carries it out. It takes the arguments, of the type `input`."""
    as_text: Callable[[Any], str]
    """Returns the result, of the type `output`, as text for people."""


@final
class SkillbookTools:
    """What the tools do.

    Args:
        sessions: The sessions.
    """

    def __init__(self, sessions: SessionRegistry) -> None:
        self._sessions = sessions

    def all(self) -> list[SkillbookTool]:
        """Return the tools, in the order in which they are listed."""
        return [
            SkillbookTool(
                "ace.ask",
                "Ask with skills",
                "Answer a question with the skills in the prompt. Give feedback on the answer with "
                "ace.learn.feedback, so that later answers are better.",
                AskInput,
                AskOutput,
                ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=True),
                self.ask,
                _answer_text,
            ),
            SkillbookTool(
                "ace.skillbook.get",
                "Show skills",
                "Return what was learned: the skills, with their counters and sources.",
                GetSkillbookInput,
                GetSkillbookOutput,
                ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
                self.get_skillbook,
                _skillbook_text,
            ),
        ]

    def ask(self, given: AskInput) -> AskOutput:
        """Answer a question.

        Args:
            given: The arguments.
        """
        with self._sessions.using(given.session_id, given.session_config) as session:
            answer = session.learner.ask(given.question, given.context)
            session.answers[answer.id] = answer
            if len(session.answers) > _MOST_ANSWERS:
                session.answers.popitem(last=False)
            return AskOutput(
                session_id=session.id,
                answer_id=answer.id,
                answer=str(answer),
                skill_ids=list(answer.skill_ids),
                skill_count=len(session.learner.skillbook),
            )

    def get_skillbook(self, given: GetSkillbookInput) -> GetSkillbookOutput:
        """Return skills.

        Args:
            given: The arguments.
        """
        with self._sessions.reading(given.session_id) as book:
            skills = _selected(book, given)
            return GetSkillbookOutput(
                session_id=given.session_id, stats=_stats(book), skills=[_skill_output(each) for each in skills]
            )


def _selected(book: Skillbook, given: GetSkillbookInput) -> list[Skill]:
    skills = book.skills(include_invalid=given.include_invalid)
    if given.section is not None:
        skills = [each for each in skills if each.section == given.section]
    return skills[: given.limit]


def _stats(book: Skillbook) -> SkillbookStats:
    stats = book.stats()
    tags = stats["tags"]
    assert isinstance(tags, dict)
    return SkillbookStats(skills=len(book), sections=len(book.section_names()), **tags)


def _skill_output(skill: Skill) -> SkillOutput:
    sources = [SkillSource(trace_id=each.trace_id, question=each.sample_question) for each in skill.sources]
    return SkillOutput(
        id=skill.id,
        content=skill.content,
        section=skill.section,
        status=skill.status,
        helpful=skill.helpful,
        harmful=skill.harmful,
        neutral=skill.neutral,
        sources=sources,
    )


def _answer_text(output: AskOutput) -> str:
    used = f"\n\nSkills used: {', '.join(output.skill_ids)}" if output.skill_ids else ""
    return f"{output.answer}{used}"


def _skillbook_text(output: GetSkillbookOutput) -> str:
    lines = [f"- [{each.id}] {each.content}" for each in output.skills]
    return "\n".join([f"{output.stats.skills} skills", *lines])
