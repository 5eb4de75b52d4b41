"""The tables as the documentation's page on performance has them."""

from collections.abc import Sequence

from .rows import CostRow, MakespanRow, Row

COST_HEADINGS = ("case", "what", "median CPU", "to bare loop", "to floor", "goal", "met", "floor")
MAKESPAN_HEADINGS = (
    *("case", "order", "workers", "ideal", "engine", "threads", "`run()` returns", "its threads"),
    *("inversions", "most threads", "goal", "met"),
)


def print_markdown(rows: Sequence[Row]) -> None:
    """Print one table for the costs and one for the makespans, each if it has rows."""
    costs = [_cost_cells(row) for row in rows if isinstance(row, CostRow)]
    makespans = [_makespan_cells(row) for row in rows if isinstance(row, MakespanRow)]
    for headings, cells in ((COST_HEADINGS, costs), (MAKESPAN_HEADINGS, makespans)):
        if cells:
            print("\n".join(map(_line, [headings, ("---",) * len(headings), *cells])), end="\n\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cost_cells(row: CostRow) -> tuple[str, ...]:
    value = f"{row.value:,.0f}" if row.value >= 100 or row.unit == "threads" else f"{row.value:.2f}"
    unit = "" if row.unit == "threads" else f" {row.unit}"
    return (
        *(f"`{row.case}`", row.what, f"{value}{unit}", _ratio(row.to_bare), _ratio(row.to_floor)),
        *(_goal(row.goal), _answer(row.is_met), row.floor),
    )


def _makespan_cells(row: MakespanRow) -> tuple[str, ...]:
    return (
        *(f"`{row.case}`", "input" if row.ordered else "arrival", str(row.workers), f"{row.ideal:.3f} s"),
        *(_ratio(row.to_ideal, 3), _ratio(row.reference_to_ideal, 3)),
        *(_ratio(row.returned, 3), _ratio(row.reference_returned, 3)),
        *("" if row.inversions is None else str(row.inversions), str(row.threads)),
        *(_goal(row.goal), _answer(row.is_met)),
    )


def _ratio(ratio: float | None, digits: int = 2) -> str:
    return "" if ratio is None else f"{ratio:.{digits}f}"


def _goal(goal: float | None) -> str:
    return "" if goal is None else f"≤ {goal:g}"


def _answer(is_met: bool | None) -> str:
    return {True: "yes", False: "**no**", None: ""}[is_met]
