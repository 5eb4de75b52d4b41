"""Reports say the same in three shapes, and nothing that a model wrote becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from ace.evaluation import (
    Evaluation,
    EvaluationReport,
    Interval,
    SkillEffect,
    ValidationPoint,
    compare,
    html_page,
    json_report,
    markdown_report,
)
from ace.evaluation.report import measure_rows
from tests.core.evaluation.world import answer_of

ATTACK = "<script>alert('x')</script> [click](http://evil.example) | \ud800"


def point(samples: int, value: float, *, is_kept: bool = True, **skills: str) -> ValidationPoint:
    return ValidationPoint(
        samples=samples,
        score=Interval(value, value / 2, value),
        score_before=0.5,
        is_kept=is_kept,
        version=None,
        skills=skills,
    )


@pytest.fixture
def report() -> EvaluationReport:
    baseline = Evaluation("baseline", (answer_of("a", 0, answer="12"), answer_of("b", 1, answer="7")), 2)
    learned = Evaluation("learned", (answer_of("a", 1, answer=ATTACK), answer_of("b", 1, answer="7")), 2)
    return EvaluationReport(
        title="Prices",
        comparison=compare(baseline, learned),
        settings={"model": "scripted", "seed": 0},
        skills=[SkillEffect("s-1", ATTACK, 2, 0, None, 1.0, None)],
        training=[point(0, 0.5), point(4, 0.25, is_kept=False, s1="Wrong."), point(8, 1.0, s2=ATTACK)],
        runs={"order 0": 1.0},
    )


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_stands_alone_and_shows_what_a_model_wrote_as_text(report: EvaluationReport) -> None:
    page = html_page(report)
    page.encode("utf-8")
    found = Elements(page)
    names = [tag for tag, _ in found.tags]
    assert not {"script", "a", "img", "link", "iframe"} & set(names)
    assert not any(name in ("src", "href") or name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert any("<script>alert('x')</script>" in text for text in found.texts)
    assert names.count("circle") == 2
    assert [attrs["class"] for tag, attrs in found.tags if tag == "path"] == ["rolled-back"]
    assert report.summary in found.texts


def test_json_has_a_schema_and_every_answer(report: EvaluationReport) -> None:
    data = json.loads(json.dumps(json_report(report)))
    assert data["schema"] == 1
    assert [sample["outcome"] for sample in data["samples"]] == ["gained", "both right"]
    assert data["samples"][0]["learned"][0]["answer"] == ATTACK
    assert [epoch["is_kept"] for epoch in data["training"]] == [True, False, True]
    assert data["skills"][0]["is_never_cited"] is True
    accuracy = data["measures"][0]
    assert (accuracy["name"], accuracy["baseline"]["value"], accuracy["learned"]["value"]) == ("accuracy", 0.5, 1.0)


def test_markdown_keeps_its_tables_whatever_a_cell_holds(report: EvaluationReport) -> None:
    text = markdown_report(report)
    [row] = [line for line in text.splitlines() if line.startswith("| gained")]
    assert row.replace("\\|", "").count("|") == 7
    assert "<script>" not in text.replace("\\<", "")
    assert "[click](" not in text
    text.encode("utf-8")
    assert "Cost is omitted" in text
    assert "| never |" in text


def test_the_summary_says_when_chance_would_do(report: EvaluationReport) -> None:
    assert report.summary.startswith("Accuracy 50.0% without skills, 100.0% with them: +50.0 points")
    assert report.summary.endswith("p = 1 (McNemar, exact): chance alone may explain that.")


def test_shares_are_percent_and_amounts_have_the_digits_of_the_largest(report: EvaluationReport) -> None:
    baseline = Evaluation("b", tuple(answer_of(f"s{n}", n % 2, seconds=0.001 * n, cost=0.0) for n in range(8)), 8)
    learned = Evaluation("l", tuple(answer_of(f"s{n}", 1, seconds=0.01, cost=0.0) for n in range(8)), 8)
    rows = {name: cells for name, *cells in measure_rows(compare(baseline, learned))}
    assert list(rows) == ["accuracy (%)", "input tokens", "output tokens", "cost (USD)", "seconds"]
    assert rows["accuracy (%)"][1] == "100.0 [67.6, 100.0]"
    assert rows["accuracy (%)"][2].startswith("+50.0 [+")
    assert rows["cost (USD)"][0] == "0 [0, 0]"
    assert rows["seconds"][1] == "0.0100 [0.0100, 0.0100]"
    assert re.fullmatch(r"\+0\.00650 \[\+0\.\d{5}, \+0\.\d{5}\]", rows["seconds"][2])


def test_nothing_lost_raises_no_alarm(report: EvaluationReport) -> None:
    cards = re.findall(r'<div class="card">(gained|lost)<b(?: class="(\w+)")?>(\d+)</b>', html_page(report))
    assert cards == [("gained", "gained", "1"), ("lost", "", "0")]


def test_numbers_are_aligned_on_the_right_with_their_headings(report: EvaluationReport) -> None:
    page = html_page(report)
    assert "th.number, td.number { text-align: right; }" in page
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        headings = re.findall(r"<th( class=\"number\")?>", table)
        first_row = re.findall(r"<td( class=\"number\")?", table.partition("<tbody>")[2].partition("</tr>")[0])
        assert headings == first_row
    assert page.count('<th class="number">') >= 8
    [rule] = [line for line in markdown_report(report).splitlines() if line.startswith("|---|---:|---:|---:|---:|---|")]
    assert rule == "|---|---:|---:|---:|---:|---|"
