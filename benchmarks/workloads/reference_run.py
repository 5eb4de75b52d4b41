"""A workload on plain threads, kept for the whole run: what can be had on this machine, just now."""

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from ..contexts import SixFields, make_contexts
from .measured import Measured, require_all_done
from .waiting_steps import WaitingStep
from .workload import Workload

Receive = Callable[[SixFields], None]


class _Station:
    """Steps that a number of threads take samples through, and hand them on."""

    def __init__(self, steps: Sequence[WaitingStep], servers: int, receive: Receive) -> None:
        self._steps = steps
        self._receive = receive
        self._queue: SimpleQueue[SixFields | None] = SimpleQueue()
        self.threads = [threading.Thread(target=self._serve) for _ in range(servers)]

    def put(self, ctx: SixFields) -> None:
        self._queue.put(ctx)

    def end(self) -> None:
        for _ in self.threads:
            self._queue.put(None)
        for thread in self.threads:
            thread.join()

    def _serve(self) -> None:
        while (ctx := self._queue.get()) is not None:
            self._receive(_through(self._steps, ctx))


class _InInputOrder:
    """Hands samples on in input order, whatever order they come in."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._lock = threading.Lock()
        self._early: dict[int, SixFields] = {}
        self._next = 0

    def put(self, ctx: SixFields) -> None:
        with self._lock:
            self._early[ctx.sample] = ctx
            while self._next in self._early:
                self._receive(self._early.pop(self._next))
                self._next += 1


class _Outputs:
    """Where all samples end."""

    def __init__(self, count: int) -> None:
        self.contexts: list[SixFields | None] = [None] * count
        self.complete = threading.Event()
        self._missing = count
        self._lock = threading.Lock()

    def put(self, ctx: SixFields) -> None:
        with self._lock:
            self.contexts[ctx.sample] = ctx
            self._missing -= 1
            if self._missing == 0:
                self.complete.set()


def run_on_threads(workload: Workload, workers: int, *, ordered: bool) -> Measured:
    """Run it once with the same steps, all plain, and check what came out."""
    steps = [WaitingStep(step) for step in workload.steps]
    outputs = _Outputs(workload.count)
    cpu = time.process_time()
    start = time.perf_counter()
    stations, receive = _build(workload, steps, outputs.put, ordered=ordered)
    for station in stations:
        for thread in station.threads:
            thread.start()
    _run_foreground(steps[: len(workload.foreground)], make_contexts(workload.count), workers, receive)
    returned = time.perf_counter() - start
    outputs.complete.wait()
    makespan = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu
    for station in stations:
        station.end()
    require_all_done(workload, workers, steps, outputs.contexts)
    threads = max(step.attendance.threads for step in steps)
    return Measured(makespan, returned, cpu_seconds, steps[-1].attendance.inversions(), threads)


def _build(
    workload: Workload, steps: Sequence[WaitingStep], receive: Receive, *, ordered: bool
) -> tuple[list[_Station], Receive]:
    groups = [[step] for step in steps[len(workload.foreground) :]]
    if ordered:
        groups[-2:] = [[*groups[-2], *groups[-1]]]
    stations: list[_Station] = []
    for group in reversed(groups):
        is_lane = ordered and not stations
        stations.append(_Station(group, group[0].max_workers, receive))
        receive = _InInputOrder(stations[-1].put).put if is_lane else stations[-1].put
    return stations, receive


def _run_foreground(
    steps: Sequence[WaitingStep], contexts: Sequence[SixFields], workers: int, receive: Receive
) -> None:
    source = iter(contexts)

    def work() -> None:
        for ctx in source:
            receive(_through(steps, ctx))

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _through(steps: Sequence[WaitingStep], ctx: SixFields) -> SixFields:
    for step in steps:
        ctx = step(ctx)
    return ctx
