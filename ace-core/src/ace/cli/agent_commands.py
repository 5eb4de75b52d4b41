"""What the commands of coding agents share: how learning is stopped, what it has cost, and what it has led to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ace.cli.console import note, print_text
from ace.cli.signals import run_interruptibly

if TYPE_CHECKING:
    from ace.pipeline import CancellationToken
    from ace.runners import Spend

__all__ = ["learn_until_stopped", "print_spend", "skill_count"]

T = TypeVar("T")


def learn_until_stopped(learn: Callable[[], T], token: CancellationToken) -> T:
    """Learn from turns until all are learned, or until Ctrl-C: the first one waits for the current turns.

    Args:
        learn: Learns, and begins no further turn when the token is cancelled.
        token: Is cancelled by the first Ctrl-C.
    """

    def stop() -> None:
        token.cancel()
        note("ace: stopping after the current turns; press Ctrl-C again to stop immediately")

    return run_interruptibly(
        learn, on_first=stop, on_second=lambda: note("ace: stopped immediately; what was learned is kept")
    )


def print_spend(when: str, spent: Spend, limit_usd: float | None = None) -> None:
    """Print what automatic learning has cost.

    Args:
        when: The period, such as `today`.
        spent: The calls of that period, and their cost.
        limit_usd: The limit on that cost, in US dollars; None if there is none.
    """
    limit = "" if limit_usd is None else f" of {limit_usd:g}"
    unpriced = f"; the price of {spent.unpriced_calls} calls is not known" if spent.unpriced_calls else ""
    print_text(
        f"Spent {when}: {spent.cost_usd:.4f}{limit} USD, {spent.calls} calls, {spent.input_tokens:,} tokens in, "
        f"{spent.output_tokens:,} out{unpriced}."
    )


def skill_count(books: Iterable[Path]) -> int:
    """Return how many skills there are in skillbooks; one that cannot be read counts as empty.

    Example:
        >>> skill_count([])
        0
    """
    from ace.skillbook import Skillbook, SkillbookError

    found = 0
    for path in books:
        with suppress(SkillbookError), Skillbook.open(path) as book:
            found += len(book)
    return found
