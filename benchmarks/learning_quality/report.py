"""The results as a Markdown table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from ace.evaluation import share_interval
from benchmarks.learning_quality.comparing import Pairing, pairing
from benchmarks.learning_quality.outcomes import Learned, Outcome

__all__ = ["as_json", "learning_table", "quality_table"]

BASELINE = "raw-memory"
ALL_SETS = "all sets"

Cells = Sequence[str]


def quality_table(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> str:
    """Return how many questions each method answers, with the difference from raw memory and the tokens.

    Args:
        outcomes: Of all sets, orders and methods; those that were skipped are omitted.
        titles: The titles of the methods by their names, in the order of the rows.
    """
    head = ("set", "method", "right, per order", "accuracy [95 %]", "against raw memory", "tokens in", "out")
    return _table(head, _quality_rows([outcome for outcome in outcomes if not outcome.skipped], titles))


def learning_table(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> str:
    """Return what learning used and what it made, for the methods that learn.

    Args:
        outcomes: Of all sets, orders and methods.
        titles: The titles of the methods by their names, in the order of the rows.
    """
    head = (
        "set",
        "method",
        "calls per trace",
        "tokens in / out per trace",
        "skills",
        "proven",
        "own cases",
        "reverted",
    )
    learning = [outcome for outcome in outcomes if outcome.learned.traces]
    return _table(head, _learning_rows(learning, titles)) if learning else ""


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the outcomes as JSON values, with every answer."""
    return [
        {**asdict(outcome), "right": sum(outcome.right), "answers": [answer.to_dict() for answer in outcome.answers]}
        for outcome in outcomes
    ]


def _quality_rows(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> Iterator[Cells]:
    sets = list(dict.fromkeys(outcome.set_name for outcome in outcomes))
    for name in [*sets, *([ALL_SETS] if len(sets) > 1 else [])]:
        wanted = sets if name == ALL_SETS else [name]
        baseline = _orders(outcomes, wanted, BASELINE)
        for method, title in titles.items():
            orders = _orders(outcomes, wanted, method)
            if not orders:
                continue
            found = [outcome for outcome in outcomes if outcome.method == method]
            against = "" if method == BASELINE or not baseline else _compared(pairing(baseline, orders))
            yield (name, title, _per_order(orders), _accuracy(orders), against, *_tokens(found, wanted))


def _orders(outcomes: Sequence[Outcome], sets: Sequence[str], method: str) -> list[list[bool]]:
    """Return for each order whether the questions of these sets are answered right; empty if a set is missing."""
    by_set = {
        name: [list(outcome.right) for outcome in outcomes if (outcome.set_name, outcome.method) == (name, method)]
        for name in sets
    }
    if not all(by_set.values()) or len({len(orders) for orders in by_set.values()}) > 1:
        return []
    return [[right for orders in methods for right in orders] for methods in zip(*by_set.values(), strict=True)]


def _per_order(orders: Sequence[Sequence[bool]]) -> str:
    return f"{', '.join(str(sum(order)) for order in orders)} of {len(orders[0])}"


def _accuracy(orders: Sequence[Sequence[bool]]) -> str:
    accuracy = fmean(fmean(order) for order in orders)
    interval = share_interval(accuracy, len(orders[0]))
    return f"{_percent(accuracy)} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def _compared(found: Pairing) -> str:
    return f"+{found.gained} -{found.lost}, p = {found.p:.2g}"


def _tokens(outcomes: Sequence[Outcome], sets: Sequence[str]) -> tuple[str, str]:
    measured = [outcome for outcome in outcomes if outcome.set_name in sets]
    return (
        f"{fmean(outcome.input_tokens_beyond_question for outcome in measured):.0f}",
        f"{fmean(outcome.output_tokens for outcome in measured):.0f}",
    )


def _learning_rows(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> Iterator[Cells]:
    for name in dict.fromkeys(outcome.set_name for outcome in outcomes):
        for method, title in titles.items():
            found = [outcome.learned for outcome in outcomes if (outcome.set_name, outcome.method) == (name, method)]
            if not found:
                continue
            traces, skills = sum(learned.traces for learned in found), sum(learned.skills for learned in found)
            cases = sum(learned.cases for learned in found)
            yield (
                name,
                title,
                f"{sum(learned.calls for learned in found) / traces:.1f}",
                " / ".join(f"{total / traces:.0f}" for total in _learning_tokens(found)),
                ", ".join(str(learned.skills) for learned in found),
                _percent(sum(learned.proven for learned in found) / skills) if skills else "-",
                _percent(sum(learned.cases_passing for learned in found) / cases) if cases else "-",
                ", ".join(str(learned.rolled_back) for learned in found),
            )


def _learning_tokens(found: Sequence[Learned]) -> tuple[int, int]:
    return sum(learned.input_tokens for learned in found), sum(learned.output_tokens for learned in found)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _table(head: Cells, rows: Iterator[Cells]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
