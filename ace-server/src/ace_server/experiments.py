"""Experiments: requests of one book are answered with different releases, and compared."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ace.evaluation import bootstrap_difference, permutation_test
from ace_server import releases, tables
from ace_server.database import now

if TYPE_CHECKING:
    from ace_server.api.schemas import ArmReport, Difference
    from ace_server.database import Database

__all__ = ["Arm", "RunningExperiment", "arms_from_json", "arms_to_json", "report", "stop"]

_RANGE: Final = 2**64
_POINTS: Final = 0.05
"""The difference of scores that a comparison should be able to see."""
_TWO_SIDED_5_PERCENT: Final = 1.96
_POWER_80_PERCENT: Final = 0.8416
_FEWEST_SCORES: Final = 5
"""With fewer scores, their spread cannot be estimated."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A release and its share of the requests."""

    release: str
    """The id of the release."""
    weight: float
    """Its share, in relation to the weights of the others."""


@dataclass(frozen=True, slots=True)
class RunningExperiment:
    """An experiment of a book.

    Example:
        >>> experiment = RunningExperiment("exp_1", (Arm("rel_1", 1.0), Arm("rel_2", 3.0)))
        >>> experiment.arm_of("user 7") == experiment.arm_of("user 7")
        True
        >>> [sum(experiment.arm_of(str(user)) == arm for user in range(1000)) // 100 for arm in (0, 1)]
        [2, 7]
    """

    id: str
    """Its id."""
    arms: tuple[Arm, ...]
    """Its arms."""

    def arm_of(self, subject: str) -> int:
        """Return the number of the arm that a subject is always in.

        Args:
            subject: The subject of the request, or else the id of the request.
        """
        digest = hashlib.sha256(f"{self.id}\0{subject}".encode("utf-8", "surrogatepass")).digest()
        place = int.from_bytes(digest[:8]) / _RANGE * sum(arm.weight for arm in self.arms)
        for number, arm in enumerate(self.arms):
            place -= arm.weight
            if place < 0:
                return number
        return max(number for number, arm in enumerate(self.arms) if arm.weight > 0)  # rounding


def arms_from_json(text: str) -> tuple[Arm, ...]:
    """Read the arms from the column in which they are stored.

    Args:
        text: The column `arms`.
    """
    return tuple(Arm(load["release"], load["weight"]) for load in json.loads(text))


def arms_to_json(arms: Sequence[Arm]) -> str:
    """Return the arms as text, as they are stored.

    Args:
        arms: The arms.
    """
    return json.dumps([{"release": arm.release, "weight": arm.weight} for arm in arms])


def stop(connection: sa.Connection, experiment: str, winner: int | None, arms: Sequence[Arm], *, by: str) -> bool:
    """Stop an experiment, and publish the release of the arm that won, if one is named.

    Args:
        connection: A transaction that writes.
        experiment: The id of the experiment.
        winner: The number of the arm that won.
        arms: Its arms.
        by: The id of the key.

    Returns:
        Whether it was running.
    """
    table = tables.experiment
    stopped = connection.execute(
        sa.update(table)
        .where(table.c.id == experiment, table.c.state == "running")
        .values(state="stopped", stopped_at=now(), winner=winner)
    )
    if stopped.rowcount == 1 and winner is not None:
        releases.publish(connection, arms[winner].release, by=by, reason=f"won experiment {experiment}")
    return stopped.rowcount == 1


def report(database: Database, experiment: str, arms: Sequence[Arm]) -> list[ArmReport]:
    """Return what is known about the arms of an experiment. Each request counts once, with its newest feedback.

    Args:
        database: The database.
        experiment: The id of the experiment.
        arms: Its arms.
    """
    from ace_server.api.schemas import ArmReport

    request, feedback = tables.request, tables.feedback
    with database.reading() as connection:
        totals = {
            row.arm: row
            for row in connection.execute(
                sa.select(
                    request.c.arm,
                    sa.func.count().label("requests"),
                    sa.func.sum(request.c.prompt_tokens + request.c.completion_tokens).label("tokens"),
                    sa.func.sum(request.c.cost).label("cost"),
                    sa.func.count(request.c.cost).label("priced"),
                    sa.func.avg(request.c.seconds).label("seconds"),
                )
                .where(request.c.experiment == experiment)
                .group_by(request.c.arm)
            )
        }
        said = connection.execute(
            sa.select(
                request.c.arm,
                request.c.id,
                feedback.c.thumb,
                feedback.c.score,
                feedback.c.correction.is_not(None).label("is_corrected"),
            )
            .join(feedback, feedback.c.request == request.c.id)
            .where(request.c.experiment == experiment)
            .order_by(feedback.c.id)
        ).all()
    scores = [_scores(said, number) for number in range(len(arms))]
    reports = []
    for number, arm in enumerate(arms):
        total = totals.get(number)
        requests = total.requests if total is not None else 0
        own = [row for row in said if row.arm == number]
        reports.append(
            ArmReport(
                release=arm.release,
                weight=arm.weight,
                requests=requests,
                feedback_rate=len({row.id for row in own}) / requests if requests else None,
                mean_score=statistics.fmean(scores[number]) if scores[number] else None,
                corrections=len({row.id for row in own if row.is_corrected}),
                tokens=total.tokens if total is not None else 0,
                cost=total.cost if total is not None and total.priced == requests else None,
                seconds=total.seconds if total is not None else None,
                difference=_difference(scores[0], scores[number], requests) if number else None,
            )
        )
    return reports


def _scores(said: Sequence[sa.Row[Any]], arm: int) -> list[float]:
    """Return the newest score of each request; a thumb counts as 1 or 0, a correction alone as 0."""
    found: dict[str, float] = {}
    for row in said:
        if row.arm != arm:
            continue
        if row.score is not None:
            found[row.id] = row.score
        elif row.thumb is not None:
            found[row.id] = float(row.thumb == "up")
        elif row.is_corrected:
            found[row.id] = 0.0
    return list(found.values())


def _difference(first: Sequence[float], second: Sequence[float], requests: int) -> Difference | None:
    from ace_server.api.schemas import Difference

    if not first or not second:
        return None
    interval = bootstrap_difference(first, second)
    return Difference(
        value=interval.value,
        low=interval.low,
        high=interval.high,
        p=permutation_test(first, second),
        requests_needed=_requests_needed(first, second, requests),
    )


def _requests_needed(first: Sequence[float], second: Sequence[float], requests: int) -> int | None:
    """Return how many more requests an arm needs to see a difference of 5 points, in 4 of 5 cases at p < 0.05."""
    if min(len(first), len(second)) < _FEWEST_SCORES:
        return None
    variance = statistics.variance(first) + statistics.variance(second)
    scores = math.ceil((_TWO_SIDED_5_PERCENT + _POWER_80_PERCENT) ** 2 * variance / _POINTS**2)
    missing = max(0, scores - min(len(first), len(second)))
    return math.ceil(missing * requests / len(second))
