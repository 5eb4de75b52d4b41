"""The contents of a report, and its text formats: JSON and Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

from ace._internal.arguments import checked_arguments
from ace.evaluation.call_costs import Spent
from ace.evaluation.comparison import Comparison
from ace.evaluation.effects import LeftOut, SkillEffect
from ace.evaluation.evaluation import Evaluation, JudgedAnswer
from ace.evaluation.statistics import Interval
from ace.evaluation.validation_schedule import ValidationPoint

__all__ = [
    "EvaluationReport",
    "json_report",
    "markdown_report",
    "measure_rows",
    "percent_text",
    "range_text",
    "writable",
]

_REPORT_SCHEMA = 1
"""Incremented when a field is removed or changes its meaning."""

_MEASURES = ("per sample", "without skills", "with skills", "difference", "p", "test")
_SKILLS = ("skill", "text", "shown", "cited", "right when cited", "right when not", "right without skills")
_TRAINING = ("samples", "validation (%)", "skills", "kept")
_NUMBERS = {*_MEASURES[1:5], *_SKILLS[2:], *_TRAINING[:3], "accuracy", "effect (points)"}
"""The columns of numbers, which are right-aligned."""
_LONGEST_CELL = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """A comparison, with further information for a report."""

    title: str
    """The heading."""
    comparison: Comparison
    """The comparison of answers with and without skills."""
    settings: Mapping[str, str | int | float | None] = field(default_factory=dict)
    """The settings, such as the model and the seed, by readable names."""
    skills: Sequence[SkillEffect] = ()
    """The use of each skill; with several trainings, in the first one."""
    left_out: Sequence[LeftOut] = ()
    """The effect of each skill, measured by omitting it."""
    training: Sequence[ValidationPoint] = ()
    """The validations of the training of the skills; with several trainings, of the first one."""
    runs: Mapping[str, float] = field(default_factory=dict)
    """The accuracy of each training, by name, if there were several."""

    @property
    def facts(self) -> Mapping[str, str]:
        """The settings, what the training cost, and how many answers failed, by readable names."""
        comparison = self.comparison
        failed = f"{len(comparison.baseline.failed)} without skills, {len(comparison.learned.failed)} with skills"
        facts = {name: str(value) for name, value in self.settings.items()}
        if self.training:
            facts["learning took"] = _spent_text(self.learning_costs)
            facts["validation took"] = _spent_text(self.validation_costs)
        return {**facts, "failed (counted as wrong)": failed}

    @property
    def learning_costs(self) -> Spent:
        """What learning cost in the training, without its validations."""
        return reduce(Spent.plus, (point.learning for point in self.training), Spent())

    @property
    def validation_costs(self) -> Spent:
        """What the validations of the training cost."""
        taken = (Spent(0, point.input_tokens, point.output_tokens, point.cost) for point in self.training)
        return reduce(Spent.plus, taken, Spent())

    @property
    def summary(self) -> str:
        """One sentence on the effect of the skills."""
        accuracy, samples = self.comparison.accuracy, self.comparison.samples
        difference = accuracy.difference
        noun = "sample" if len(samples) == 1 else "samples"
        verdict = "chance alone may explain that" if accuracy.p_value >= 0.05 else "chance alone hardly explains that"
        return (
            f"Accuracy {accuracy.baseline.value:.1%} without skills, {accuracy.learned.value:.1%} with them: "
            f"{100 * difference.value:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f}) on "
            f"{len(samples)} {noun}, p = {accuracy.p_value:.3g} ({accuracy.test}): {verdict}."
        )


def _spent_text(spent: Spent) -> str:
    calls = f"{spent.calls} calls, " if spent.calls else ""
    cost = "at an unknown price" if spent.cost is None else f"${spent.cost:.4f}"
    return f"{calls}{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {cost}"


def writable(text: str, longest: int) -> str:
    """Return a text that can be written as UTF-8, cut to a length.

    A model's JSON may hold half of a surrogate pair.

    Args:
        text: Any text.
        longest: The most characters.

    Example:
        >>> writable("a long story", 6)
        'a long...'
    """
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


def range_text(interval: Interval, *, signed: bool = False) -> str:
    """Return a value with its interval in brackets, to three digits of the largest of the three.

    Args:
        signed: Whether a plus sign is written.

    Example:
        >>> range_text(Interval(0.0098, -0.00733, 0.0104), signed=True)
        '+0.0098 [-0.0073, +0.0104]'
        >>> range_text(Interval(1234.5, 900, 2000))
        '1,234 [900, 2,000]'
    """
    decimals = _decimals(max(abs(interval.value), abs(interval.low), abs(interval.high)))
    return _with_interval(interval, decimals, signed=signed)


def percent_text(interval: Interval, *, signed: bool = False) -> str:
    """Return a share in percent with its interval in brackets.

    Args:
        interval: The interval of a share from 0 to 1.
        signed: Whether a plus sign is written.

    Example:
        >>> percent_text(Interval(0.625, 0.125, 1.0), signed=True)
        '+62.5 [+12.5, +100.0]'
    """
    percent = Interval(100 * interval.value, 100 * interval.low, 100 * interval.high)
    return _with_interval(percent, 1, signed=signed)


def _with_interval(interval: Interval, decimals: int, *, signed: bool) -> str:
    def shown(value: float) -> str:
        rounded = round(value, decimals) + 0.0  # no minus sign before a zero
        return f"{'+' if signed and rounded > 0 else ''}{rounded:,.{decimals}f}"

    return f"{shown(interval.value)} [{shown(interval.low)}, {shown(interval.high)}]"


def _decimals(size: float) -> int:
    return max(0, 2 - math.floor(math.log10(size))) if size > 0 else 0


def measure_rows(comparison: Comparison) -> list[list[str]]:
    """Return the cells of the table of measures: name, baseline, learned, difference, p, test."""
    rows = []
    for measure in comparison.measures:
        as_text = percent_text if measure.is_share else range_text
        rows.append(
            [
                f"{measure.name} (%)" if measure.is_share else measure.name,
                as_text(measure.baseline),
                as_text(measure.learned),
                as_text(measure.difference, signed=True),
                f"{measure.p_value:.3g}",
                measure.test,
            ]
        )
    return rows


@checked_arguments()
def json_report(report: EvaluationReport) -> dict[str, Any]:
    """Return a report as JSON values, with the schema version first."""
    comparison = report.comparison
    return {
        "schema": _REPORT_SCHEMA,
        "title": report.title,
        "summary": report.summary,
        "settings": dict(report.settings),
        "confidence": comparison.confidence,
        "measures": [asdict(measure) for measure in comparison.measures],
        "runs": dict(report.runs),
        "baseline": _side(comparison.baseline),
        "learned": _side(comparison.learned),
        "samples": [
            {
                "sample_id": sample.sample_id,
                "question": sample.question,
                "ground_truth": sample.ground_truth,
                "outcome": sample.outcome,
                "baseline_correct": sample.baseline_correct,
                "learned_correct": sample.learned_correct,
                "baseline": [answer.to_dict() for answer in sample.baseline],
                "learned": [answer.to_dict() for answer in sample.learned],
            }
            for sample in comparison.samples
        ],
        "skills": [{**asdict(skill), "is_never_cited": skill.is_never_cited} for skill in report.skills],
        "left_out": [asdict(skill) for skill in report.left_out],
        "training": [point.to_dict() for point in report.training],
        "training_costs": {"learning": asdict(report.learning_costs), "validation": asdict(report.validation_costs)},
    }


def _side(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "name": evaluation.name,
        "answers": len(evaluation.answers),
        "failed": len(evaluation.failed),
        "input_tokens": sum(answer.input_tokens for answer in evaluation.answers),
        "output_tokens": sum(answer.output_tokens for answer in evaluation.answers),
        "cached_input_tokens": sum(answer.cached_input_tokens for answer in evaluation.answers),
        "cache_write_tokens": sum(answer.cache_write_tokens for answer in evaluation.answers),
        "cost": evaluation.cost,
        "seconds": sum(answer.seconds for answer in evaluation.answers),
    }


@checked_arguments()
def markdown_report(report: EvaluationReport) -> str:
    """Return a report as a Markdown text."""
    return "\n".join(_lines(report))


def _lines(report: EvaluationReport) -> Iterator[str]:
    comparison = report.comparison
    yield f"# {_cell(report.title)}"
    yield ""
    yield report.summary
    yield ""
    yield from (f"- {_cell(name)}: {_cell(value)}" for name, value in report.facts.items())
    yield ""
    yield f"Intervals: bootstrap over samples, {comparison.confidence:.0%}."
    yield ""
    yield from _table(_MEASURES, measure_rows(comparison))
    if not comparison.has_costs:
        yield from ("", "Cost is omitted: the price of the model is not known.")
    if report.runs:
        yield from _section("Single trainings")
        yield from _table(("training", "accuracy"), [[name, f"{value:.1%}"] for name, value in report.runs.items()])
    if report.training:
        yield from _section("Training")
        yield from _table(
            _TRAINING,
            [
                [
                    str(point.samples),
                    percent_text(point.score),
                    str(len(point.skills)),
                    "yes" if point.is_kept else "no",
                ]
                for point in report.training
            ],
        )
    if report.skills:
        yield from _section("Skills")
        yield from _table(
            _SKILLS,
            [
                [
                    skill.skill_id,
                    skill.content,
                    str(skill.shown),
                    "never" if skill.is_never_cited else str(skill.cited),
                    *map(_share, (skill.correct_when_cited, skill.correct_when_not, skill.without_skills)),
                ]
                for skill in report.skills
            ],
        )
    if report.left_out:
        yield from _section("Each skill omitted")
        rows = [
            [skill.skill_id, skill.content, percent_text(skill.effect, signed=True), f"{skill.p_value:.3g}"]
            for skill in report.left_out
        ]
        yield from _table(("skill", "text", "effect (points)", "p"), rows)
    yield from _section("Samples that changed")
    changed = [sample for sample in comparison.samples if sample.outcome in ("gained", "lost")]
    rows = [
        [
            sample.outcome,
            sample.sample_id,
            sample.question,
            sample.ground_truth or "",
            *map(_answers, (sample.baseline, sample.learned)),
        ]
        for sample in changed
    ]
    yield from _table(("outcome", "sample", "question", "right answer", "answer without", "answer with"), rows)
    yield ""
    right, wrong = comparison.count("both right"), comparison.count("both wrong")
    yield f"Not changed: {right} right and {wrong} wrong on both sides."
    yield ""


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{''.join('---:|' if column in _NUMBERS else '---|' for column in columns)}"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(text: str) -> str:
    """Return a text escaped so that it cannot end the cell, and is neither markup nor a link."""
    line = writable(" ".join(text.split()), _LONGEST_CELL)
    for sign in "\\`*_[]<>|":
        line = line.replace(sign, f"\\{sign}")
    return line


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _answers(answers: Sequence[JudgedAnswer]) -> str:
    return "; ".join(answer.answer if answer.error is None else f"failed: {answer.error}" for answer in answers)
