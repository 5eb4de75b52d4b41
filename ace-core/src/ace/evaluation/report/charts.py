"""Charts as SVG elements, for reports and pages: without scripts or style attributes, coloured by the CSS around them.

Every text in them is escaped. The classes are `grid`, `score-line`, `band`, `kept`, `rolled-back`, `skills-line` and
`skills-text` for a learning curve, `grid`, `series` and `series-NAME` for a step chart, and `value` for the last value
of a line, which is written beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from ace._internal.arguments import checked_arguments
from ace.evaluation.validation_schedule import ValidationPoint

__all__ = ["learning_curve_svg", "step_chart_svg"]

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 58, 34, 52
_MOST_POINTS = 400
"""More points than this are thinned out: they would be closer together than the pixels of a screen."""

_MOST_MARKS = 12
"""With more points than this, only the last one of a line is marked."""

_CHARACTER = 10
"""The width of a character in the largest text for which there is room, that of a narrow screen."""

_LINE = 18
"""The height of a line in that text."""

_STUB = 14
"""How far the line of a single point reaches to both sides of it: a line of one point would be invisible."""

_LONG = 100_000
"""From here on, the value at the end of a line is shortened to what fits beside it."""

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Plot:
    """The area between the axes, with the numbers at its edges."""

    first: float
    last: float
    lowest: float
    highest: float
    width: int
    height: int

    @property
    def left(self) -> float:
        return _LEFT

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    def across(self, x: float) -> float:
        if self.last == self.first:
            return (self.left + self.right) / 2
        return self.left + (x - self.first) / (self.last - self.first) * (self.right - self.left)

    def up(self, y: float) -> float:
        span = self.height - _TOP - _BOTTOM
        return self.height - _BOTTOM - (y - self.lowest) / (self.highest - self.lowest) * span

    def axes(self, ticks: Mapping[float, str], *, x_title: str, y_title: str) -> Iterator[str]:
        yield _text(self.left - 46, 16, "start", y_title)
        for tick, text in ticks.items():
            y = self.up(tick)
            yield f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield _text(self.left - 8, y + 4, "end", text)
        for tick in self._x_ticks():
            yield _text(self.across(tick), self.height - _BOTTOM + 22, "middle", _number(tick))
        yield _text((self.left + self.right) / 2, self.height - 6, "middle", x_title)

    def _x_ticks(self) -> list[float]:
        """Return both ends of the axis, and the round numbers between them for which there is room."""
        if self.last <= self.first:
            return [self.first]
        found = [self.first]
        for tick in _ticks(self.first, self.last)[1:-1]:
            if self._has_room(found[-1], tick) and self._has_room(tick, self.last):
                found.append(tick)
        return [*found, self.last]

    def _has_room(self, one: float, other: float) -> bool:
        needed = _CHARACTER * (len(_number(one)) + len(_number(other)) + 2) / 2
        return self.across(other) - self.across(one) >= needed


@checked_arguments()
def learning_curve_svg(points: Sequence[ValidationPoint], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Return the learning curve of a training as an SVG element: accuracy with its interval, and the number of skills.

    Args:
        points: The validations, in order; at least one.
        width: The width of the coordinate system; in a smaller one, texts are larger relative to the chart.
        height: The height of the coordinate system.
    """
    plot = _Plot(0, max(point.samples for point in points), 0, 1, width, height)
    step = _even_step(max(len(point.skills) for point in points) / 4)
    kept = [point for point in points if point.is_kept]
    scores = [(plot.across(point.samples), plot.up(point.score.value)) for point in kept]
    skills = [(plot.across(point.samples), plot.up(len(point.skills) / (4 * step))) for point in kept]
    label = "Validation accuracy and number of skills after each validation"
    if kept:
        label += f"; at the end {_percent(kept[-1].score.value)} and {len(kept[-1].skills)}"
    radius = 4 if len(points) <= 2 * _MOST_MARKS else 1.5
    parts = [
        _opening(width, height, label),
        *plot.axes({share: f"{share:.0%}" for share in _QUARTERS}, x_title="training samples", y_title="accuracy"),
        *_skills_axis(plot, step, len(kept[-1].skills) if kept else None),
        _steps(_visible(skills), "skills-line"),
        _band(kept, plot),
        _line(_visible(scores), "score-line"),
        *(_mark(point, plot.across(point.samples), plot.up(point.score.value), radius) for point in points),
        *(_score_at_the_end(plot, scores[-1], kept[-1].score.value) if kept else ()),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


@checked_arguments()
def step_chart_svg(
    series: Mapping[str, Sequence[Place]],
    *,
    label: str,
    x_title: str,
    y_title: str,
    width: int = WIDTH,
    height: int = HEIGHT,
    top: float | None = None,
) -> str:
    """Return numbers that change in steps, such as counters by version, as an SVG element.

    The last value of each line is written beside it.

    Args:
        series: The points of each line, in order, by the name of the line. It becomes the class `series-NAME`.
        label: A description of the chart, for screen readers, which are also told the last values.
        x_title: The title of the horizontal axis, with its unit.
        y_title: The title of the vertical axis, with its unit.
        width: The width of the coordinate system; in a smaller one, texts are larger relative to the chart.
        height: The height of the coordinate system.
        top: What the vertical axis reaches at least, such as 100 for a percentage.

    Raises:
        ValueError: There is no point.

    Example:
        >>> svg = step_chart_svg({"helpful": [(1, 0), (4, 3)]}, label="Counters", x_title="version", y_title="times")
        >>> "series-helpful" in svg, svg.count("<polyline"), "Counters; at the end helpful 3" in svg
        (True, 1, True)
    """
    lines = {name: _thinned(points) for name, points in series.items() if points}
    places = [place for points in lines.values() for place in points]
    if not places:
        raise ValueError("series has no points; a chart needs at least one")
    highest = max(y for _, y in places)
    ticks = _ticks(min(0.0, *(y for _, y in places)), highest if top is None else max(highest, top))
    first, last = min(x for x, _ in places), max(x for x, _ in places)
    plot = _Plot(first, last, ticks[0], ticks[-1], width, height)
    ends = {name: points[-1][1] for name, points in lines.items()}
    said = ", ".join(f"{name} {_number(value)}" for name, value in ends.items())
    parts = [
        _opening(width, height, f"{label}; at the end {said}"),
        *plot.axes({tick: _short(tick) for tick in ticks}, x_title=x_title, y_title=y_title),
    ]
    for name, points in lines.items():
        css = f"series series-{escape(name)}"
        corners = [(plot.across(x), plot.up(y)) for x, y in points]
        to_the_end = [*corners, (plot.across(last), corners[-1][1])]
        parts.append(_steps(to_the_end if last > first else _visible(corners), css))
        for place in range(len(points)) if len(points) <= _MOST_MARKS else [len(points) - 1]:
            x, y = points[place]
            title = f"{name}: {_number(y)} at {x_title} {_number(x)}"
            parts.append(_dot(css, corners[place], 3.5, title))
    parts += _values_at_the_end(plot, ends.values())
    return "\n".join([*parts, "</svg>"])


_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def _opening(width: int, height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" class="curve" aria-label="{escape(label)}">'


def _ticks(lowest: float, highest: float) -> list[float]:
    """Return some round numbers, of which the first and the last enclose the range."""
    span = (highest - lowest) or 1
    size = 10 ** math.floor(math.log10(span / 4)) if span > 4 else 1
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= 5)
    first, last = math.floor(lowest / step), max(math.ceil(highest / step), math.floor(lowest / step) + 1)
    return [number * step for number in range(first, last + 1)]


def _even_step(least: float) -> int:
    """Return a whole number that is not smaller and easy to count in."""
    size = 10 ** math.floor(math.log10(max(1, least)))
    found = (size * factor for factor in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10))
    return int(next(step for step in found if step >= least and step == int(step)))


def _text(x: float, y: float, anchor: str, text: str, css: str = "") -> str:
    name = f' class="{css}"' if css else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def _short(value: float) -> str:
    """Return a number in at most six characters, for which the margin of the chart has room."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _thinned(points: Sequence[Place]) -> Sequence[Place]:
    if len(points) <= _MOST_POINTS:
        return points
    stride = math.ceil(len(points) / _MOST_POINTS)
    return [*points[:-1:stride], points[-1]]


def _skills_axis(plot: _Plot, step: int, number_at_the_end: int | None) -> Iterator[str]:
    """The right axis. The last number of skills takes the place of a tick that is too close to it."""
    x, at_the_end = plot.right + 8, None
    if number_at_the_end is not None:
        at_the_end = plot.up(number_at_the_end / (4 * step))
        yield _text(x, at_the_end + 4, "start", _number(number_at_the_end), "skills-text value")
    for place, share in enumerate(_QUARTERS):
        y = plot.up(share)
        if at_the_end is None or abs(y - at_the_end) >= _LINE:
            yield _text(x, y + 4, "start", _number(place * step), "skills-text")
    yield _text(plot.right + 44, 16, "end", "skills", "skills-text")


def _score_at_the_end(plot: _Plot, place: Place, score: float) -> Iterator[str]:
    """The last score beside its point: above it, or below it at the upper edge."""
    x, y = place
    is_high = y < _TOP + _LINE
    yield _text(min(x + _LINE, plot.right - 4), y + _LINE if is_high else y - 9, "end", _percent(score), "value")


def _values_at_the_end(plot: _Plot, values: Iterable[float]) -> Iterator[str]:
    """The last values beside the ends of their lines, each once, moved apart where they are too close."""
    x = plot.right + 9 if plot.last > plot.first else plot.across(plot.last) + _STUB + 9
    below = math.inf
    heights: dict[float, float] = {}
    for value in sorted(set(values)):
        heights[value] = below = min(plot.up(value) + 4, below - _LINE)
    above = 0.0
    for value in sorted(heights, reverse=True):  # several high ones would leave the chart
        heights[value] = above = max(heights[value], above + _LINE)
    for value, y in heights.items():
        yield _text(x, y, "start", _number(value) if abs(value) < _LONG else _short(value), "value")


def _line(places: Sequence[Place], name: str) -> str:
    return f'<polyline class="{name}" points="{_joined(places)}"/>'


def _visible(places: Sequence[Place]) -> Sequence[Place]:
    """Return the places of a line; a single one becomes a short line."""
    if len(places) != 1:
        return places
    [(x, y)] = places
    return [(x - _STUB, y), (x + _STUB, y)]


def _steps(places: Sequence[Place], name: str) -> str:
    corners = [places[0]] if places else []
    for (_, y_before), (x, y) in pairwise(places):
        corners += [(x, y_before), (x, y)]
    return _line(corners, name)


def _band(points: Sequence[ValidationPoint], plot: _Plot) -> str:
    upper = [(plot.across(point.samples), plot.up(point.score.high)) for point in points]
    lower = [(plot.across(point.samples), plot.up(point.score.low)) for point in points]
    return f'<polygon class="band" points="{_joined([*_visible(upper), *reversed(_visible(lower))])}"/>'


def _mark(point: ValidationPoint, x: float, y: float, radius: float) -> str:
    verdict = "" if point.is_kept else ", rolled back by the gate"
    title = f"after {point.samples} samples: {point.score.value:.1%}, {len(point.skills)} skills{verdict}"
    if point.is_kept:
        return _dot("kept", (x, y), radius, title)
    shape = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return f'<path class="rolled-back" d="{shape}"><title>{escape(title)}</title></path>'


def _dot(css: str, place: Place, radius: float, title: str) -> str:
    x, y = place
    return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(title)}</title></circle>'


def _joined(places: Sequence[Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
