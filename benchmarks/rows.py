"""The rows of the two tables."""

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

NEAR_THE_REFERENCE = 1.01


@dataclass(frozen=True)
class CostRow:
    """What one thing costs, against the same work without the engine.

    Args:
        case: The case that was run.
        what: What was done.
        unit: What `value` counts.
        value: The engine's median.
        to_bare: Its ratio to a bare loop that calls the same functions; None where there is no such loop.
        floor: The cheapest code that keeps the promise.
        to_floor: The ratio to that code.
        goal: The ratio that `to_floor` shall not exceed; None where none is set.
    """

    case: str
    what: str
    unit: str
    value: float
    to_bare: float | None
    floor: str
    to_floor: float
    goal: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return None if self.goal is None else self.to_floor <= self.goal


@dataclass(frozen=True)
class MakespanRow:
    """How long a simulated workload took, against the optimum and against threads without an engine.

    Args:
        case: The case that was run.
        what: What the workload does.
        ordered: Whether the serial section serves the samples in input order.
        workers: How many samples are in the foreground at once.
        ideal: The optimum, in seconds.
        to_ideal: The engine's median as a ratio to the optimum.
        reference_to_ideal: The same of the threads without an engine, measured in between.
        returned: When `run()` returned, as a ratio to the optimum; None without a boundary.
        reference_returned: The same of the threads.
        inversions: How many samples reached the serial section after one that came later in the input; None without
            a boundary.
        threads: The most threads that the process had at once.
        cpu_seconds: The engine's CPU time.
        reference_cpu_seconds: That of the threads.
        goal: What `to_ideal` shall not exceed, unless it is within 1 % of the threads' figure.
        returned_goal: What `returned` shall not exceed.
    """

    case: str
    what: str
    ordered: bool
    workers: int
    ideal: float
    to_ideal: float
    reference_to_ideal: float
    returned: float | None
    reference_returned: float | None
    inversions: int | None
    threads: int
    cpu_seconds: float
    reference_cpu_seconds: float
    goal: float | None = None
    returned_goal: float | None = None

    @property
    def to_reference(self) -> float:
        """The ratio to the threads without an engine, which had to live with the same other load."""
        return self.to_ideal / self.reference_to_ideal

    @property
    def is_met(self) -> bool | None:
        """Whether the goals are met; None where there are none."""
        if self.goal is None:
            return None
        in_time = self.to_ideal <= self.goal or self.to_reference <= NEAR_THE_REFERENCE
        return in_time and self._returns_in_time()

    def _returns_in_time(self) -> bool:
        if self.returned_goal is None or self.returned is None or self.reference_returned is None:
            return True
        return self.returned <= self.returned_goal or self.returned <= self.reference_returned * NEAR_THE_REFERENCE


Row: TypeAlias = CostRow | MakespanRow

_KINDS: dict[str, type[CostRow] | type[MakespanRow]] = {"cost": CostRow, "makespan": MakespanRow}


def to_json(row: Row) -> dict[str, object]:
    """Return a row as what JSON can hold."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(row, cls))
    return {"kind": kind, **asdict(row), "is_met": row.is_met}


def from_json(values: dict[str, Any]) -> Row:  # Any: parsed JSON
    """Return the row that `to_json` made this of."""
    fields = {name: value for name, value in values.items() if name not in {"kind", "is_met"}}
    return _KINDS[values["kind"]](**fields)
