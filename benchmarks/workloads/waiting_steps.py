"""Steps that wait, and see to it that nothing is done twice, out of turn or by too many at once."""

import asyncio
import threading
import time
from dataclasses import dataclass, field

from ..contexts import SixFields
from .workload import TimedStep

LANE = "shared state"


@dataclass
class Attendance:
    """Who was inside a step.

    Args:
        order: The samples, as they came in.
        most: The most that were inside at once.
        threads: The most threads that the process had then.
    """

    order: list[int] = field(default_factory=list)
    most: int = 0
    threads: int = 0
    _inside: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, sample: int) -> None:
        """Note that a sample comes in."""
        with self._lock:
            self.order.append(sample)
            self._inside += 1
            self.most = max(self.most, self._inside)
            self.threads = max(self.threads, threading.active_count())

    def leave(self) -> None:
        """Note that one has gone."""
        with self._lock:
            self._inside -= 1

    def inversions(self) -> int:
        """Count the samples that came after one that is behind them in the input."""
        latest = -1
        count = 0
        for sample in self.order:
            count += sample < latest
            latest = max(latest, sample)
        return count


class _Declared:
    """What a step declares.

    Args:
        step: How long it waits.
        is_boundary: Whether the background begins with it.
        lane_key: What the step writes, where it is in the lane; None where it is not.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __init__(self, step: TimedStep, *, is_boundary: bool = False, lane_key: object | None = None) -> None:
        self.step = step
        self.max_workers = step.servers
        self.async_boundary = is_boundary
        self.lane = LANE if lane_key is not None else None
        self.lane_key = lane_key
        self.attendance = Attendance()


class WaitingStep(_Declared):
    """Waits on its thread."""

    def __call__(self, ctx: SixFields) -> SixFields:
        self.attendance.enter(ctx.sample)
        if seconds := self.step.seconds[ctx.sample]:
            time.sleep(seconds)
        self.attendance.leave()
        return ctx.replace(trace=(*ctx.trace, self.step.name))


class AsyncWaitingStep(_Declared):
    """Waits on a loop."""

    async def __call__(self, ctx: SixFields) -> SixFields:
        self.attendance.enter(ctx.sample)
        if seconds := self.step.seconds[ctx.sample]:
            await asyncio.sleep(seconds)
        self.attendance.leave()
        return ctx.replace(trace=(*ctx.trace, self.step.name))
