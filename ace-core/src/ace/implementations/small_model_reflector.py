"""`SmallModelReflector`: a reflector for models of one or two billion parameters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ace.arguments import checked_class
from ace.cases import cases_of, missing_values
from ace.implementations.asking import usable_answer
from ace.implementations.fence import Fence
from ace.implementations.helpers import format_optional, make_skillbook_excerpt
from ace.implementations.prompts import SMALL_MODEL_REFLECTOR_PROMPT
from ace.implementations.reflector import Execution, Reflector
from ace.implementations.repeated_words import first_repeated, word_runs
from ace.implementations.small_model_outputs import Lesson
from ace.implementations.trace_reading import StandardTrace, read_trace
from ace.implementations.trace_reading.fitting import cut_middle, fit
from ace.outputs import ExtractedLearning, ReflectorOutput
from ace.protocols.calling import Calling
from ace.protocols.llm import AnyLLMClient
from ace.protocols.redaction import redactor_for
from ace.protocols.skillbook import SkillbookReader
from ace.skill import CaseCheck, SkillCase

__all__ = ["SmallModelReflector"]

logger = logging.getLogger(__name__)

_REPEATED_WORDS = 6
_LONGEST_FIELD = 1200
"""In UTF-8 bytes. A model of this size loses the correction in a longer record; what is longer is cut in the middle."""


class _Record(NamedTuple):
    """The record of a case as texts that fit, each on one line."""

    fields: dict[str, str]
    cut_characters: int

    @property
    def text(self) -> str:
        """The record as lines, without those that would be empty."""
        return "\n".join(f"{title}: {text}" for title, text in self.fields.items() if text)


@checked_class
class SmallModelReflector(Reflector):
    """Finds out what can be learned from one execution, with a small model.

    A small model analyses badly and follows examples well. So each correction in the trace is a call of its own: it is
    shown as a record of four lines (task, wrong answer, correction, right answer), after three examples of the same
    form, and one rule is asked for. A trace in which nothing was corrected costs no call and teaches nothing.

    Whether a rule is any good is for its proof to say. What code can find out about it, such as a value of the
    correction that it lacks, is in the reasoning of the reflection, and in its `raw["lessons"]`.

    Args:
        llm: A client.
        prompt_template: A template as for `Reflector`: its trace is the record of one correction; its question,
            answer, feedback and ground_truth are the lines of that record.
        max_retries: How often to ask again when an answer cannot be used.
        max_trace_tokens: The most tokens that the record of one correction may take; by default some 1,600.
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

    async def _reflected(self, calling: Calling, told: Execution, skillbook: SkillbookReader) -> ReflectorOutput:
        # Reading a large trace takes long enough to hold up an event loop.
        found = await calling.function(lambda: _corrected_cases(_trace_of(told), told.cases))
        excerpt = make_skillbook_excerpt(skillbook, told.agent_output.skill_ids)
        lessons = [await self._lesson(calling, case, told.agent_output.reasoning, excerpt) for case in found]
        return _reflection(lessons)

    async def _lesson(self, calling: Calling, case: SkillCase, reasoning: str, excerpt: str) -> _Lesson:
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

    def _record_of(self, case: SkillCase) -> _Record:
        redactor = redactor_for(self.llm)
        given = {
            "Context": case.context,
            "Task": case.question,
            "Wrong answer": case.wrong,
            "Correction": case.correction,
            "Right answer": case.expected,
        }
        # On one line each, no text can begin a line of the record, or a heading, by itself.
        lines = {title: " ".join(redactor.redact(text).split()) for title, text in given.items()}
        cuts = {title: cut_middle(text, _LONGEST_FIELD) for title, text in lines.items()}
        fitted = fit([text for text, _ in cuts.values()], self._most_bytes())
        texts = (" ".join(text.split()) for text in fitted.texts)
        return _Record(
            dict(zip(lines, texts, strict=True)), sum(cut for _, cut in cuts.values()) + fitted.cut_characters
        )

    def _doubts(self, rule: str, case: SkillCase) -> list[str]:
        """Return what code can say against a rule. It is kept all the same: its proof decides."""
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
        """Return what the model said and what is doubtful about it."""
        return {"case_id": self.case.id, **(self.raw or {"rule": self.rule}), "doubts": self.doubts}

    @property
    def sentence(self) -> str:
        """What happened, for the reasoning of the reflection."""
        fields = self.record.fields
        said = fields["Correction"] or f"The right answer is {fields['Right answer']}."
        doubts = f" The rule is doubtful: {'; '.join(self.doubts)}." if self.doubts else ""
        return f"The answer {fields['Wrong answer']!r} was corrected: {said}{doubts}"


def _trace_of(told: Execution) -> StandardTrace:
    if told.trace is not None:
        return read_trace(told.trace)
    given = {"question": told.question, "answer": told.agent_output.final_answer}
    return read_trace({**given, "ground_truth": told.ground_truth, "feedback": told.feedback})


def _corrected_cases(trace: StandardTrace, given: Sequence[SkillCase] | None) -> Sequence[SkillCase]:
    """Return the cases whose answer was incorrect, and one without an id for all else that teaches something.

    That is each correction that yields no case, and the judgement of an answer that cannot be asked for again.
    """
    of_trace = cases_of(trace)
    with_case = {case.question for case in of_trace}
    judged = [
        replace(case, id="")
        for case in (() if of_trace or given else cases_of(trace, can_be_asked_again=True))
        if not trace["corrections"]
    ]
    without = [
        SkillCase(
            "",
            each["question"],
            CaseCheck("contains", each["right"]),
            wrong=each["wrong"],
            correction=each["correction"],
            expected=each["right"],
        )
        for each in trace["corrections"]
        if each["question"] not in with_case
    ]
    cases = [*(of_trace if given is None else given), *judged, *without]
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
