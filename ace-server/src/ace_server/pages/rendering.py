"""Renders the templates. Everything is escaped, except the charts of the core, which escape their own texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from ace.evaluation import ValidationPoint, learning_curve_svg, step_chart_svg
from ace.integrations import change_counts, counted, described, place_of, with_hidden_shown
from ace.runners import SampleSummary, Spend
from ace.skill import Skill
from ace.skillbook import HistoryEntry, SkillChange
from ace_server.pages.skill_table import status_of

__all__ = ["STATIC", "address", "learning_curve", "response", "step_chart"]

_CHART: Final = (480, 260)
"""The size of the charts, of which two fit beside each other."""
STATIC: Final = Path(__file__).with_name("static")
"""The style sheet and the scripts."""
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_SERVICE_ID: Final = re.compile(r"(?:batch )?\b(bat|exp|fbk|rel|req|rev|wrk)_[0-9a-f]*([0-9a-f]{6})\b")
_KINDS: Final = {
    "bat": "batch", "exp": "experiment", "fbk": "feedback", "rel": "release", "req": "request", "rev": "review",
    "wrk": "worker",
}  # fmt: skip
_MOST_WORDS: Final = 1500
"""Longer texts are compared by lines: the time for a comparison grows with the square of the number of parts."""


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
    query = {name.removesuffix("_"): value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(query)}" if query else path


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
        finalize=_with_hidden_shown,
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
        "place_of": _shown_place,
        "has_evidence": _has_evidence,
        "learned_ids": _learned_ids,
        "is_of_service": _is_of_service,
        "status_of": status_of,
        "word_diff": word_diff,
    }
    environment.filters |= {
        "minute": _minute,
        "short": _short,
        "day": _day,
        "iso": _iso,
        "duration": _duration,
        "grouped": _grouped,
        "seconds": _seconds,
        "seconds_iso": _seconds_iso,
    }
    return environment


def _with_hidden_shown(value: object) -> object:
    """Return a value that a template shows, so that a reviewer sees all of its characters."""
    return with_hidden_shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _short(text: str) -> str:
    """Return a text in which ids of the service are what they name and their last characters, which are random."""
    return _SERVICE_ID.sub(lambda found: f"{_KINDS[found[1]]} {found[2]}", text)


def _shown_place(sample: str) -> str:
    """Return where the trace of a sample comes from, for people."""
    return _short(place_of(sample))


def _is_of_service(skill: Skill) -> bool:
    """Return whether the service has learned a skill, beside which it keeps no text of a user."""
    return any(place_of(source.trace_id).startswith("fbk_") for source in skill.sources)


def _learned_ids(entry: HistoryEntry) -> list[str]:
    """Return the ids of the skills that a version has added or changed, except for their counters."""
    found: list[str] = []
    events: Sequence[Any] = entry.events  # of kinds that have other fields
    for event in events:
        if hasattr(event, "skill"):
            found.append(event.skill.id)
        elif hasattr(event, "keep_id"):
            found.append(event.keep_id)
        elif getattr(event, "texts", None):
            found.append(event.skill_id)
    return list(dict.fromkeys(found))


def _has_evidence(skill: Skill) -> bool:
    """Return whether something shows that a skill is right, although it has no case that could be asked again."""
    return not skill.cases and bool(skill.evidences)


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


class DiffPart(NamedTuple):
    """A part of a text that was kept, added or removed."""

    kind: Literal["same", "added", "removed"]
    text: str


def word_diff(before: str, after: str) -> list[DiffPart]:
    """Return the parts of both texts, in the order in which they are read.

    Args:
        before: The old text.
        after: The new text.

    Example:
        >>> [(part.kind, part.text) for part in word_diff("Check the units.", "Check all units.")]
        [('same', 'Check '), ('removed', 'the'), ('added', 'all'), ('same', ' units.')]
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > _MOST_WORDS:
        old, new = _LINES.findall(before), _LINES.findall(after)
    parts = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(DiffPart("same", "".join(old[first:last])))
            continue
        if first < last:
            parts.append(DiffPart("removed", "".join(old[first:last])))
        if new_first < new_last:
            parts.append(DiffPart("added", "".join(new[new_first:new_last])))
    return parts


def marked(text: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return a text in pieces, each with whether it is one of the words that were searched for.

    Args:
        words: The words, in any case.

    Example:
        >>> marked("Check the units.", ["UNIT"])
        [('Check the ', False), ('unit', True), ('s.', False)]
    """
    if not words:
        return [(text, False)]
    found = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    pieces, end = [], 0
    for match in found.finditer(text):
        pieces += [(text[end : match.start()], False), (match.group(), True)]
        end = match.end()
    return [piece for piece in [*pieces, (text[end:], False)] if piece[0]]
