"""A report as one page that is self-contained: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ace.arguments import checked_arguments
from ace.evaluation.comparison import SampleChange
from ace.evaluation.judged import JudgedAnswer
from ace.evaluation.report.evaluation_report import EvaluationReport, measure_rows, percent_text, writable
from ace.evaluation.report.learning_curve import learning_curve
from ace.evaluation.report.page_style import STYLE
from ace.evaluation.training_log import ValidationPoint

__all__ = ["html_page"]

_LONGEST_TEXT = 1200
_NUMBER_CELL = '<td class="number">'


@checked_arguments()
def html_page(report: EvaluationReport) -> str:
    """Return a report as the text of an HTML page. Whatever a model wrote is shown as text.

    Args:
        report: The report.
    """
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Even if a text were not escaped, a browser would run nothing of it.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{_text(report.title)}</title><style>{STYLE}</style></head><body>",
            *_body(report),
            "</body></html>",
            "",
        ]
    )


def _body(report: EvaluationReport) -> Iterator[str]:
    comparison = report.comparison
    yield f"<h1>{_text(report.title)}</h1>"
    yield f'<p class="summary">{_text(report.summary)}</p>'
    yield from _cards(report)
    yield "<dl>"
    yield from (f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in report.facts.items())
    yield "</dl>"
    yield "<h2>Without and with skills</h2>"
    level = f"{comparison.confidence:.0%}"
    yield f'<p class="faint">Per sample on average, with bootstrap intervals over samples ({level}).</p>'
    columns = ("", "without skills", "with skills", "difference", "p", "test")
    rows = [[_name(name), *map(_number, numbers), _name(test)] for name, *numbers, test in measure_rows(comparison)]
    yield from _table(columns, rows)
    if not comparison.has_costs:
        yield '<p class="faint">Cost is omitted: the price of the model is not known.</p>'
    if report.runs:
        yield "<h2>Single trainings</h2>"
        rows = [[_cell(name), _number(f"{value:.1%}")] for name, value in report.runs.items()]
        yield from _table(("training", "accuracy"), rows)
    if report.runs and (report.training or report.skills):
        yield f'<p class="faint">What follows on training and skills is that of “{_text(next(iter(report.runs)))}”.</p>'
    if report.training:
        yield "<h2>Learning curve</h2>"
        yield learning_curve(report.training)
        yield (
            '<p class="faint key"><i></i>validation accuracy with its interval<i class="skills"></i>active skills '
            "(right axis); a red cross is a state that the gate rolled back</p>"
        )
        yield "<h2>Skills over time</h2>"
        yield from _skills_over_time(report.training)
    if report.skills:
        yield "<h2>What each skill did</h2>"
        yield from _skills(report)
    changed = [sample for sample in comparison.samples if sample.outcome in ("gained", "lost")]
    others = [sample for sample in comparison.samples if sample.outcome not in ("gained", "lost")]
    yield "<h2>What changed, sample by sample</h2>"
    # Several trainings have several books, whose ids mean nothing beside each other.
    has_cites = not report.runs
    yield from _samples(changed, has_cites=has_cites) if changed else ["<p>No sample changed.</p>"]
    if others:
        yield f"<details><summary>Not changed: {len(others)} of {len(comparison.samples)} samples</summary>"
        yield from _samples(others, has_cites=has_cites)
        yield "</details>"


def _cards(report: EvaluationReport) -> Iterator[str]:
    comparison = report.comparison
    accuracy = comparison.accuracy
    yield '<div class="cards">'
    yield f'<div class="card">without skills<b>{accuracy.baseline.value:.1%}</b></div>'
    yield f'<div class="card">with skills<b>{accuracy.learned.value:.1%}</b></div>'
    for outcome in ("gained", "lost"):
        number = comparison.count(outcome)
        colour = f' class="{outcome}"' if number else ""  # none for 0: nothing good or bad happened
        yield f'<div class="card">{outcome}<b{colour}>{number}</b></div>'
    yield "</div>"


def _skills_over_time(points: Sequence[ValidationPoint]) -> Iterator[str]:
    """One row for each skill, one column for each validation."""
    texts = {skill_id: content for point in points for skill_id, content in point.skills.items()}
    if not texts:
        yield "<p>There was none at any time.</p>"
        return
    rows = []
    for skill_id, content in texts.items():
        cells = [_held(skill_id in point.skills, is_kept=point.is_kept) for point in points]
        rows.append([_name(skill_id), _cell(content), *cells])
    yield from _table(("skill", "text", *(str(point.samples) for point in points)), rows)


def _held(is_there: bool, *, is_kept: bool) -> str:
    name = "" if not is_there else "yes" if is_kept else "refused"
    label = {"": "not there", "yes": "there", "refused": "rolled back"}[name]
    return f'<td class="held"><span class="{name}" title="{label}"></span></td>'


def _skills(report: EvaluationReport) -> Iterator[str]:
    effects = {skill.skill_id: skill for skill in report.left_out}
    rows = []
    for skill in report.skills:
        shares = (skill.correct_when_cited, skill.correct_when_not, skill.without_skills)
        left_out = effects.get(skill.skill_id)
        rows.append(
            [
                _name(skill.skill_id),
                _cell(skill.content),
                _number(str(skill.shown)),
                _number("never" if skill.is_never_cited else str(skill.cited)),
                *(_number("" if share is None else f"{share:.0%}") for share in shares),
                *([_number("" if left_out is None else percent_text(left_out.effect, signed=True))] if effects else []),
            ]
        )
    columns = ("skill", "text", "shown", "cited", "right when cited", "right when not", "same samples without skills")
    yield from _table((*columns, "points lost without it") if effects else columns, rows)


def _samples(samples: Sequence[SampleChange], *, has_cites: bool) -> Iterator[str]:
    rows = []
    for sample in samples:
        name = sample.outcome if sample.outcome in ("gained", "lost") else ""
        rows.append(
            [
                f'<td class="{name}">{_text(sample.outcome)}</td>',
                _cell(sample.question, title=sample.sample_id),
                _cell(sample.ground_truth or ""),
                _cell(_answers(sample.baseline)),
                _cell(_answers(sample.learned)),
                *([_cell(_cited(sample))] if has_cites else []),
            ]
        )
    columns = ("", "question", "right answer", "without skills", "with skills")
    yield from _table((*columns, "cites") if has_cites else columns, rows)


def _cited(sample: SampleChange) -> str:
    return ", ".join(dict.fromkeys(skill for answer in sample.learned for skill in answer.cited))


def _answers(answers: Sequence[JudgedAnswer]) -> str:
    return " / ".join(answer.answer if answer.error is None else f"failed: {answer.error}" for answer in answers)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr>'
    for place, column in enumerate(columns):
        is_number = bool(rows) and rows[0][place].startswith(_NUMBER_CELL)
        yield f'<th class="number">{_text(column)}</th>' if is_number else f"<th>{_text(column)}</th>"
    yield "</tr></thead><tbody>"
    yield from (f"<tr>{''.join(row)}</tr>" for row in rows)
    yield "</tbody></table></div>"


def _cell(text: str, *, title: str = "") -> str:
    hint = f' title="{_text(title)}"' if title else ""
    return f'<td class="text"{hint}>{_text(text)}</td>'


def _name(text: str) -> str:
    return f'<td class="name">{_text(text)}</td>'


def _number(text: str) -> str:
    return f"{_NUMBER_CELL}{_text(text)}</td>"


def _text(text: str) -> str:
    return escape(writable(text, _LONGEST_TEXT))
