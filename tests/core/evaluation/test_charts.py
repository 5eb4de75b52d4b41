"""Charts have axes with titles, round numbers on them, the last value of each line, and no text that is not escaped."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from xml.etree import ElementTree

import pytest

from ace.evaluation import Interval, ValidationPoint, learning_curve_svg, step_chart_svg

SVG = "{http://www.w3.org/2000/svg}"
SIZE = (480, 260)  # of the charts of pages, in which texts are largest relative to the chart
TEXT_SIZE = 17  # on a narrow screen
Points = list[tuple[float, float]]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def texts(svg: str, css: str | None = None) -> list[str]:
    found = parsed(svg).iter(f"{SVG}text")
    return [element.text or "" for element in found if css is None or css in element.get("class", "").split()]


def curve(*scores: float, skills: Callable[[int], int] = lambda place: place, kept: bool = True) -> str:
    points = [
        ValidationPoint(
            samples=10 * place,
            score=Interval(value=score, low=max(0, score - 0.1), high=min(1, score + 0.1)),
            score_before=None,
            is_kept=kept or place % 2 == 0,
            version=place,
            skills={str(number): "text" for number in range(skills(place))},
        )
        for place, score in enumerate(scores)
    ]
    return learning_curve_svg(points, width=SIZE[0], height=SIZE[1])


def steps(points: Points, **more: Points) -> str:
    series = {"skills": points, **more}
    return step_chart_svg(series, label="Skills", x_title="version", y_title="skills", width=SIZE[0], height=SIZE[1])


CHARTS = {
    "a curve of 1 point": curve(0.14),
    "a curve of 1 point with skills": curve(0.64, skills=lambda _: 7),
    "a curve of 2 points": curve(0.14, 0.71, skills=lambda place: 7 + 5 * place),
    "a curve of 200 points": curve(*(0.3 + 0.6 * place / 200 for place in range(200)), skills=lambda place: 258),
    "a constant curve": curve(*[1.0] * 9),
    "a constant curve of 0": curve(*[0.0] * 9, skills=lambda _: 0),
    "a curve of which nothing else is kept": curve(0.5, 0.4, kept=False),
    "1 step": steps([(44, 12)]),
    "1 step at 0": steps([(0, 0)]),
    "2 steps": steps([(0, 0), (1, 1)]),
    "200 steps": steps([(place, 40 * math.log(1 + place)) for place in range(200)]),
    "a constant": steps([(0, 12), (300, 12)]),
    "versions with many digits": steps([(1_900, 3), (10_400, 12)]),
    "large numbers": steps([(1000 * place, 23_456 * place) for place in range(60)]),
    "lines that end together": steps([(2, 1), (44, 30)], harmful=[(2, 0), (44, 29)], neutral=[(2, 0), (44, 28)]),
    "high lines that end together": steps([(2, 1), (44, 100)], harmful=[(2, 0), (44, 99)], neutral=[(2, 0), (44, 98)]),
    "lines that end as one": steps([(2, 1), (44, 30)], harmful=[(2, 0), (44, 0)], neutral=[(2, 0), (44, 0)]),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_no_text_of_a_chart_overlaps_another_or_the_edge(chart: str) -> None:
    boxes = []
    for element in parsed(chart).iter(f"{SVG}text"):
        text, x, y = element.text or "", float(element.get("x", "")), float(element.get("y", ""))
        width = 0.52 * TEXT_SIZE * len(text)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[element.get("text-anchor", "start")]
        boxes.append((text, left, left + width, y - 0.72 * TEXT_SIZE, y))
    for text, left, right, top, bottom in boxes:
        assert 0 <= left < right <= SIZE[0], text
        assert 0 <= top < bottom <= SIZE[1], text
    for (one, *first), (other, *second) in combinations(boxes, 2):
        is_apart = first[1] <= second[0] or second[1] <= first[0] or first[3] <= second[2] or second[3] <= first[2]
        assert is_apart, (one, other)


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_every_line_of_a_chart_is_visible(chart: str) -> None:
    for line in parsed(chart).iter(f"{SVG}polyline"):
        places = {tuple(map(float, place.split(","))) for place in line.get("points", "").split()}
        assert len(places) >= 2, line.attrib
        assert all(0 <= x <= SIZE[0] and 0 <= y <= SIZE[1] for x, y in places)


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("a curve of 1 point with skills", ["7", "64%"]),
        ("a curve of 2 points", ["12", "71%"]),
        ("a curve of 200 points", ["258", "89.7%"]),
        ("a curve of which nothing else is kept", ["0", "50%"]),
        ("1 step", ["12"]),
        ("large numbers", ["1.38M"]),
        ("lines that end together", ["28", "29", "30"]),
        ("lines that end as one", ["0", "30"]),
    ],
)
def test_the_last_value_is_written_beside_the_line(chart: str, values: list[str]) -> None:
    assert texts(CHARTS[chart], "value") == values


def test_a_screen_reader_is_told_the_last_values() -> None:
    assert parsed(CHARTS["a curve of 2 points"]).get("aria-label", "").endswith("; at the end 71% and 12")
    label = "Skills; at the end skills 30, harmful 29, neutral 28"
    assert parsed(CHARTS["lines that end together"]).get("aria-label") == label


def test_a_chart_has_titles_and_round_numbers() -> None:
    svg = step_chart_svg({"skills": [(0, 0), (3, 4), (44, 12)]}, label="Skills", x_title="version", y_title="skills")
    assert texts(svg) == ["skills", "0", "5", "10", "15", "0", "10", "20", "30", "40", "44", "version", "12"]


def test_a_learning_curve_has_titles_and_round_numbers() -> None:
    assert texts(CHARTS["a curve of 2 points"]) == [
        "accuracy", "0%", "25%", "50%", "75%", "100%", "0", "2", "4", "6", "8", "10", "training samples",
        "12", "0", "3", "6", "9", "skills", "71%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("points", "numbers"),
    [
        ([(7, 1)], ["0", "1"]),
        ([(1, 0), (2, 0)], ["0", "1"]),
        ([(1, 3), (900, 9000)], ["0", "2k", "4k", "6k", "8k", "10k"]),
        ([(1, -2), (2, 2)], ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_the_axis_encloses_all_numbers(points: Points, numbers: list[str]) -> None:
    svg = step_chart_svg({"count": points}, label="Count", x_title="x", y_title="y")
    assert texts(svg)[1 : len(numbers) + 1] == numbers


def test_the_axis_of_a_percentage_reaches_100() -> None:
    svg = step_chart_svg({"score": [(1, 52), (2, 60)]}, label="Score", x_title="version", y_title="score (%)", top=100)
    assert texts(svg)[1:7] == ["0", "20", "40", "60", "80", "100"]


def test_many_points_are_thinned_out_but_the_last_stays() -> None:
    points = [(float(x), float(x % 50)) for x in range(10_000)]
    svg = step_chart_svg({"count": points}, label="Count", x_title="x", y_title="y")
    assert len(svg) < 20_000
    assert "count: 49 at x 9,999" in svg


def test_texts_are_escaped_and_an_empty_chart_is_an_error() -> None:
    svg = step_chart_svg({'a"><script>': [(1, 1)]}, label="<b>", x_title="<i>", y_title='"x"')
    assert "<script>" not in svg
    assert texts(svg)[0] == '"x"'
    with pytest.raises(ValueError, match="at least one"):
        step_chart_svg({"count": []}, label="Count", x_title="x", y_title="y")
