"""What automatic learning has cost, call by call, so that it can be kept within a daily budget.

There is one file for each day. Each call is a line in it, appended as soon as the answer has arrived, so that the cost
is known even if the learner is killed. Days are those of the local time zone.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ace.atomic_file import append_line
from ace.json_fields import number_in
from ace.protocols.observers import Event, ModelCalled

__all__ = ["Spend", "SpendLedger", "spend_of_days"]

_FOLDER = "spend"


@dataclass(frozen=True)
class Spend:
    """The usage of some calls of a model."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """The cost of the calls whose price is known."""
    unpriced_calls: int = 0
    """The number of calls whose price is not known; the budget does not count them."""


class SpendLedger:
    """An observer that records each model call in a folder, with its tokens and its cost.

    Args:
        folder: The folder; the files, one for each day, are in its subfolder `spend`.

    Example:
        >>> import tempfile
        >>> from ace.protocols.observers import emit, observing
        >>> folder = Path(tempfile.mkdtemp())
        >>> with observing(SpendLedger(folder)):  # around a run, whose clients emit such events
        ...     emit(ModelCalled("", "", "gpt-4o-mini", "Reflector", 900, 100, 0.0002, 1.5, recorded=False))
        >>> spend_of_days(folder, days=30).cost_usd
        0.0002
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Record a call, unless its answer was recorded and thus paid for before."""
        if not isinstance(event, ModelCalled) or event.recorded:
            return
        line = {
            "model": event.model,
            "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens,
            "cost_usd": event.cost,
        }
        with self._lock:
            append_line(_path(self._folder, _now()), json.dumps(line))


def spend_of_days(folder: Path, days: int = 1) -> Spend:
    """Return what was spent today, or in the last days.

    Args:
        folder: The folder that a `SpendLedger` was given.
        days: The number of days, including today.
    """
    today = _now()
    calls = [each for day in range(days) for each in _calls(_path(folder, today - timedelta(days=day)))]
    costs = [number_in(each, "cost_usd") for each in calls]
    return Spend(
        calls=len(calls),
        input_tokens=int(sum(number_in(each, "input_tokens") or 0 for each in calls)),
        output_tokens=int(sum(number_in(each, "output_tokens") or 0 for each in calls)),
        cost_usd=sum(cost for cost in costs if cost is not None),
        unpriced_calls=sum(cost is None for cost in costs),
    )


def _now() -> datetime:
    return datetime.now(UTC).astimezone()  # in the time zone of the user


def _path(folder: Path, day: datetime) -> Path:
    return folder / _FOLDER / f"{day:%Y-%m-%d}.jsonl"


def _calls(path: Path) -> list[dict[str, object]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:  # nothing was learned on that day
        return []
    found = []
    for line in lines:
        try:
            call = json.loads(line)
        except ValueError:  # the last line, or one that a crash has cut
            continue
        if isinstance(call, dict):
            found.append(call)
    return found
