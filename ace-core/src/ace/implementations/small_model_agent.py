"""`SmallModelAgent`: an agent for models of one or two billion parameters, which few words help more than many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ace.arguments import checked_class
from ace.cases import worked_example
from ace.implementations.agent import Agent, today
from ace.implementations.prompts import SMALL_MODEL_AGENT_PROMPT
from ace.outputs import AgentOutput
from ace.outputs.lenient_fields import Text
from ace.protocols.llm import AnyLLMClient
from ace.protocols.skillbook import SkillbookReader
from ace.retrieval import LexicalRanker
from ace.skill import Skill
from ace.skillbook.selection import estimate_tokens

__all__ = ["SmallModelAgent"]

_MOST_SHOWN: Final = 3
_MOST_TOKENS: Final = 300
"""What the skills may take, by a careful estimate, before worked examples are omitted."""
_LONGEST_QUERY: Final = 2000
_NUMBER: Final = re.compile(r"(?<![\w.:/-])[-+]?[$€£]?\d[\d,]*(?:\.\d+)?%?(?![\w:/-])")
_NUMBERS_TO_CALCULATE_WITH: Final = 3
"""A date, a time or a place with its floor holds two; one can seldom calculate with fewer than three."""
_RELATIVE_TIME: Final = re.compile(
    r"\b(today|tonight|tomorrow|yesterday|now|current(ly)?|date|ago|(this|next|last) (day|week|month|quarter|year))\b",
    re.IGNORECASE,
)


class _AnswerOnly(AgentOutput):
    """An answer alone: reasoning first costs such a model five times the tokens and every fifth correct answer.

    The schema bounds the length, as a small model may go round in circles; a longer answer of a server that knows no
    schema is taken as well, and so is reasoning that it gives unasked.
    """

    reasoning: SkipJsonSchema[Text] = ""
    final_answer: Text = Field(
        description="The result itself, as short as the task allows.",
        json_schema_extra={"minLength": 1, "maxLength": 600},
    )


class _CalculatedAnswer(_AnswerOnly):
    """An answer after its calculation, for questions with many numbers: such a model cannot calculate in its head."""

    reasoning: Text = Field(
        description="The calculation with its numbers, without words, such as (9 - 3) / 2 = 3; empty if there is none.",
        json_schema_extra={"maxLength": 400},
    )


@checked_class
class SmallModelAgent(Agent):
    """Answers questions with a small model.

    The model sees the three skills that fit the question best, each with the worked example of its first case where
    there is room for it (some 225 tokens for all of them), and no ids, which it would copy into its answers:
    `shown_skills` tells which skills it sees. It is asked for the answer alone; where the question holds three numbers
    or more, for the calculation before it. A section of the template for which there is nothing is omitted, and so is
    the date where neither question nor context speaks of time.

    Args:
        llm: A client.
        prompt_template: A template as for `Agent`.
        max_retries: How often to ask again when an answer cannot be used.

    Raises:
        ValueError: The template has an unknown placeholder or lacks question.
    """

    answer_type = _AnswerOnly

    def __init__(
        self, llm: AnyLLMClient, prompt_template: str = SMALL_MODEL_AGENT_PROMPT, *, max_retries: int = 3
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries)
        self._ranker = LexicalRanker()

    def shown_skills(self, question: str, skillbook: SkillbookReader) -> Sequence[Skill]:
        """Return the skills that the model gets to see with a question, the best first.

        They are at most three, chosen by their words and those of the questions of their cases.

        Args:
            question: The question or task.
            skillbook: The skills to choose from.

        Example:
            >>> from ace.providers.local import LocalLLMClient
            >>> from ace.skillbook import Skillbook
            >>> book = Skillbook()
            >>> for rule in ("Give tide times as 14h30.", "Write to Ms Brand.", "Divide metres by 1000.", "Sort."):
            ...     skill = book.add_skill("club", rule)
            >>> [skill.content for skill in SmallModelAgent(LocalLLMClient()).shown_skills("How many metres?", book)]
            ['Divide metres by 1000.']
        """
        query, skills = question[:_LONGEST_QUERY], skillbook.skills()
        best = self._ranker.best(query, skills, _MOST_SHOWN)
        relevant = {skill.id for skill, score in zip(skills, self._ranker(query, skills), strict=True) if score > 0}
        return [skill for skill in best if skill.id in relevant]

    def _answer_type(self, question: str) -> type[AgentOutput]:
        calculates = len(_NUMBER.findall(question)) >= _NUMBERS_TO_CALCULATE_WITH
        return _CalculatedAnswer if calculates and self.answer_type is _AnswerOnly else self.answer_type

    def _prompt(self, question: str, context: str, skillbook: SkillbookReader, reflection: str) -> str:
        speaks_of_time = _RELATIVE_TIME.search(question) or _RELATIVE_TIME.search(context)
        return self._template.fill_needed(
            {
                "question": question,
                "context": context,
                "skillbook": _as_lines(self.shown_skills(question, skillbook)),
                "reflection": reflection,
                "current_date": today() if speaks_of_time else "",
            }
        )


def _as_lines(skills: Sequence[Skill]) -> str:
    """Return what the model sees of the skills, one to a line, with as many worked examples as there is room for."""
    left = _MOST_TOKENS - sum(estimate_tokens(skill.content) for skill in skills)
    lines: list[str] = []
    for skill in skills:
        example = _example_of(skill)
        left -= estimate_tokens(example)
        lines.append(f"- {skill.content} {example}" if example and left >= 0 else f"- {skill.content}")
    return "\n".join(lines)


def _example_of(skill: Skill) -> str:
    """Return the worked example of the first case; empty if there is none, or the text of the skill has it already."""
    if not skill.cases or skill.cases[0].question in skill.content:
        return ""
    example = worked_example(skill.cases[0])
    return "" if example in skill.content else example
