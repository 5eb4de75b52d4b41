"""A report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ace.arguments import checked_arguments
from ace.evaluation.judged import JudgedAnswer
from ace.evaluation.report.evaluation_report import EvaluationReport, measure_rows, percent_text, writable

__all__ = ["markdown_report"]

_MEASURES = ("per sample", "without skills", "with skills", "difference", "p", "test")
_SKILLS = ("skill", "text", "shown", "cited", "right when cited", "right when not", "right without skills")
_TRAINING = ("samples", "validation (%)", "skills", "kept")
_NUMBERS = {*_MEASURES[1:5], *_SKILLS[2:], *_TRAINING[:3], "accuracy", "effect (points)"}
"""Columns of numbers, which are aligned on the right."""
_LONGEST_CELL = 160


@checked_arguments()
def markdown_report(report: EvaluationReport) -> str:
    """Return a report as a Markdown text.

    Args:
        report: The report.
    """
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
    """Return a text that cannot end the cell, nor be read as markup or a link."""
    line = writable(" ".join(text.split()), _LONGEST_CELL)
    for sign in "\\`*_[]<>|":
        line = line.replace(sign, f"\\{sign}")
    return line


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _answers(answers: Sequence[JudgedAnswer]) -> str:
    return "; ".join(answer.answer if answer.error is None else f"failed: {answer.error}" for answer in answers)
