"""The tables as plain text."""

from collections.abc import Sequence

from .rows import CostRow, MakespanRow, Row

COST_HEADINGS = ("case", "what", "median CPU", "unit", "to bare", "to floor", "goal", "met", "floor")
MAKESPAN_HEADINGS = (
    *("case", "workload", "order", "workers", "ideal s", "to ideal", "threads to ideal", "run() returns"),
    *("its threads", "inversions", "peak threads", "CPU s", "threads CPU s", "goal", "met"),
)


def print_tables(rows: Sequence[Row], *, quick: bool) -> None:
    """Print one table for the costs and one for the makespans, each if it has rows."""
    costs = [_cost_cells(row) for row in rows if isinstance(row, CostRow)]
    makespans = [_makespan_cells(row) for row in rows if isinstance(row, MakespanRow)]
    for headings, cells in ((COST_HEADINGS, costs), (MAKESPAN_HEADINGS, makespans)):
        if cells:
            print("\n".join(_aligned([headings, *cells])), end="\n\n")
    if quick:
        print("These are figures of a quick run: they show that all works, not how quickly.")


def _cost_cells(row: CostRow) -> tuple[str, ...]:
    value = f"{row.value:,.0f}" if row.value >= 100 or row.unit == "threads" else f"{row.value:.3f}"
    return (
        *(row.case, row.what, value, row.unit, _ratio(row.to_bare), _ratio(row.to_floor)),
        *(_goal(row.goal), _answer(row.is_met), row.floor),
    )


def _makespan_cells(row: MakespanRow) -> tuple[str, ...]:
    return (
        *(row.case, row.what, "input" if row.ordered else "arrival", str(row.workers), f"{row.ideal:.3f}"),
        *(f"{row.to_ideal:.3f}", f"{row.reference_to_ideal:.3f}"),
        *(
            _ratio(row.returned, 3),
            _ratio(row.reference_returned, 3),
            "-" if row.inversions is None else str(row.inversions),
            str(row.threads),
        ),
        *(f"{row.cpu_seconds:.2f}", f"{row.reference_cpu_seconds:.2f}", _goal(row.goal), _answer(row.is_met)),
    )


def _ratio(ratio: float | None, digits: int = 2) -> str:
    return "-" if ratio is None else f"{ratio:.{digits}f}"


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def _goal(goal: float | None) -> str:
    return "-" if goal is None else f"<= {goal:g}"


def _answer(is_met: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[is_met]


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return [padded[0], "  ".join("-" * width for width in widths), *padded[1:]]
