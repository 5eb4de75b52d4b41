"""Charts have axes with titles, round numbers on them, and no text that is not escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ace.evaluation import step_chart_svg

TEXT = "{http://www.w3.org/2000/svg}text"


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    return [each.text or "" for each in root.iter(TEXT)]


def test_a_chart_has_titles_and_round_numbers() -> None:
    svg = step_chart_svg({"skills": [(0, 0), (3, 4), (44, 12)]}, label="Skills", x_title="version", y_title="skills")
    assert texts(svg) == ["skills", "0", "5", "10", "15", "0", "10", "20", "30", "40", "44", "version"]


@pytest.mark.parametrize(
    ("points", "numbers"),
    [
        ([(7, 1)], ["0", "1"]),
        ([(1, 0), (2, 0)], ["0", "1"]),
        ([(1, 3), (900, 9000)], ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]),
        ([(1, -2), (2, 2)], ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_the_axis_encloses_all_numbers(points: list[tuple[float, float]], numbers: list[str]) -> None:
    svg = step_chart_svg({"count": points}, label="Count", x_title="x", y_title="y")
    assert texts(svg)[1 : len(numbers) + 1] == numbers


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
