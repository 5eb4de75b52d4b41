"""Renders the templates. Everything is escaped, except the charts of the core, which escape their own texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from ace.evaluation import ValidationPoint, learning_curve_svg, step_chart_svg
from ace.integrations import change_counts, counted, described, place_of
from ace.runners import SampleSummary, Spend
from ace.skillbook import SkillChange
from ace_server.pages.skill_table import status_of
from ace_server.pages.text_diff import marked, word_diff

__all__ = ["STATIC", "address", "learning_curve", "response", "step_chart"]

_CHART: Final = (480, 260)
"""The size of the charts, of which two fit beside each other."""
STATIC: Final = Path(__file__).with_name("static")
"""The style sheet and the scripts."""


def address(*parts: str, **parameters: str | int | None) -> str:
    """Return the path of a page, with everything quoted.

    Args:
        *parts: The parts of its path.
        **parameters: Its parameters; those that are None or empty are omitted, and an underscore at the end is removed.

    Example:
        >>> address("books", "team a", "skills", "maths-00001", version=3, q="")
        '/books/team%20a/skills/maths-00001?version=3'
    """
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name.removesuffix("_"): value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def response(template: str, values: Mapping[str, object], *, status: int = 200) -> HTMLResponse:
    """Return a template as a response.

    Args:
        template: The name of its file.
        values: What it shows.
        status: The HTTP status.
    """
    return HTMLResponse(_environment().get_template(template).render(values), status)


def learning_curve(points: Sequence[ValidationPoint]) -> Markup:
    """Return the learning curve of a training.

    Args:
        points: The validations; at least one.
    """
    return Markup(learning_curve_svg(points, width=_CHART[0], height=_CHART[1]))  # the core escapes every text in it


def step_chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    label: str,
    x_title: str,
    y_title: str,
    top: float | None = None,
) -> Markup:
    """Return a chart of numbers that change in steps.

    Args:
        series: The points of each line, by its name.
        label: What it shows.
        x_title: The title of the horizontal axis.
        y_title: The title of the vertical axis.
        top: What the vertical axis reaches at least.
    """
    width, height = _CHART
    svg = step_chart_svg(series, label=label, x_title=x_title, y_title=y_title, width=width, height=height, top=top)
    return Markup(svg)  # as above


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ace_server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "address": address,
        "change_counts": change_counts,
        "cost_of": _cost_of,
        "counted": counted,
        "change_words": _change_words,
        "is_end_of_run": _is_end_of_run,
        "marked": marked,
        "outcome_of": _outcome_of,
        "place_of": place_of,
        "status_of": status_of,
        "word_diff": word_diff,
    }
    environment.filters |= {
        "minute": _minute,
        "day": _day,
        "iso": _iso,
        "duration": _duration,
        "grouped": _grouped,
        "seconds": _seconds,
        "seconds_iso": _seconds_iso,
    }
    return environment


def _change_words(change: SkillChange) -> str:
    """Return what a change has done to a skill. Its cases are named by their questions, which people know."""
    words = described(change.event, change.skill_id)
    for skill in (change.before, change.after):
        for case in () if skill is None else skill.cases:
            words = words.replace(f"case {case.id}", f"case “{case.question}”")
    return words


def _outcome_of(sample: SampleSummary, changes: Mapping[int, Sequence[SkillChange]]) -> str:
    """Return the outcome of a sample in words.

    Args:
        sample: The sample.
        changes: Those of each version of its run, as far as the history can be read.
    """
    version = sample.version
    is_unchanged = version is not None and version in changes and not changes[version]
    return "no change" if is_unchanged or sample.state == "done" else sample.state


def _cost_of(spend: Spend) -> str:
    """Return the cost of some calls, as far as it is known; empty without calls."""
    if not spend.calls:
        return ""
    if spend.unpriced_calls == spend.calls:
        return "unpriced"
    return f"${spend.cost_usd:.4f}" + (f" and {spend.unpriced_calls:,} unpriced" if spend.unpriced_calls else "")


def _is_end_of_run(sample: str) -> bool:
    """Return whether something was not learned from a sample, but found after the last one of a run or an epoch."""
    return re.match(r"end (after|of epoch) \d+", sample) is not None


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # written by another framework, in a format of its own


def _minute(text: str) -> str:
    time = _time(text)
    return text if time is None else f"{time:%Y-%m-%d %H:%M}"


def _day(text: str) -> str:
    time = _time(text)
    return text if time is None else f"{time:%Y-%m-%d}"


def _iso(text: str) -> str:
    time = _time(text)
    return "" if time is None else time.isoformat(timespec="seconds")


def _seconds(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"


def _seconds_iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    if 0 < seconds < 0.0005:
        return "< 1 ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _grouped(number: float) -> str:
    return f"{number:,}"
