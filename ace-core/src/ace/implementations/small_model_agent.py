"""`SmallModelAgent`: an agent for models of one or two billion parameters, which few words help more than many."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ace.arguments import checked_class
from ace.cases import worked_example
from ace.cases.values import number_in
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
_QUANTITY: Final = re.compile(r"(?<![\w.:/-])([$€£]?)(\d[\d,]*(?:\.\d+)?)(?:\s?([%€])|\s+([^\W\d_]+))?(?![\w:/-])")
_CURRENCIES: Final = {"$": "dollar", "€": "euro", "£": "pound"}
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

        They are at most three, chosen by their words and those of the questions of their cases. Of two skills that hold
        on different sides of a number, such as "Up to 75 euros Ann signs." and "Above 75 euros Ben signs.", it is the
        one whose case is on the side of the question.

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
        best = self._ranker.best(query, skills, len(skills))
        relevant = {skill.id for skill, score in zip(skills, self._ranker(query, skills), strict=True) if score > 0}
        return _without_other_sides(query, [skill for skill in best if skill.id in relevant])[:_MOST_SHOWN]

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


class _Quantity(NamedTuple):
    """A number of a text and the word after it, which is its unit where it has one."""

    value: Decimal
    unit: str


def _quantities(text: str) -> list[_Quantity]:
    found = []
    for sign, digits, mark, word in _QUANTITY.findall(text):
        value = number_in(digits.rstrip(","))
        if value is not None:
            unit = sign or mark or word.lower().rstrip("s")
            found.append(_Quantity(value, _CURRENCIES.get(unit, unit)))
    return found


def _without_other_sides(question: str, skills: Sequence[Skill]) -> list[Skill]:
    """Return the skills without those whose number separates them from the question, where another skill fits.

    Two skills with the same threshold are equally similar to a question, and a small model compares numbers badly: it
    follows either. No word such as "above" is read here: a case is on the side of its threshold where its skill holds.
    """
    sides = {skill.id: _sides_of(skill, question) for skill in skills}
    fitting = {threshold for same in sides.values() for threshold, is_same in same.items() if is_same}
    return [
        skill
        for skill in skills
        if not any(threshold in fitting and not is_same for threshold, is_same in sides[skill.id].items())
    ]


def _sides_of(skill: Skill, question: str) -> Mapping[Decimal, bool]:
    """Return for each number of a skill that may be a threshold whether question and cases are on the same side."""
    asked = _quantities(question)
    sides: dict[Decimal, bool] = {}
    if not asked:
        return sides
    unclear: set[Decimal] = set()
    for case in skill.cases:
        answers = {quantity.value for quantity in _quantities(case.expected)}
        for threshold in _quantities(skill.content.replace(worked_example(case), "")):
            if threshold.value in answers:
                continue
            is_same = _is_same_side(threshold, _quantities(case.question), asked)
            if is_same is None:
                continue
            if sides.setdefault(threshold.value, is_same) != is_same:
                unclear.add(threshold.value)  # the skill has cases on both sides
    return {value: is_same for value, is_same in sides.items() if value not in unclear}


def _is_same_side(threshold: _Quantity, known: Sequence[_Quantity], asked: Sequence[_Quantity]) -> bool | None:
    """Tell whether the numbers of two questions are on the same side of a threshold; None if that is not clear."""
    measured = [quantity for quantity in known if quantity.unit and quantity.unit == threshold.unit]
    if measured:
        compared = [quantity for quantity in asked if quantity.unit == threshold.unit]
    else:  # such as mugs and notebooks, of which a rule says "from 50 pieces on"
        measured, compared = list(known), list(asked)
    if len(measured) != 1 or len(compared) != 1 or threshold.value in (measured[0].value, compared[0].value):
        return None
    return (measured[0].value < threshold.value) == (compared[0].value < threshold.value)


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
