"""The report on a test of a skillbook: the result of each case, a verdict on each skill, and output for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ace._internal.arguments import checked_arguments
from ace.evaluation.call_costs import Spent

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from ace.skill import SkillCase

__all__ = ["CaseTest", "SkillTestReport", "SkillVerdict", "Verdict", "junit_xml"]

Verdict = Literal["proven", "interfered", "failing", "unneeded", "unproven"]
"""The verdict on a skill; see `SkillVerdict.verdict`."""

_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTest:
    """The result of one case.

    Example:
        >>> from ace.skill import CaseCheck, SkillCase
        >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
        >>> CaseTest(case=case, skill_ids=("maths-00001",), result="passed", answer="4").is_wrong
        False
    """

    case: SkillCase
    """The case, as it was before the test."""
    skill_ids: tuple[str, ...]
    """The skills that it proves."""
    result: Literal["passed", "failed", "not_run"]
    """Whether the answer passed the check, with the skills of the book; `not_run` without a judged answer."""
    answer: str = ""
    """The answer; may be empty."""
    shown: tuple[str, ...] = ()
    """The ids of the skills that the agent was shown."""
    reason: str = ""
    """Why it failed or was not run; empty if it passed."""
    is_error: bool = False
    """Whether it was not run because of an error, such as a model that could not be reached."""
    is_kept: bool = False
    """Whether the answer is from a file, so that no model was asked."""
    alone: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether it passes with only one skill, by the id of the skill; None if that could not be judged."""
    without: bool | None = None
    """Whether it passes without any skill; None if that was not asked or could not be judged."""
    answer_without: str = ""
    """The answer without any skill; empty if that was not asked."""
    seconds: float = 0.0
    """The time of the answer with the book, in seconds."""

    @property
    def is_wrong(self) -> bool:
        """Whether the answer was wrong, or the question could not be asked because of an error."""
        return self.result == "failed" or self.is_error

    @property
    def expected(self) -> str:
        """The correct answer, else what the check looks for."""
        return self.case.expected or " ".join(self.case.check.value.splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "id": self.case.id,
            "skills": list(self.skill_ids),
            "question": self.case.question,
            "expected": self.expected,
            "check": self.case.check.to_dict(),
            "result": self.result,
            "answer": self.answer,
            "shown": list(self.shown),
            "reason": self.reason,
            "is_error": self.is_error,
            "is_kept": self.is_kept,
            "alone": dict(self.alone),
            "without": self.without,
            "answer_without": self.answer_without,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillVerdict:
    """The verdict of the cases of a skill."""

    skill_id: str
    """The skill."""
    section: str
    """Its section."""
    content: str
    """Its text."""
    verdict: Verdict
    """`proven`: its cases pass with the book and, if that was asked, with the skill alone. `interfered`: they pass with
    the skill alone and fail with the book. `failing`: one fails. `unneeded`: they pass without the skill. `unproven`:
    it has no case, or one that was not run."""
    cases: tuple[str, ...] = ()
    """The ids of its cases."""
    interfering: tuple[str, ...] = ()
    """The other skills without which a failing case passes."""
    reason: str = ""
    """An explanation of the verdict."""

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {**asdict(self), "cases": list(self.cases), "interfering": list(self.interfering)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTestReport:
    """The report on a test of a skillbook."""

    cases: tuple[CaseTest, ...]
    """The cases that were tested, in the order of their skills."""
    skills: tuple[SkillVerdict, ...]
    """The skills that were tested, in the order of the book."""
    model: str = ""
    """The model that answered."""
    spent: Spent = field(default_factory=Spent)
    """What the model calls cost."""
    stopped_by: str = ""
    """What stopped the test before all cases were run: the reason of the token, `max_cost`, `authentication` or
    `server_failures`; empty if nothing did."""
    is_noted: bool = False
    """Whether results were written into the book."""

    @property
    def passed(self) -> Sequence[CaseTest]:
        """The cases that passed."""
        return [case for case in self.cases if case.result == "passed"]

    @property
    def failed(self) -> Sequence[CaseTest]:
        """The cases that failed."""
        return [case for case in self.cases if case.result == "failed"]

    @property
    def not_run(self) -> Sequence[CaseTest]:
        """The cases without a judged answer."""
        return [case for case in self.cases if case.result == "not_run"]

    @property
    def share(self) -> float | None:
        """The share of the cases that passed, from 0 to 1; None without cases.

        A case that could not be asked because of an error counts as not passed. One that cannot be judged here does not
        count.
        """
        counted = len(self.passed) + sum(case.is_wrong for case in self.cases)
        return len(self.passed) / counted if counted else None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "model": self.model,
            "passed": len(self.passed),
            "failed": len(self.failed),
            "not_run": len(self.not_run),
            "share": self.share,
            "stopped_by": self.stopped_by,
            "is_noted": self.is_noted,
            "spent": asdict(self.spent),
            "cases": [case.to_dict() for case in self.cases],
            "skills": [skill.to_dict() for skill in self.skills],
        }


@checked_arguments()
def junit_xml(report: SkillTestReport, name: str = "skillbook") -> str:
    """Return a report in the XML format of JUnit, which CI services show.

    Each case is a test case: its class is the skill that it proves, its name the id and the question.

    Args:
        name: The name of the suite, such as the file of the skillbook.

    Example:
        >>> print(junit_xml(SkillTestReport(cases=(), skills=())))
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuite name="skillbook" tests="0" failures="0" errors="0" skipped="0" time="0.000" />
        <BLANKLINE>
    """
    from xml.etree import ElementTree

    errors = sum(case.is_error for case in report.cases)
    counts = {
        "tests": len(report.cases),
        "failures": len(report.failed),
        "errors": errors,
        "skipped": len(report.not_run) - errors,
        "time": f"{sum(case.seconds for case in report.cases):.3f}",
    }
    suite = ElementTree.Element("testsuite", {"name": _for_xml(name)})
    for key, value in counts.items():
        suite.set(key, str(value))
    for case in report.cases:
        suite.append(_junit_case(case))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _junit_case(test: CaseTest) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    question = " ".join(test.case.question.split())
    about = {
        "classname": _for_xml(", ".join(test.skill_ids)),
        "name": _for_xml(f"{test.case.id}: {question}"),
        "time": f"{test.seconds:.3f}",
    }
    found = Element("testcase", about)
    if test.result == "failed":
        said = f"answered {test.answer!r}, expected {test.expected!r}"
        SubElement(found, "failure", message=_for_xml(said)).text = _for_xml(_in_words(test))
    elif test.is_error:
        SubElement(found, "error", message=_for_xml(test.reason)).text = _for_xml(_in_words(test))
    elif test.result == "not_run":
        SubElement(found, "skipped", message=_for_xml(test.reason))
    else:
        SubElement(found, "system-out").text = _for_xml(_in_words(test))
    return found


def _in_words(test: CaseTest) -> str:
    lines = {
        "Skill": ", ".join(test.skill_ids),
        "Question": test.case.question,
        "Answer": test.answer,
        "Expected": test.expected,
        "Why": test.reason,
        "Shown": ", ".join(test.shown),
    }
    return "\n".join(f"{name}: {text}" for name, text in lines.items() if text)


def _for_xml(text: str) -> str:
    """Return the text with the characters that XML cannot hold, even escaped, replaced."""
    return _NOT_IN_XML.sub("\ufffd", text)
