"""The workloads A to G.

An agent answers, a reflector looks at the answer, a manager updates the shared state, and the update is applied:
agent in the foreground, the rest behind the boundary.
"""

from random import Random

from .workload import TimedStep, Workload, fixed, log_normal

SEED = 4


def workload_a(divisor: int) -> Workload:
    """The manager is the bottleneck."""
    return _learning("A", "agent 20 ms, reflect 60 ms x 3, update 30 ms x 1", 200 // divisor, (20, 60, 30))


def workload_b(divisor: int) -> Workload:
    """No station is the bottleneck."""
    return _learning("B", "update 20 ms: all stations equal", 200 // divisor, (20, 60, 20))


def workload_c(divisor: int, *, is_async: bool) -> Workload:
    """No boundary: the workers alone count."""
    count = 192 // divisor
    steps = (
        TimedStep("agent", fixed(20, count)),
        TimedStep("reflect", fixed(60, count)),
        TimedStep("update", fixed(30, count)),
    )
    kind = "async" if is_async else "plain"
    return Workload("C", f"A without a boundary, {kind} steps", steps, (), is_async=is_async)


def workload_d(divisor: int) -> Workload:
    """Latencies that are typical of models."""
    count = 200 // divisor
    random = Random(SEED)
    foreground = (TimedStep("agent", log_normal(20, count, random)),)
    background = (
        TimedStep("reflect", log_normal(60, count, random), servers=3),
        TimedStep("update", log_normal(30, count, random)),
        TimedStep("apply", fixed(0, count)),
    )
    return Workload("D", "A with log-normal latencies", foreground, background)


def workload_e(divisor: int) -> Workload:
    """Short latencies and a long input."""
    return _learning("E", "a tenth of A's latencies, 2,000 samples", 2000 // divisor, (2, 6, 3))


def workload_f(divisor: int) -> Workload:
    """All samples are in the background at once."""
    return _learning("F", "instant foreground, 3 ms x 3, 1 ms x 1, 2,000 samples", 2000 // divisor, (0, 3, 1))


def workload_g(divisor: int) -> Workload:
    """Asynchronous steps in the background."""
    return _learning("G", "E's latencies, async steps, 50 samples", max(4, 50 // divisor), (2, 6, 3), is_async=True)


def _learning(
    name: str, what: str, count: int, milliseconds: tuple[float, float, float], *, is_async: bool = False
) -> Workload:
    agent, reflect, update = milliseconds
    background = (
        TimedStep("reflect", fixed(reflect, count), servers=3),
        TimedStep("update", fixed(update, count)),
        TimedStep("apply", fixed(0, count)),
    )
    return Workload(name, what, (TimedStep("agent", fixed(agent, count)),), background, is_async=is_async)
