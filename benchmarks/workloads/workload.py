"""What the simulated workloads consist of."""

from dataclasses import dataclass
from random import Random

MILLISECOND = 0.001


@dataclass(frozen=True)
class TimedStep:
    """One step of a workload.

    Args:
        name: Its name in the traces.
        seconds: How long it waits for each sample.
        servers: How many samples may be inside at once, where it is behind the boundary.
    """

    name: str
    seconds: tuple[float, ...]
    servers: int = 1


@dataclass(frozen=True)
class Workload:
    """Samples that pass steps which wait.

    Args:
        name: The letter that it goes by.
        what: What it shows.
        foreground: The steps before the boundary.
        background: The steps behind it; none where there is no boundary. The last two, which write the shared
            state, have one server each; where the order counts they are one lane.
        is_async: Whether the steps of the background are asynchronous; without a background, all steps.
    """

    name: str
    what: str
    foreground: tuple[TimedStep, ...]
    background: tuple[TimedStep, ...]
    is_async: bool = False

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.foreground[0].seconds)

    @property
    def steps(self) -> tuple[TimedStep, ...]:
        """All steps."""
        return self.foreground + self.background


def fixed(milliseconds: float, count: int) -> tuple[float, ...]:
    """The same latency for each of `count` samples, in seconds."""
    return (milliseconds * MILLISECOND,) * count


def log_normal(milliseconds: float, count: int, random: Random) -> tuple[float, ...]:
    """Latencies with a long tail, as those of models are; `milliseconds` is their mean."""
    sigma = 0.5
    mean_is_one = -sigma * sigma / 2
    return tuple(milliseconds * MILLISECOND * random.lognormvariate(mean_is_one, sigma) for _ in range(count))
