"""The validations of a training as a drawing: the score with its interval, and the number of skills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise

from ace.evaluation.training_log import ValidationPoint

__all__ = ["learning_curve"]

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 56, 16, 44


def learning_curve(points: Sequence[ValidationPoint]) -> str:
    """Return the drawing as an SVG element.

    Args:
        points: The validations, in order; at least one.
    """
    last = max(point.samples for point in points) or 1
    most = max(1, *(len(point.skills) for point in points))

    def across(samples: float) -> float:
        return _LEFT + samples / last * (_WIDTH - _LEFT - _RIGHT)

    def up(share: float) -> float:
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    kept = [point for point in points if point.is_kept]
    label = "Validation accuracy and number of skills after each validation"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" class="curve" aria-label="{label}">',
        *_axes(across, up, last, most),
        _steps([(across(point.samples), up(len(point.skills) / most)) for point in kept], "skills-line"),
        _band(kept, across, up),
        _line([(across(point.samples), up(point.score.value)) for point in kept], "score-line"),
        *(_mark(point, across(point.samples), up(point.score.value)) for point in points),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _axes(across: Callable[[float], float], up: Callable[[float], float], last: int, most: int) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = up(share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    for count in sorted({0, most} if most < 4 else {0, most // 2, most}):
        yield f'<text class="skills-text" x="{right + 8}" y="{up(count / most) + 4:.1f}">{count}</text>'
    for samples in sorted({0, last // 2, last}):
        yield f'<text x="{across(samples):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{samples}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">training samples</text>'


def _line(places: Sequence[tuple[float, float]], name: str) -> str:
    return f'<polyline class="{name}" points="{_joined(places)}"/>'


def _steps(places: Sequence[tuple[float, float]], name: str) -> str:
    corners = [places[0]] if places else []
    for (_, y_before), (x, y) in pairwise(places):
        corners += [(x, y_before), (x, y)]
    return _line(corners, name)


def _band(points: Sequence[ValidationPoint], across: Callable[[float], float], up: Callable[[float], float]) -> str:
    upper = [(across(point.samples), up(point.score.high)) for point in points]
    lower = [(across(point.samples), up(point.score.low)) for point in reversed(points)]
    return f'<polygon class="band" points="{_joined([*upper, *lower])}"/>'


def _mark(point: ValidationPoint, x: float, y: float) -> str:
    verdict = "" if point.is_kept else ", rolled back by the gate"
    title = f"after {point.samples} samples: {point.score.value:.1%}, {len(point.skills)} skills{verdict}"
    if point.is_kept:
        return f'<circle class="kept" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(title)}</title></circle>'
    shape = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return f'<path class="taken-back" d="{shape}"><title>{escape(title)}</title></path>'


def _joined(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
