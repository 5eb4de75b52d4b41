"""The results as a Markdown table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from benchmarks.learning_quality.comparing import Pairing, pairing, wilson_interval
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
    return _table(head, _quality_rows([each for each in outcomes if not each.skipped], titles))


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
    learning = [each for each in outcomes if each.learned.traces]
    return _table(head, _learning_rows(learning, titles)) if learning else ""


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the outcomes as JSON values, with every answer."""
    return [
        {**asdict(each), "right": sum(each.right), "answers": [answer.to_dict() for answer in each.answers]}
        for each in outcomes
    ]


def _quality_rows(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> Iterator[Cells]:
    sets = list(dict.fromkeys(each.set_name for each in outcomes))
    for name in [*sets, *([ALL_SETS] if len(sets) > 1 else [])]:
        wanted = sets if name == ALL_SETS else [name]
        baseline = _orders(outcomes, wanted, BASELINE)
        for method, title in titles.items():
            orders = _orders(outcomes, wanted, method)
            if not orders:
                continue
            found = [each for each in outcomes if each.method == method]
            against = "" if method == BASELINE or not baseline else _compared(pairing(baseline, orders))
            yield (name, title, _per_order(orders), _accuracy(orders), against, *_tokens(found, wanted))


def _orders(outcomes: Sequence[Outcome], sets: Sequence[str], method: str) -> list[list[bool]]:
    """Return for each order whether the questions of these sets are answered right; empty if a set is missing."""
    by_set = {
        name: [list(each.right) for each in outcomes if (each.set_name, each.method) == (name, method)] for name in sets
    }
    if not all(by_set.values()) or len({len(orders) for orders in by_set.values()}) > 1:
        return []
    return [[right for orders in each for right in orders] for each in zip(*by_set.values(), strict=True)]


def _per_order(orders: Sequence[Sequence[bool]]) -> str:
    return f"{', '.join(str(sum(order)) for order in orders)} of {len(orders[0])}"


def _accuracy(orders: Sequence[Sequence[bool]]) -> str:
    accuracy = fmean(fmean(order) for order in orders)
    low, high = wilson_interval(accuracy, len(orders[0]))
    return f"{_percent(accuracy)} [{100 * low:.0f}, {100 * high:.0f}]"


def _compared(found: Pairing) -> str:
    return f"+{found.gained} -{found.lost}, p = {found.p:.2g}"


def _tokens(outcomes: Sequence[Outcome], sets: Sequence[str]) -> tuple[str, str]:
    measured = [each for each in outcomes if each.set_name in sets]
    return (
        f"{fmean(each.input_tokens_beyond_question for each in measured):.0f}",
        f"{fmean(each.output_tokens for each in measured):.0f}",
    )


def _learning_rows(outcomes: Sequence[Outcome], titles: Mapping[str, str]) -> Iterator[Cells]:
    for name in dict.fromkeys(each.set_name for each in outcomes):
        for method, title in titles.items():
            found = [each.learned for each in outcomes if (each.set_name, each.method) == (name, method)]
            if not found:
                continue
            traces, skills = sum(each.traces for each in found), sum(each.skills for each in found)
            cases = sum(each.cases for each in found)
            yield (
                name,
                title,
                f"{sum(each.calls for each in found) / traces:.1f}",
                " / ".join(f"{total / traces:.0f}" for total in _learning_tokens(found)),
                ", ".join(str(each.skills) for each in found),
                _percent(sum(each.proven for each in found) / skills) if skills else "-",
                _percent(sum(each.cases_passing for each in found) / cases) if cases else "-",
                ", ".join(str(each.rolled_back) for each in found),
            )


def _learning_tokens(found: Sequence[Learned]) -> tuple[int, int]:
    return sum(each.input_tokens for each in found), sum(each.output_tokens for each in found)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _table(head: Cells, rows: Iterator[Cells]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
