"""Lanes: sections of a pipeline that one sample at a time passes, in input order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import final
from weakref import WeakValueDictionary

from .station import AnyWork, Station


@final
class Lane:
    """One serial section for all who share its name and key.

    Args:
        name: The `lane` that the steps declare.
        key: The object that they write, such as a skillbook; kept alive as long as the lane.
    """

    def __init__(self, name: str, key: object | None) -> None:
        self.name = name
        self.key = key
        self._station = Station(limit=1)
        self._count = itertools.count()

    def submit(self, work: AnyWork) -> None:
        """Do `work` when all that was submitted before is done. It must not raise."""
        self._station.submit(work, index=next(self._count))


@final
class Turns:
    """Brings the samples of one run into a lane in input order, whatever order they arrive in."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        # Re-entrant: where the system has no thread left, the lane's work is done right here.
        self._lock = threading.RLock()
        self._next = 0
        self._arrived: dict[int, AnyWork | None] = {}

    def arrive(self, index: int, work: AnyWork) -> None:
        """Do `work` in the lane when all samples before `index` have arrived or given up.

        A sample that has given up and comes all the same (Ctrl-C may fall between the two) goes in at once.
        """
        with self._lock:
            if index > self._next:
                self._arrived[index] = work
                return
            if index == self._next:
                self._next += 1
            self._lane.submit(work)
            self._advance()

    def give_up(self, index: int) -> None:
        """Let the samples behind `index` pass. Without effect if it has arrived already."""
        with self._lock:
            if index >= self._next:
                self._arrived.setdefault(index, None)
                self._advance()

    def _advance(self) -> None:
        while self._next in self._arrived:
            work = self._arrived.pop(self._next)
            self._next += 1
            if work is not None:
                self._lane.submit(work)


@final
class InputOrder:
    """The input order of the samples of one run, or of several that came one after the other.

    Args:
        lanes: The lanes that a sample passes, one for each section.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.turns = tuple(Turns(lane) for lane in lanes)
        self.issued = 0
        self._lock = threading.Lock()
        self._first = 0
        self._settled: set[int] = set()

    def issue(self) -> int:
        """Number the next sample. The caller sees to it that only one thread at a time asks."""
        index = self.issued
        self.issued += 1
        return index

    def is_first(self, index: int) -> bool:
        """Whether every sample before `index` is settled."""
        with self._lock:
            return index <= self._first

    def is_settled(self, index: int) -> bool:
        """Whether the sample is in the background already, or never will be."""
        with self._lock:
            return index < self._first or index in self._settled

    def settle(self, index: int) -> None:
        """Say that the sample's foreground part is over: it is in the background, or never will be."""
        with self._lock:
            if index > self._first:
                self._settled.add(index)
            elif index == self._first:
                self._first += 1
                while self._first in self._settled:
                    self._settled.remove(self._first)
                    self._first += 1

    def give_up(self, index: int) -> None:
        """Let the samples behind `index` pass in every lane that it has not reached."""
        self.settle(index)
        for turns in self.turns:
            turns.give_up(index)


_lanes: WeakValueDictionary[tuple[str, int], Lane] = WeakValueDictionary()
_lanes_lock = threading.Lock()


def lane_for(name: str, key: object | None) -> Lane:
    """Return the lane that everybody with this name and this very key object shares."""
    with _lanes_lock:
        lane = _lanes.get((name, id(key)))
        if lane is None:
            lane = _lanes[name, id(key)] = Lane(name, key)
        return lane
