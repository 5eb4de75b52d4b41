"""Finds the limits of the set-ups of the service: how much feedback they learn from in a day, and what limits them.

First, a real worker learns from real batches of several books in SQLite, with a model that answers within 10 ms. It
yields what a sample costs the processor, and what a batch costs besides. Then days of feedback are simulated in virtual
time, with a model whose calls take 3 s, and with the rules of the service: a batch of 20 or after an hour, looked for
every 10 s; one batch of a book at a time; a number of batches per worker; four reflections at once, and up to eight in
one update. More feedback comes at noon than at midnight.

The limit of a set-up is the smallest of three: what its books can learn one batch after the other, what its workers
have slots for, and what their processors can do. Each is computed, and the simulation has to reach it: it is given 40 %
(80 % at noon) and 150 % of it. The waits for the database are not simulated.

Exits 1 if the worker learns anything else than it should, or if in the simulation feedback is lost, a book has two
batches at once, more batches run than there are slots, feedback is left over below the limit, or the limit is not
reached.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import sys
import tempfile
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from ace_server import tables
from ace_server.database import Database, new_id, now
from ace_server.jobs import start_worker
from ace_server.seal import Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings
from benchmarks.options import add_quick, parser_of
from benchmarks.update_groups import RuleModel, rule
from benchmarks.wrong_result import WrongResult, require

MODEL_SECONDS: Final = 3.0
DAY: Final = 86_400.0
SETTINGS: Final = ServerSettings()
SEED: Final = 20_261_126


@dataclass(frozen=True)
class Costs:
    """What learning costs a worker besides waiting for the model, in seconds of its processor."""

    sample: float
    """Per sample."""
    batch: float
    """Per batch, besides its samples."""


@dataclass(frozen=True)
class SetUp:
    """Books, workers, and how they learn."""

    name: str
    books: int
    workers: int
    concurrency: int = 1
    together: int = SETTINGS.reflections_per_call
    at_once: int = SETTINGS.reflect_workers


TABLE: Final = (
    SetUp("one team, an update per reflection", 1, 1, together=1),
    SetUp("one team", 1, 1),
    SetUp("one book, 8 reflections at once", 1, 1, at_once=8),
    SetUp("one book, 10 workers", 1, 10),
    SetUp("20 books, one worker of 1 batch", 20, 1),
    SetUp("20 books, 4 workers of 5 batches", 20, 4, concurrency=5),
    SetUp("200 books, 4 workers of 16 batches", 200, 4, concurrency=16),
    SetUp("200 books, one worker of 200 batches", 200, 1, concurrency=200),
)


def measured(books: int, samples: int) -> Costs:
    """Let a real worker learn from real batches, check what it learned, and return what it cost.

    The costs of two sizes of batches tell a sample from a batch.

    Args:
        books: The number of books.
        samples: The number of samples in the larger batches.
    """
    _cpu_seconds(1, 1)  # imports what the others would otherwise import
    small, large = (_cpu_seconds(books, size) for size in (1, samples))
    sample = max(0.0, (large - small) / (books * (samples - 1)))
    return Costs(sample, max(0.0, small / books - sample))


def _cpu_seconds(books: int, size: int) -> float:
    """Return how long the processor works on one batch of each book."""
    with tempfile.TemporaryDirectory() as folder, closing(Database(Path(folder) / "server.db")) as database:
        database.migrate()
        (Path(folder) / "books").mkdir()
        settings = ServerSettings(data=Path(folder), batch_size=size, schedule_seconds=0.1, concurrency=4)
        model = RuleModel()
        service = Service(settings=settings, database=database, seal=Seal([new_key()]), client=model, model="rules")
        names = [f"book{number}" for number in range(books)]
        for name in names:
            with database.writing() as connection:
                connection.execute(sa.insert(tables.book).values(name=name, at=now(), publish="always"))
                for number in range(size):
                    _add_feedback(service, connection, name, number)
        worker = start_worker(service)
        started = time.process_time()
        try:
            while _unlearned(database):
                time.sleep(0.05)
            spent = time.process_time() - started
        finally:
            worker.stop()
        for name in names:
            with service.open_book(name) as book:
                learned = sorted(skill.content for skill in book.skills())
            require(learned == sorted(map(rule, range(size))), f"{name} learned {learned}")
        require(model.calls.count["ReflectorOutput"] == books * size, "a trace was not reflected on once")
        return spent


def _add_feedback(service: Service, connection: sa.Connection, book: str, number: int) -> None:
    request, seal = new_id("req"), service.seal.seal
    figures = {"model_calls": 1, "prompt_tokens": 1, "completion_tokens": 1, "seconds": 1.0}
    texts = {"question": seal(f"What is rule {number}?"), "answer": seal("?")}
    about = {"at": now(), "book": book, "key": "key_1"}
    connection.execute(sa.insert(tables.request).values(id=request, skill_ids="", **about, **texts, **figures))
    connection.execute(
        sa.insert(tables.feedback).values(
            id=new_id("fbk"), kind="feedback", request=request, thumb="down", state="new", **about
        )
    )


def _unlearned(database: Database) -> int:
    with database.reading() as connection:
        states = list(connection.scalars(sa.select(tables.feedback.c.state)))
    require("failed" not in states, "feedback was not learned")
    return sum(state != "learned" for state in states)


def batch_seconds(set_up: SetUp, size: int) -> float:
    """Return how long the calls of one batch take: reflections at once, and updates that take all that wait.

    Args:
        set_up: How many reflections are made at once, and are in one update.
        size: The number of samples.
    """
    waves = [MODEL_SECONDS * (1 + number // set_up.at_once) for number in range(size)]
    done, at = 0, 0.0
    while done < size:
        at = max(at, waves[done])
        waiting = sum(wave <= at for wave in waves) - done
        done += min(waiting, set_up.together)
        at += MODEL_SECONDS
    return at


@dataclass(frozen=True)
class Limits:
    """How many samples a second a set-up can learn, by what limits it."""

    books: float
    slots: float
    processors: float

    @property
    def lowest(self) -> float:
        """The limit."""
        return min(self.books, self.slots, self.processors)

    @property
    def name(self) -> str:
        """What limits it."""
        words = {
            "one batch of a book at a time": self.books,
            "slots of the workers": self.slots,
            "processors of the workers": self.processors,
        }
        return min(words, key=lambda word: words[word])


def limits_of(set_up: SetUp, costs: Costs) -> Limits:
    """Return what limits a set-up, for full batches.

    Args:
        set_up: The set-up.
        costs: What a sample and a batch cost.
    """
    size = SETTINGS.batch_size
    cost = size * costs.sample + costs.batch
    rate = size / (batch_seconds(set_up, size) + cost)
    return Limits(
        books=set_up.books * rate,
        slots=set_up.workers * set_up.concurrency * rate,
        processors=set_up.workers * size / cost if cost else math.inf,
    )


@dataclass
class Simulation:
    """Feedback and batches in virtual time.

    Args:
        set_up: The set-up.
        costs: What a sample and a batch cost the processor of a worker.
        rate: How many feedbacks a second there are, on average over a day, for all books.
        seed: Determines when they come.
    """

    set_up: SetUp
    costs: Costs
    rate: float
    seed: int = SEED
    received: int = 0
    learned: int = 0
    longest: float = 0.0
    """The longest time from a feedback to the end of its batch, in seconds."""
    _new: list[deque[float]] = field(init=False)
    _batches: list[deque[list[float]]] = field(init=False)
    _ready: deque[int] = field(init=False, default_factory=deque)
    """The books that have a batch to learn, and are not learning from another one."""
    _busy: set[int] = field(init=False, default_factory=set)
    _running: list[tuple[float, int, int, list[float]]] = field(init=False, default_factory=list)
    _free: list[int] = field(init=False)
    _processor: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._new = [deque() for _ in range(self.set_up.books)]
        self._batches = [deque() for _ in range(self.set_up.books)]
        self._free = [self.set_up.concurrency] * self.set_up.workers
        self._processor = [0.0] * self.set_up.workers
        self._seconds = {size: batch_seconds(self.set_up, size) for size in range(1, SETTINGS.batch_size + 1)}

    def run(self, days: float) -> None:
        """Let days pass.

        Args:
            days: Their number.
        """
        step = SETTINGS.schedule_seconds
        for tick in range(int(days * DAY / step)):
            at = tick * step
            self._arrive(at, step)
            self._make_batches(at + step)
            self._work_until(at + step)
        require(self.received == self.learned + self.waiting, "feedback was lost or learned twice")

    @property
    def waiting(self) -> int:
        """How many feedbacks are not learned yet."""
        queued = sum(len(times) for batches in self._batches for times in batches)
        return sum(map(len, self._new)) + queued + sum(len(entry[3]) for entry in self._running)

    def _arrive(self, at: float, step: float) -> None:
        wave = 1 - math.cos(2 * math.pi * at / DAY)  # from 0 at midnight to 2 at noon
        expected = self.rate * wave * step
        count = _poisson(self._random, expected)
        self.received += count
        for time_in_step in sorted(self._random.random() for _ in range(count)):
            self._new[self._random.randrange(self.set_up.books)].append(at + time_in_step * step)

    def _make_batches(self, at: float) -> None:
        for book, new in enumerate(self._new):
            while len(new) >= SETTINGS.batch_size:
                self._queue(book, [new.popleft() for _ in range(SETTINGS.batch_size)])
            if new and at - new[0] >= SETTINGS.batch_age:
                self._queue(book, list(new))
                new.clear()

    def _queue(self, book: int, times: list[float]) -> None:
        if not self._batches[book] and book not in self._busy:
            self._ready.append(book)
        self._batches[book].append(times)

    def _work_until(self, at: float) -> None:
        """Start batches where there is a slot, and end those whose time has come."""
        self._start(at - SETTINGS.schedule_seconds)
        while self._running and self._running[0][0] <= at:
            ended, book, worker, times = heapq.heappop(self._running)
            self._busy.remove(book)
            if self._batches[book]:
                self._ready.append(book)
            self._free[worker] += 1
            self.learned += len(times)
            self.longest = max(self.longest, ended - times[0])
            self._start(ended)

    def _start(self, at: float) -> None:
        while self._ready and (free := max(self._free)):
            book, worker = self._ready.popleft(), self._free.index(free)
            require(book not in self._busy, "a book has two batches at once")
            times = self._batches[book].popleft()
            self._free[worker] -= 1
            self._busy.add(book)
            # The processor of a worker serves its batches one after the other; the calls of the model overlap.
            cost = len(times) * self.costs.sample + self.costs.batch
            self._processor[worker] = max(self._processor[worker], at) + cost
            end = max(at + self._seconds[len(times)] + cost, self._processor[worker])
            heapq.heappush(self._running, (end, book, worker, times))
            require(len(self._running) <= self.set_up.workers * self.set_up.concurrency, "more batches than slots")


def _poisson(chance: random.Random, expected: float) -> int:
    if expected > 50:
        return max(0, round(chance.gauss(expected, math.sqrt(expected))))
    count, product, least = 0, chance.random(), math.exp(-expected)
    while product > least:
        count += 1
        product *= chance.random()
    return count


def simulated(set_up: SetUp, costs: Costs, days: float) -> str:
    """Simulate a set-up below and above its limit, check the results, and return a row of the table.

    Args:
        set_up: The set-up.
        costs: What a sample and a batch cost.
        days: How many days are simulated.
    """
    limits = limits_of(set_up, costs)
    below = Simulation(set_up, costs, limits.lowest * 0.4)  # 80 % of the limit at noon
    below.run(days)
    least = 2 * SETTINGS.batch_size * set_up.books
    require(below.waiting <= least, f"{set_up.name}: {below.waiting} feedbacks are left over below the limit")
    above = Simulation(set_up, costs, limits.lowest * 1.5)
    above.run(days)
    reached = above.learned / (days * DAY)
    night = 1 / 12  # at the beginning, there is nothing to do yet
    require(reached >= limits.lowest * (1 - night / days - 0.05), f"{set_up.name}: only {reached:.2f}/s were reached")
    require(reached <= limits.lowest * 1.01, f"{set_up.name}: {reached:.2f}/s are more than possible")
    per_day = f"{limits.lowest * DAY:,.0f}"
    return (
        f"{set_up.name:<36} {limits.lowest:>9.2f} {per_day:>11} {reached / limits.lowest:>8.0%} "
        f"{below.longest / 60:>9.0f} min   {limits.name}"
    )


def main() -> int:
    """Measure, simulate and print the table.

    Returns:
        The exit code.
    """
    parser = parser_of("service_scale", __doc__)
    add_quick(parser, "2 books and one day")
    options = parser.parse_args()
    try:
        costs = measured(2 if options.quick else 6, 5 if options.quick else SETTINGS.batch_size)
        print(f"a sample costs {1000 * costs.sample:.1f} ms of the processor, a batch {1000 * costs.batch:.1f} ms more")
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        print(f"{'set-up':<36} {'samples/s':>9} {'a day':>11} {'reached':>8} {'longest at 80%':>13}   limit")
        for set_up in TABLE:
            many = set_up.books >= 100
            if options.quick and many:
                continue
            print(simulated(set_up, costs, 1 if many or options.quick else 2), flush=True)
    except WrongResult as wrong:
        print(f"wrong result: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
