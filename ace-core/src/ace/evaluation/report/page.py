"""A report as a self-contained HTML page: without scripts, and without external resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ace._internal.arguments import checked_arguments
from ace.evaluation.comparison import SampleChange
from ace.evaluation.evaluation import JudgedAnswer
from ace.evaluation.report.charts import learning_curve_svg
from ace.evaluation.report.evaluation_report import EvaluationReport, measure_rows, percent_text, writable
from ace.evaluation.validation_schedule import ValidationPoint

__all__ = ["html_page"]

_LONGEST_TEXT = 1200
_NUMBER_CELL = '<td class="number">'

STYLE = """
:root { --ink: #1d2530; --faint: #667085; --line: #e2e6ec; --back: #ffffff; --panel: #f7f8fa;
  --good: #157347; --bad: #b42318; --blue: #1f5fbf; --orange: #b25e09; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --faint: #98a2b3; --line: #343b46; --back: #14181e;
  --panel: #1c222a; --good: #4cc38a; --bad: #ff8a80; --blue: #7fb0ff; --orange: #f0a860; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 1080px;
  margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 10px; }
p.summary { font-size: 17px; } .faint, caption, dt { color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 12px 0; } dd { margin: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 6px 10px; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; } td.number { font-variant-numeric: tabular-nums; }
th.number, td.number { text-align: right; }
td.number, td.name { white-space: nowrap; }
td.text { overflow-wrap: anywhere; min-width: 140px; }
.cards { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 18px 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 24px; } .gained { color: var(--good); } .lost { color: var(--bad); }
svg.curve { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--faint); }
.grid { stroke: var(--line); } .score-line { fill: none; stroke: var(--blue); stroke-width: 2.5; }
.band { fill: var(--blue); opacity: .13; } .kept { fill: var(--blue); }
.rolled-back { stroke: var(--bad); stroke-width: 2.5; }
.skills-line { fill: none; stroke: var(--orange); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .skills-text { fill: var(--orange); }
.key i { display: inline-block; width: 22px; height: 3px; margin: 0 6px 4px 14px; background: var(--blue); }
.key i.skills { background: var(--orange); } .key i:first-child { margin-left: 0; }
td.held { padding: 6px 2px; } td.held span { display: block; height: 12px; min-width: 12px; border-radius: 2px; }
td.held span.yes { background: var(--orange); } td.held span.refused { background: var(--bad); }
details > summary { cursor: pointer; color: var(--faint); margin: 10px 0; }
@media (max-width: 700px) { body { padding: 20px 12px 40px; } .cards { grid-template-columns: repeat(2, 1fr); }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } table { font-size: 13px; } svg text { font-size: 18px; }
  th, td { padding: 5px 6px; } td.text { min-width: 110px; }
  td.name { white-space: normal; overflow-wrap: anywhere; min-width: 84px; } td.held { padding: 6px 1px; } }
"""


@checked_arguments()
def html_page(report: EvaluationReport) -> str:
    """Return a report as an HTML page. Everything that a model wrote is escaped."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Even if a text were not escaped, a browser would not run it.
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
        yield learning_curve_svg(report.training)
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
    # Several trainings have several books, whose ids cannot be compared.
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
        colour = f' class="{outcome}"' if number else ""  # no colour for 0, which is neither good nor bad
        yield f'<div class="card">{outcome}<b{colour}>{number}</b></div>'
    yield "</div>"


def _skills_over_time(points: Sequence[ValidationPoint]) -> Iterator[str]:
    """One row for each skill, one column for each validation."""
    texts = {skill_id: content for point in points for skill_id, content in point.skills.items()}
    if not texts:
        yield "<p>The skillbook had no skills at any time.</p>"
        return
    rows = []
    for skill_id, content in texts.items():
        cells = [_presence_cell(skill_id in point.skills, is_kept=point.is_kept) for point in points]
        rows.append([_name(skill_id), _cell(content), *cells])
    yield from _table(("skill", "text", *(str(point.samples) for point in points)), rows)


def _presence_cell(is_there: bool, *, is_kept: bool) -> str:
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
