"""Charts as SVG elements, for reports and pages: without scripts or style attributes, coloured by the CSS around them.

Every text in them is escaped. The classes are `grid`, `score-line`, `band`, `kept`, `rolled-back`, `skills-line` and
`skills-text` for a learning curve, and `grid`, `series` and `series-NAME` for a step chart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from ace.arguments import checked_arguments
from ace.evaluation.validation_schedule import ValidationPoint

__all__ = ["learning_curve_svg", "step_chart_svg"]

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 56, 28, 44
_MOST_POINTS = 400
"""More points than this are thinned out: they would be closer together than the pixels of a screen."""

_MOST_MARKS = 12
"""With more points than this, only the last one of a line is marked."""

Place = tuple[float, float]
_Scale = Callable[[float], float]


@checked_arguments()
def learning_curve_svg(points: Sequence[ValidationPoint], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Return the learning curve of a training as an SVG element: accuracy with its interval, and the number of skills.

    Args:
        points: The validations, in order; at least one.
        width: The width of the coordinate system; in a smaller one, texts are larger relative to the chart.
        height: The height of the coordinate system.
    """
    last = max(point.samples for point in points) or 1
    most = max(1, *(len(point.skills) for point in points))

    def across(samples: float) -> float:
        return _LEFT + samples / last * (width - _LEFT - _RIGHT)

    def up(share: float) -> float:
        return height - _BOTTOM - share * (height - _TOP - _BOTTOM)

    kept = [point for point in points if point.is_kept]
    label = "Validation accuracy and number of skills after each validation"
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" class="curve" aria-label="{label}">',
        *_axes(across, up, last, most, width - _RIGHT, height),
        _steps([(across(point.samples), up(len(point.skills) / most)) for point in kept], "skills-line"),
        _band(kept, across, up),
        _line([(across(point.samples), up(point.score.value)) for point in kept], "score-line"),
        *(_mark(point, across(point.samples), up(point.score.value)) for point in points),
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
) -> str:
    """Return numbers that change in steps, such as counters by version, as an SVG element.

    Args:
        series: The points of each line, in order, by the name of the line. It becomes the class `series-NAME`.
        label: A description of the chart, for screen readers.
        x_title: The title of the horizontal axis, with its unit.
        y_title: The title of the vertical axis, with its unit.
        width: The width of the coordinate system; in a smaller one, texts are larger relative to the chart.
        height: The height of the coordinate system.

    Raises:
        ValueError: There is no point.

    Example:
        >>> svg = step_chart_svg({"helpful": [(1, 0), (4, 3)]}, label="Counters", x_title="version", y_title="times")
        >>> "series-helpful" in svg, svg.count("<polyline")
        (True, 1)
    """
    places = [place for points in series.values() for place in points]
    if not places:
        raise ValueError("series has no points; a chart needs at least one")
    first, last = min(x for x, _ in places), max(x for x, _ in places)
    lowest, highest = min(0.0, *(y for _, y in places)), max(y for _, y in places)
    y_ticks = _ticks(lowest, highest)
    lowest, highest = y_ticks[0], y_ticks[-1]
    right = width - _LEFT // 2

    def across(x: float) -> float:
        return _LEFT + (x - first) / ((last - first) or 1) * (right - _LEFT)

    def up(y: float) -> float:
        return height - _BOTTOM - (y - lowest) / (highest - lowest) * (height - _TOP - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" class="curve" aria-label="{escape(label)}">',
        f'<text x="{_LEFT - 44}" y="12">{escape(y_title)}</text>',
    ]
    for tick in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
        parts.append(_text(_LEFT - 8, up(tick) + 4, "end", _number(tick)))
    below = height - _BOTTOM + 18
    parts += [_text(across(tick), below, "middle", _number(tick)) for tick in _inner_ticks(first, last)]
    parts.append(_text((_LEFT + right) / 2, height - 6, "middle", x_title))
    for name, points in series.items():
        if not points:
            continue
        shown = _thinned(points)
        corners = [(across(x), up(y)) for x, y in shown]
        parts.append(_steps([*corners, (across(last), corners[-1][1])], f"series series-{escape(name)}"))
        marked = range(len(shown)) if len(shown) <= _MOST_MARKS else [len(shown) - 1]
        for place in marked:
            x, y = corners[place]
            title = f"{name}: {_number(shown[place][1])} at {x_title} {_number(shown[place][0])}"
            mark = f'<circle class="series series-{escape(name)}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            parts.append(f"{mark}<title>{escape(title)}</title></circle>")
    return "\n".join([*parts, "</svg>"])


def _ticks(lowest: float, highest: float) -> list[float]:
    """Return some round numbers, of which the first and the last enclose the range."""
    span = (highest - lowest) or 1
    size = 10 ** math.floor(math.log10(span / 4)) if span > 4 else 1
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= 5)
    first, last = math.floor(lowest / step), max(math.ceil(highest / step), math.floor(lowest / step) + 1)
    return [number * step for number in range(first, last + 1)]


def _inner_ticks(first: float, last: float) -> list[float]:
    """Return both ends of a range, and round numbers that are not too close to them."""
    if last <= first:
        return [first]
    gap = (last - first) / 12
    inner = [tick for tick in _ticks(first, last) if first + gap < tick < last - gap]
    return [first, *inner, last]


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _thinned(points: Sequence[Place]) -> Sequence[Place]:
    if len(points) <= _MOST_POINTS:
        return points
    stride = math.ceil(len(points) / _MOST_POINTS)
    return [*points[:-1:stride], points[-1]]


def _axes(across: _Scale, up: _Scale, last: int, most: int, right: int, height: int) -> Iterator[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = up(share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    for count in sorted({0, most} if most < 4 else {0, most // 2, most}):
        yield f'<text class="skills-text" x="{right + 8}" y="{up(count / most) + 4:.1f}">{count}</text>'
    for samples in sorted({0, last // 2, last}):
        yield f'<text x="{across(samples):.1f}" y="{height - _BOTTOM + 18}" text-anchor="middle">{samples}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{height - 6}" text-anchor="middle">training samples</text>'
    yield f'<text x="{_LEFT - 44}" y="12">accuracy</text>'
    yield f'<text class="skills-text" x="{right + 44}" y="12" text-anchor="end">skills</text>'


def _line(places: Sequence[Place], name: str) -> str:
    return f'<polyline class="{name}" points="{_joined(places)}"/>'


def _steps(places: Sequence[Place], name: str) -> str:
    corners = [places[0]] if places else []
    for (_, y_before), (x, y) in pairwise(places):
        corners += [(x, y_before), (x, y)]
    return _line(corners, name)


def _band(points: Sequence[ValidationPoint], across: _Scale, up: _Scale) -> str:
    upper = [(across(point.samples), up(point.score.high)) for point in points]
    lower = [(across(point.samples), up(point.score.low)) for point in reversed(points)]
    return f'<polygon class="band" points="{_joined([*upper, *lower])}"/>'


def _mark(point: ValidationPoint, x: float, y: float) -> str:
    verdict = "" if point.is_kept else ", rolled back by the gate"
    title = f"after {point.samples} samples: {point.score.value:.1%}, {len(point.skills)} skills{verdict}"
    if point.is_kept:
        return f'<circle class="kept" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(title)}</title></circle>'
    shape = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return f'<path class="rolled-back" d="{shape}"><title>{escape(title)}</title></path>'


def _joined(places: Sequence[Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
