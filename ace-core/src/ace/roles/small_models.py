"""Roles for models with one or two billion parameters, and the choice of roles for a client.

Such models answer short prompts better than long ones: the agent's prompt is short, the reflector asks for one rule per
correction, and the skill manager does not call the model.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ace._internal.arguments import checked_arguments, checked_class
from ace.calls.calling import Calling
from ace.calls.model_calls import redactor_for
from ace.cases import cases_of, judged_trace, missing_values, worked_example
from ace.cases.values import number_in
from ace.logs.trace import StandardTrace, read_trace
from ace.outputs import (
    AgentOutput,
    ExtractedLearning,
    Judgement,
    LenientOutput,
    Raw,
    ReflectorOutput,
    SkillManagerOutput,
    Text,
)
from ace.protocols.llm import AnyLLMClient
from ace.protocols.roles import SkillbookReader
from ace.retrieval import LexicalRanker, MeaningRanker, words
from ace.roles.agent import Agent, today
from ace.roles.judgements import JudgementFinder, SmallModelJudgementFinder
from ace.roles.prompts import (
    SKILL_MANAGER_PROMPT,
    SMALL_MODEL_AGENT_PROMPT,
    SMALL_MODEL_CALL_PROMPT,
    SMALL_MODEL_REFLECTOR_PROMPT,
    Fence,
    PromptTemplate,
    first_repeated,
    format_optional,
    make_skillbook_excerpt,
    word_runs,
)
from ace.roles.reflector import Execution, Reflector
from ace.roles.rendering import cut_middle, fit
from ace.roles.role_answers import usable_answer
from ace.roles.skill_manager import SkillManager
from ace.skill import CaseCheck, Skill, SkillCase, normalised_text
from ace.skillbook.selection import estimate_tokens
from ace.updates import UpdateBatch, UpdateOperation

__all__ = [
    "Lesson",
    "SmallModelAgent",
    "SmallModelReflector",
    "SmallModelSkillManager",
    "agent_for",
    "judgement_finder_for",
    "reflector_for",
    "skill_manager_for",
]

logger = logging.getLogger(__name__)


@checked_arguments()
def agent_for(client: AnyLLMClient, prompt_template: str | None = None) -> Agent:
    """Return an agent that suits a client.

    Args:
        client: The client of the model; its attribute `is_small_model`, if any, selects the roles.
        prompt_template: Its prompt template; None for that of the role.

    Raises:
        ValueError: The role cannot use the template.
    """
    role = SmallModelAgent if is_small(client) else Agent
    return role(client) if prompt_template is None else role(client, prompt_template)


@checked_arguments()
def reflector_for(
    client: AnyLLMClient, prompt_template: str | None = None, *, max_trace_tokens: int | None = None
) -> Reflector:
    """Return a reflector that suits a client.

    Args:
        client: The client of the model; its attribute `is_small_model`, if any, selects the roles.
        prompt_template: Its prompt template; None for that of the role.
        max_trace_tokens: The maximum size of the record of an execution, in tokens; None for that of the role.

    Raises:
        ValueError: The role cannot use the template.
    """
    role = SmallModelReflector if is_small(client) else Reflector
    if prompt_template is None:
        return role(client, max_trace_tokens=max_trace_tokens)
    return role(client, prompt_template, max_trace_tokens=max_trace_tokens)


@checked_arguments()
def skill_manager_for(client: AnyLLMClient, prompt_template: str | None = None) -> SkillManager:
    """Return a skill manager that suits a client.

    Args:
        client: The client of the model; its attribute `is_small_model`, if any, selects the roles.
        prompt_template: Its prompt template; None for that of the role.

    Raises:
        ValueError: The role cannot use the template.
    """
    role = SmallModelSkillManager if is_small(client) else SkillManager
    return role(client) if prompt_template is None else role(client, prompt_template)


@checked_arguments()
def judgement_finder_for(client: AnyLLMClient) -> JudgementFinder:
    """Return a finder of judgements that suits a client.

    Args:
        client: The client of the model; its attribute `is_small_model`, if any, selects the finder.
    """
    return SmallModelJudgementFinder(client) if is_small(client) else JudgementFinder(client)


def is_small(client: object) -> bool:
    """Return whether the model of a client has only one or two billion parameters.

    Args:
        client: The client of the model, which may have an attribute `is_small_model`.
    """
    return getattr(client, "is_small_model", False) is True


_MOST_SHOWN: Final = 3
_MOST_COMPARED: Final = 30
"""Among so many of the skills that fit best, those for the other side of a threshold are removed."""
_MOST_SKILL_TOKENS: Final = 210
"""The estimated tokens of the skills and their worked examples: 300 for all that is not the question or its context,
less some 90 for the instructions and the description of the answer."""
_LONGEST_QUERY: Final = 2000
_NUMBER: Final = re.compile(r"(?<![\w.:/-])[-+]?[$€£]?\d[\d,]*(?:\.\d+)?%?(?![\w:/-])")
_NUMBERS_TO_CALCULATE_WITH: Final = 3
"""A date, a time or a floor and room number has two numbers; most calculations need at least three."""
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

    The model sees the three skills that fit the question best, with the worked examples of their first cases, as far as
    all of them take an estimated 210 tokens at most: first the skills, then the examples. The best skill is always
    shown. Ids are omitted, because the model would copy them into its answers; `shown_skills` returns the skills that
    it sees. The model is only asked for the answer or, if the question contains three or more numbers, for the
    calculation and the answer. Empty sections of the template are omitted, and so is the date if neither question nor
    context is about time.

    Args:
        llm: The client of the model.
        prompt_template: A template as for `Agent`.
        max_retries: How often the model is asked again if an answer is not usable.

    Raises:
        ValueError: The template has an unknown placeholder, or does not have `question`.
    """

    answer_type = _AnswerOnly

    def __init__(
        self, llm: AnyLLMClient, prompt_template: str = SMALL_MODEL_AGENT_PROMPT, *, max_retries: int = 3
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries)
        self._ranker = MeaningRanker()

    def shown_skills(self, question: str, skillbook: SkillbookReader) -> Sequence[Skill]:
        """Return the skills that the model sees with a question, most relevant first.

        At most three are selected, by the meaning of their text and of the questions of their cases, and none if none
        fits; the second and the third only if there is room for them. Of two skills that apply on different sides of a
        threshold, such as "Up to 75 euros Ann signs." and "Above 75 euros Ben signs.", the one whose case is on the
        same side as the question is selected.

        Args:
            question: The question or task.
            skillbook: The skills to select from.

        Example:
            >>> from ace.providers.local import LocalLLMClient
            >>> from ace.skillbook import Skillbook
            >>> book = Skillbook()
            >>> for rule in ("Give tide times as 14h30.", "Write to Ms Brand.", "Divide metres by 1000.", "Sort."):
            ...     skill = book.add_skill("club", rule)
            >>> [skill.content for skill in SmallModelAgent(LocalLLMClient()).shown_skills("How many metres?", book)]
            ['Divide metres by 1000.']
        """
        query = question[:_LONGEST_QUERY]
        best = self._ranker.best(query, skillbook.skills(), _MOST_COMPARED)
        return _fitting(_without_other_sides(query, best)[:_MOST_SHOWN])

    def _answer_type(self, question: str) -> type[AgentOutput]:
        calculates = len(_NUMBER.findall(question)) >= _NUMBERS_TO_CALCULATE_WITH
        return _CalculatedAnswer if calculates and self.answer_type is _AnswerOnly else self.answer_type

    def _prompt(
        self, question: str, context: str, skillbook: SkillbookReader, reflection: str, recent: Sequence[str] | None
    ) -> str:
        # Recent reflections are not shown: they would take more than the whole prompt may.
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
    """A number in a text and the word after it, which is its unit if it has one."""

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
    """Remove the skills that apply on the other side of a threshold than the question, if another skill fits.

    Two skills with the same threshold are equally similar to a question, and a small model, which compares numbers
    badly, may follow either. Words such as "above" are not interpreted: a skill applies on the side of its cases.
    """
    sides = {skill.id: _sides_of(skill, question) for skill in skills}
    fitting = {threshold for same in sides.values() for threshold, is_same in same.items() if is_same}
    return [
        skill
        for skill in skills
        if not any(threshold in fitting and not is_same for threshold, is_same in sides[skill.id].items())
    ]


def _sides_of(skill: Skill, question: str) -> Mapping[Decimal, bool]:
    """Return, for each possible threshold in a skill, whether question and cases are on the same side of it."""
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
    """Return whether the numbers of two questions are on the same side of a threshold; None if that is ambiguous."""
    measured = [quantity for quantity in known if quantity.unit and quantity.unit == threshold.unit]
    if measured:
        compared = [quantity for quantity in asked if quantity.unit == threshold.unit]
    else:  # such as mugs and notebooks, to which the rule "from 50 pieces on" applies
        measured, compared = list(known), list(asked)
    if len(measured) != 1 or len(compared) != 1 or threshold.value in (measured[0].value, compared[0].value):
        return None
    return (measured[0].value < threshold.value) == (compared[0].value < threshold.value)


def _fitting(skills: Sequence[Skill]) -> list[Skill]:
    """Return the first skill, and those after it that fit into the prompt with it."""
    shown: list[Skill] = []
    left = _MOST_SKILL_TOKENS
    for skill in skills:
        size = estimate_tokens(_line(skill))
        if not shown or size <= left:
            shown.append(skill)
            left -= size
    return shown


def _as_lines(skills: Sequence[Skill]) -> str:
    """Render the skills for the model, one per line, with as many worked examples as fit."""
    left = _MOST_SKILL_TOKENS - sum(estimate_tokens(_line(skill)) for skill in skills)
    lines: list[str] = []
    for skill in skills:
        line, example = _line(skill), _example_of(skill)
        size = estimate_tokens(f" {example}")
        if example and size <= left:
            left -= size
            line = f"{line} {example}"
        lines.append(line)
    return "\n".join(lines)


def _line(skill: Skill) -> str:
    return f"- {skill.content}"


def _example_of(skill: Skill) -> str:
    """Return the worked example of the first case; empty without a case, or if the skill already contains it."""
    if not skill.cases or skill.cases[0].question in skill.content:
        return ""
    example = worked_example(skill.cases[0])
    return "" if example in skill.content else example


_REPEATED_WORDS = 6
_LONGEST_FIELD = 1200
"""In UTF-8 bytes; a longer text is cut in the middle, because a small model does not find the correction in it."""


class _Record(NamedTuple):
    """The record of a case as shortened texts, each on one line."""

    fields: dict[str, str]
    cut_characters: int

    @property
    def text(self) -> str:
        """The record as lines, without empty ones."""
        return "\n".join(f"{title}: {text}" for title, text in self.fields.items() if text)


@checked_class
class SmallModelReflector(Reflector):
    """Finds out what can be learned from one execution, with a small model.

    A small model is bad at analysis and good at following examples. So `find_judgements` first asks about each reply of
    a person whether it corrects an answer. Each correction is then a separate call, which shows three examples and then
    the record of the correction in the same format of four lines (task, wrong answer, correction, right answer), and
    asks for one rule. So is each failed call of a tool that teaches something, with its task, the call, the error and
    the call that worked. Any other trace costs no call, and nothing is learned from it.

    The proof of a rule decides whether it is kept. Problems that code can detect, such as a value of the correction
    that the rule lacks, are in the reasoning of the reflection and in its `raw["lessons"]`.

    Args:
        llm: The client of the model.
        prompt_template: A template as for `Reflector`. Its `trace` is the record of one correction; `question`,
            `answer`, `feedback` and `ground_truth` are the lines of that record.
        max_retries: How often the model is asked again if an answer is not usable.
        max_trace_tokens: The maximum size of the record of one correction, in tokens; by default about 1,600.
    """

    def __init__(
        self,
        llm: AnyLLMClient,
        prompt_template: str = SMALL_MODEL_REFLECTOR_PROMPT,
        *,
        max_retries: int = 3,
        max_trace_tokens: int | None = None,
    ) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries, max_trace_tokens=max_trace_tokens)
        self._finder = SmallModelJudgementFinder(llm, max_retries=max_retries)

    def find_judgements(self, trace: Mapping[str, Any]) -> list[Judgement]:
        """Return the judgements of a person that the model names, as `SmallModelJudgementFinder` does.

        Args:
            trace: The trace, as `read_trace` returns it.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return self._finder.find_judgements(trace)

    async def afind_judgements(self, trace: Mapping[str, Any]) -> list[Judgement]:
        """Return the judgements of a person that the model names, without blocking the event loop.

        Args:
            trace: The trace, as `read_trace` returns it.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return await self._finder.afind_judgements(trace)

    async def _reflected(self, calling: Calling, execution: Execution, skillbook: SkillbookReader) -> ReflectorOutput:
        # Reading a large trace would block an event loop for too long.
        trace = await calling.function(lambda: _trace_of(execution))
        if execution.cases is None and not trace["corrections"]:  # no step has asked
            named = await calling.method(self, "find_judgements", trace=trace)
            trace = await calling.function(lambda: judged_trace(trace, named, redactor_for(self.llm)))
        found = await calling.function(lambda: _corrected_cases(trace, execution.cases))
        excerpt = make_skillbook_excerpt(skillbook, execution.agent_output.skill_ids)
        lessons = [await self._lesson(calling, case, execution.agent_output.reasoning, excerpt) for case in found]
        return _reflection(lessons)

    async def _lesson(self, calling: Calling, case: SkillCase, reasoning: str, excerpt: str) -> _Lesson:
        if case.check.kind == "call":
            return await self._lesson_of_call(calling, case)
        record = await calling.function(lambda: self._record_of(case))
        values = {
            "question": record.fields["Task"],
            "answer": record.fields["Wrong answer"],
            "feedback": record.fields["Correction"],
            "ground_truth": record.fields["Right answer"],
            "reasoning": reasoning,
            "trace": record.text,
        }
        fence = Fence(values.values())
        fenced = {name: fence.around(text) if text else format_optional(None) for name, text in values.items()}
        prompt = self._template.fill({**fenced, "skillbook_excerpt": format_optional(excerpt)})
        answer = await usable_answer(
            calling, self.llm, prompt, Lesson, lambda answer: None, role="Reflector", max_retries=self.max_retries
        )
        rule = " ".join(answer.rule.split())
        return _Lesson(case, record, rule, self._doubts(rule, case), answer.raw)

    async def _lesson_of_call(self, calling: Calling, case: SkillCase) -> _Lesson:
        """Ask what one must know so that a call that failed works at the first try."""
        record = await calling.function(lambda: self._record_of(case))
        shown = "\n".join(f"{title}: {text}" for title, text in _call_fields(record, case).items() if text)
        prompt = PromptTemplate(SMALL_MODEL_CALL_PROMPT, role="Reflector", known=("trace",), needed=("trace",)).fill(
            {"trace": Fence([shown]).around(shown)}
        )
        answer = await usable_answer(
            calling, self.llm, prompt, Lesson, lambda answer: None, role="Reflector", max_retries=self.max_retries
        )
        rule = " ".join(answer.rule.split())
        return _Lesson(case, record, rule, self._doubts(rule, case), answer.raw)

    def _record_of(self, case: SkillCase) -> _Record:
        redactor = redactor_for(self.llm)
        fields = {
            "Context": case.context,
            "Task": case.question,
            "Wrong answer": case.wrong,
            "Correction": case.correction,
            "Right answer": case.expected,
        }
        # With each text on one line, no part of a text can look like a line of the record or a heading.
        lines = {title: " ".join(redactor.redact(text).split()) for title, text in fields.items()}
        cuts = {title: cut_middle(text, _LONGEST_FIELD) for title, text in lines.items()}
        fitted = fit([text for text, _ in cuts.values()], self._most_bytes())
        texts = (" ".join(text.split()) for text in fitted.texts)
        return _Record(
            dict(zip(lines, texts, strict=True)), sum(cut for _, cut in cuts.values()) + fitted.cut_characters
        )

    def _doubts(self, rule: str, case: SkillCase) -> list[str]:
        """Return the problems of a rule that code can detect. They do not reject it: its proof decides."""
        doubts: list[str] = []
        runs = set(word_runs(self.prompt_template, _REPEATED_WORDS))
        if repeated := first_repeated(rule, runs, _REPEATED_WORDS):
            doubts.append(f"it repeats the question to the reflector: {repeated!r}")
        if rule and (missing := missing_values(rule, case)):
            doubts.append(f"it lacks {', '.join(missing)}")
        return doubts


class _Lesson(NamedTuple):
    """What one correction teaches."""

    case: SkillCase
    record: _Record
    rule: str
    doubts: list[str]
    raw: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the model's answer and its detected problems."""
        return {"case_id": self.case.id, **(self.raw or {"rule": self.rule}), "doubts": self.doubts}

    @property
    def sentence(self) -> str:
        """What went wrong as a sentence, for the reasoning of the reflection."""
        fields = self.record.fields
        said = fields["Correction"] or f"The right answer is {fields['Right answer']}."
        doubts = f" The rule is doubtful: {'; '.join(self.doubts)}." if self.doubts else ""
        if self.case.check.kind == "call":
            return f"The call {fields['Wrong answer']} failed: {said}{doubts}"
        return f"The answer {fields['Wrong answer']!r} was corrected: {said}{doubts}"


def _call_fields(record: _Record, case: SkillCase) -> dict[str, str]:
    """Return the record of a failed call by titles: the call, its error, the one that worked, and what differs."""
    decides = case.check.value.splitlines()[1:] if case.expected else []
    return {
        "Task": record.fields["Task"],
        "Failed call": record.fields["Wrong answer"],
        "Error": record.fields["Correction"],
        "Call that worked": record.fields["Right answer"],
        "Only in the failed call": ", ".join(line[1:] for line in decides if line[:1] == "-"),
        "Only in the call that worked": ", ".join(line[1:] for line in decides if line[:1] == "+"),
    }


def _trace_of(execution: Execution) -> StandardTrace:
    if execution.trace is not None:
        return execution.read or read_trace(execution.trace)
    fields = {"question": execution.question, "answer": execution.agent_output.final_answer}
    return read_trace({**fields, "ground_truth": execution.ground_truth, "feedback": execution.feedback})


def _corrected_cases(trace: StandardTrace, known: Sequence[SkillCase] | None) -> Sequence[SkillCase]:
    """Return the cases with an incorrect answer, and cases without an id for everything else that can be learned from.

    These are the corrections that do not yield a case, and the feedback on an answer that cannot be requested again.
    """
    of_trace = cases_of(trace)
    with_case = {case.question for case in of_trace}
    judged = [
        replace(case, id="")
        for case in (() if of_trace or known else cases_of(trace, can_be_asked_again=True))
        if not trace["corrections"]
    ]
    without = [
        SkillCase(
            "",
            correction["question"],
            CaseCheck("contains", correction["right"]),
            wrong=correction["wrong"],
            correction=correction["correction"],
            expected=correction["right"],
        )
        for correction in trace["corrections"]
        if correction["question"] not in with_case
    ]
    cases = [*(of_trace if known is None else known), *judged, *without]
    return [case for case in cases if case.wrong.strip()]


def _reflection(lessons: Sequence[_Lesson]) -> ReflectorOutput:
    if not lessons:
        return ReflectorOutput(
            reasoning="Nothing in the trace was corrected, so there is nothing to learn.",
            correct_approach="",
            key_insight="",
            raw={"lessons": []},
        )
    for lesson in lessons:
        if lesson.doubts:
            logger.info("A rule is doubtful: %s: %r", "; ".join(lesson.doubts), lesson.rule)
    learnings = [
        ExtractedLearning(
            learning=lesson.rule,
            atomicity_score=1.0,
            evidence=lesson.record.fields["Correction"],
            case_id=lesson.case.id,
        )
        for lesson in lessons
        if lesson.rule
    ]
    rules = [learning.learning for learning in learnings]
    cut = sum(lesson.record.cut_characters for lesson in lessons)
    return ReflectorOutput(
        reasoning="\n".join(lesson.sentence for lesson in lessons),
        error_identification="\n".join(lesson.record.fields["Correction"] for lesson in lessons).strip(),
        correct_approach="\n".join(rules),
        key_insight=rules[0] if rules else "",
        extracted_learnings=learnings,
        raw={"lessons": [lesson.to_dict() for lesson in lessons], **({"cut_characters": cut} if cut else {})},
    )


class Lesson(LenientOutput):
    """What one correction teaches."""

    rule: Text = Field(
        description="The rule, in one or two short sentences that start with When.",
        json_schema_extra={"maxLength": 240},
    )
    """What to do the next time; empty if there is nothing to learn."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""


_LEAST_SHARED: Final = 0.4
"""The share of a rule's names that the most similar skill must contain for the rule to join its section."""
_NO_SECTION: Final = "general"
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_FUNCTION_WORD_LIST: Final = (
    "when whenever where while for from with without about into over under the and but not all any each every always "
    "never use write give ask asks say says name add put take make makes send get gets has have are was were does did "
    "you your our their his her its this that these those who whom whose which what there here then than only also "
    "if must should shall will would can could may might someone somebody something new"
)
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
"""Words that do not name anything."""


@checked_class
class SmallModelSkillManager(SkillManager):
    """Turns a reflection into changes to the skillbook, without calling the model.

    A small model cannot judge whether two rules mean the same or to which section a rule belongs: it calls any two
    rules the same. So each learning becomes a skill unchanged. If the skillbook already contains it, apart from
    punctuation after words and the case of the first letter, it becomes an UPDATE of that skill, which adds the new
    source. The section is that of the most similar skill by words or, if none is similar, a word of the rule.

    For the same reason, `consolidate_skills` never merges skills.

    Args:
        llm: The client of the model; it is not called.
        prompt_template: Validated as for `SkillManager`, but not used.
        max_retries: Not used.
    """

    asks_model = False

    def __init__(self, llm: AnyLLMClient, prompt_template: str = SKILL_MANAGER_PROMPT, *, max_retries: int = 3) -> None:
        super().__init__(llm, prompt_template, max_retries=max_retries)

    async def _update_skills(
        self,
        calling: Calling,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str,
        progress: str,
    ) -> SkillManagerOutput:
        """Return one ADD for each new learning, and one UPDATE for each that a skill already contains."""
        learnings = [learning for learning in reflection.extracted_learnings if learning.learning.strip()]
        # Comparing with all skills of a large skillbook would block an event loop for too long.
        operations = await calling.function(lambda: _operations(learnings, skillbook.skills()))
        return SkillManagerOutput(update=UpdateBatch(reflection.key_insight, operations))

    async def _update_skills_together(
        self,
        calling: Calling,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookReader,
        question_contexts: Sequence[str],
        progress: str,
    ) -> Mapping[int, SkillManagerOutput]:
        """Return the operations of each reflection, for the skillbook as it is."""
        return {
            number: await self._update_skills(calling, reflection, skillbook, "", progress)
            for number, reflection in enumerate(reflections, start=1)
        }

    async def _consolidate_skills(self, calling: Calling, prompt: str) -> Mapping[str, Any]:
        """Leave all similar skills as they are."""
        return {"reasoning": "A small model cannot tell similar rules apart.", "consolidation_operations": []}


def _operations(learnings: Sequence[ExtractedLearning], skills: Sequence[Skill]) -> list[UpdateOperation]:
    said = {normalised_text(skill.content): skill for skill in reversed(skills)}
    sections = _Sections(skills)
    unique = {normalised_text(learning.learning): learning for learning in reversed(learnings)}
    return [_operation(learning, said.get(text), sections) for text, learning in reversed(unique.items())]


def _operation(learning: ExtractedLearning, known: Skill | None, sections: _Sections) -> UpdateOperation:
    text = learning.learning.strip()
    more: dict[str, Any] = {
        "justification": learning.justification or None,
        "evidence": learning.evidence or None,
    }
    if known is not None:
        return UpdateOperation("UPDATE", content=known.content, skill_id=known.id, **more)
    return UpdateOperation("ADD", section=sections.of(text), content=text, **more)


class _Sections:
    """Finds the section of a rule among those of the skills."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = skills
        self._ranker = LexicalRanker()

    def of(self, rule: str) -> str:
        names = _names_in(rule)
        for skill in self._ranker.best(rule, self._skills, 1):
            if len(names & _names_in(skill.content)) >= max(1, _LEAST_SHARED * len(names)):
                return skill.section
        return next((word for word in map(str.lower, _WORD.findall(rule)) if _is_name(word)), _NO_SECTION)


def _names_in(text: str) -> frozenset[str]:
    """Return the words of a text that may name its subject."""
    found = (word for word in map(str.lower, _WORD.findall(text)) if _is_name(word))
    return frozenset(stem for word in found for stem in words(word))


def _is_name(word: str) -> bool:
    return word not in _FUNCTION_WORDS and not word.endswith(("ing", "ed"))
