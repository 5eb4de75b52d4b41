"""How many threads a backlog takes."""

import threading

from ace.pipeline import Pipeline

from ..checks import returns_the_contexts
from ..contexts import SixFields, make_contexts
from ..rows import CostRow
from ..scale import Scale
from ..wrong_result import require

WORKERS = 16
LIMITS = (3, 1, 1)


class _Counter:
    """The most threads that were seen at once."""

    def __init__(self) -> None:
        self.most = 0
        self._lock = threading.Lock()

    def look(self) -> None:
        with self._lock:
            self.most = max(self.most, threading.active_count())


class _Foreground:
    """Meets the other workers, so that all of them are there, then looks."""

    requires = frozenset({"sample"})
    provides = frozenset[str]()

    def __init__(self, counter: _Counter) -> None:
        self._counter = counter
        self._all_there = threading.Barrier(WORKERS)

    def __call__(self, ctx: SixFields) -> SixFields:
        if ctx.sample < WORKERS:
            self._all_there.wait(timeout=60)
        self._counter.look()
        return ctx


class _Background:
    """Holds its samples until it is released."""

    requires = frozenset({"sample"})
    provides = frozenset[str]()

    def __init__(self, counter: _Counter, may_go_on: threading.Event, limit: int, *, is_first: bool) -> None:
        self._counter = counter
        self._may_go_on = may_go_on
        self.max_workers = limit
        self.async_boundary = is_first

    def __call__(self, ctx: SixFields) -> SixFields:
        self._counter.look()
        self._may_go_on.wait()
        self._counter.look()
        return ctx


def threads(scale: Scale) -> list[CostRow]:
    """Threads of the process with a backlog behind steps of limits 3, 1 and 1, and 16 workers (goal 8)."""
    counter = _Counter()
    may_go_on = threading.Event()
    backlog = scale.backlog
    pipeline = Pipeline[SixFields]([_Foreground(counter)], background_limit=backlog + 1)
    for place, limit in enumerate(LIMITS):
        pipeline.then(_Background(counter, may_go_on, limit, is_first=place == 0))
    contexts = make_contexts(backlog)
    results = pipeline.run(contexts, workers=WORKERS)
    stats = pipeline.background_stats()
    waiting = stats["active"] + stats["queued"]
    may_go_on.set()
    pipeline.wait_for_background()
    require(waiting == backlog, f"the backlog was {waiting} instead of {backlog}: {stats}")
    returns_the_contexts(contexts)(results)
    least = 1 + WORKERS + sum(LIMITS)
    return [
        CostRow(
            case="threads",
            what=f"threads with a backlog of {backlog:,}",
            unit="threads",
            value=counter.most,
            to_bare=None,
            floor=f"this one, {WORKERS} workers, one for each place in a step ({least})",
            to_floor=counter.most / least,
            goal=1.1,
        )
    ]
