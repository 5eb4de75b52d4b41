"""From measured seconds to the rows of the table."""

from collections.abc import Mapping
from dataclasses import dataclass

from .interleaved import Timed, medians
from .rows import CostRow

BARE = "bare loop"
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Costs:
    """The medians of one case.

    Args:
        case: Its name.
        unit: What the cost is given for, such as a step.
        count: How many of these each contender did.
        seconds: The median CPU seconds of each contender, by name.
    """

    case: str
    unit: str
    count: int
    seconds: Mapping[str, float]

    def row(self, what: str, floor: str, goal: float | None = None) -> CostRow:
        """Return the row of the contender that is called `what`, against the one that is called `floor`."""
        return CostRow(
            case=self.case,
            what=what,
            unit=f"us/{self.unit}",
            value=self.seconds[what] / self.count * MICROSECONDS,
            to_bare=self.seconds[what] / self.seconds[BARE] if BARE in self.seconds else None,
            floor=floor,
            to_floor=self.seconds[what] / self.seconds[floor],
            goal=goal,
        )


def measure(case: str, unit: str, count: int, rounds: int, contenders: Mapping[str, Timed]) -> Costs:
    """Measure the contenders of a case in turns."""
    return Costs(case, unit, count, medians(contenders, rounds))
