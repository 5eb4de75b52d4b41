"""Proposals of the skill manager that are requested before the turns of their samples.

Samples pass the lane of the skillbook one at a time, and most of that time `UpdateStep` waits for a model. So when one
sample is asked about, those that wait behind it are asked about too, each with a call of its own. What a model proposed
before its sample's turn was for an older skillbook: it is used unless the skillbook has changed where it matters.

Who calls what, and on which thread: the step of the sample that is in the lane calls all methods of `Proposals`, on its
own thread or loop. `ask_ahead` is also called on the threads on which further samples arrive at the lane. The requests
are made on cached threads of the engine.

Invariants:

- There is at most one request ahead for each sample, and at most one more when it is the sample's turn, because nothing
  else is written to the skillbook during that.
- The mark of the skillbook is taken before the prompt is written. So a change that the model did not see is always
  noticed; one that it did see may be taken for one that it did not.
- A sample is asked about ahead only while it waits, which is checked and noted under one lock. So nothing is requested
  for a sample that has had its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

from ace.context import ACEStepContext
from ace.pipeline.threads import threads
from ace.skillbook.store import SampleKey
from ace.steps.context_access import is_learned
from ace.steps.trace_cases import is_known

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ace.context import SkillbookView
    from ace.outputs import SkillManagerOutput
    from ace.pipeline import LaneQueue, WaitingSample
    from ace.redaction import Redactor
    from ace.skillbook import BookMark

__all__ = ["Proposal", "Proposals", "conflicts"]

_NEARLY_THE_SAME: Final = 0.75
"""The similarity, by words, from which a text is a near duplicate of a new skill. It is above the threshold of the
deduplication, which asks a model about each pair: here, a pair that is not a duplicate costs a request."""
_FIRST: Final = 15
"""About how many samples it asks ahead at first, at most: with traces that teach the same, most of it is in vain."""
_TURNS_TO_GROW: Final = 2
"""After how many turns without a conflict one more sample is asked about ahead."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the skill manager has proposed for a sample."""

    output: SkillManagerOutput
    question: str
    """The question of the sample, redacted."""
    redactor: Redactor
    mark: BookMark | None
    """The moment of the skillbook that the proposal is for; None if its sample had its turn then."""


def conflicts(proposal: Proposal, book: SkillbookView) -> bool:
    """Return whether a skill manager that saw the skillbook of now would perhaps not propose this.

    It is so if an operation concerns a skill that has changed since, or if its text is a near duplicate of one that is
    new.

    Args:
        proposal: The proposal.
        book: The skillbook.
    """
    operations = proposal.output.update.operations
    if proposal.mark is None or not operations:
        return False
    changed = book.changed_since(proposal.mark)
    if changed is None:
        return True
    if not changed:
        return False
    if any(operation.skill_id in changed for operation in operations):
        return True
    from ace.deduplication.detector import lexically_similar  # most runs do not need it

    found = [book.get_skill(id) for id in changed]
    new = [skill.content for skill in found if skill is not None and skill.is_active]
    texts = [operation.content for operation in operations if operation.content]
    pairs = lexically_similar([*new, *texts], _NEARLY_THE_SAME)
    return any(first < len(new) <= second for first, second, _ in pairs)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that was made ahead."""

    ctx: ACEStepContext
    answer: Future[Proposal]


@final
class Proposals:
    """The proposals for the samples of one run that have been requested ahead of their turns.

    How many samples are asked about ahead depends on how often that was in vain: the number starts at 15, is halved at
    each conflict, down to none, and grows by one after every second turn without one.

    Args:
        ask: Asks about a sample, on the thread that calls it.
    """

    def __init__(self, ask: Callable[[ACEStepContext], Proposal]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._asked: dict[SampleKey, _Asked] = {}
        self._unused: list[Future[Proposal]] = []
        self._ahead = _FIRST
        self._turns = 0

    @contextmanager
    def asking_ahead(self, queue: LaneQueue, most: int) -> Iterator[None]:
        """Ask about the samples that wait in the lane now, and about those that arrive inside the block.

        Args:
            queue: The samples that wait.
            most: How many of them are asked about at once, the first ones first.
        """
        ask = partial(self._ask_ahead, queue, most)
        with queue.watched(ask):
            ask()
            yield

    def _ask_ahead(self, queue: LaneQueue, most: int) -> None:
        from concurrent.futures import Future  # only runs that ask ahead need it

        started: list[tuple[WaitingSample, _Asked]] = []
        with self._lock:  # what waits now has not been taken, and will not be before the lock is released
            limit = min(most, self._ahead)
            room = limit - sum(not asked.answer.done() for asked in self._asked.values())
            for sample in queue.waiting(limit):
                ctx = sample.context
                key = ctx.metadata.get("sample_key")
                if not isinstance(key, SampleKey) or not isinstance(ctx, ACEStepContext) or key in self._asked:
                    continue
                if room > 0 and _needs_asking(ctx):
                    room -= 1
                    self._asked[key] = asked = _Asked(ctx, Future())
                    started.append((sample, asked))
        for sample, asked in started:
            work = partial(sample.variables.run, partial(self._answer, asked))
            try:
                threads.start(work)
            except RuntimeError:  # no thread can be started: this one, on which the sample before has arrived, asks
                work()

    def _answer(self, asked: _Asked) -> None:
        try:
            asked.answer.set_result(self._ask(asked.ctx))
        except BaseException as error:  # raised at the turn of the sample
            asked.answer.set_exception(error)

    def take(self, ctx: ACEStepContext) -> Future[Proposal] | None:
        """Return the proposal that was requested for a sample, or None. Call it once, when its turn has come.

        Args:
            ctx: The context of the sample.
        """
        key = ctx.metadata.get("sample_key")
        with self._lock:
            asked = self._asked.pop(key, None) if isinstance(key, SampleKey) else None
        if asked is None:
            return None
        if asked.ctx.reflection is not ctx.reflection:  # a step of the lane has changed it
            with self._lock:
                self._unused.append(asked.answer)
                self._ahead //= 2
            return None
        return asked.answer

    def turn_ended(self, most: int, *, in_vain: bool) -> None:
        """Note the end of a turn.

        Args:
            most: How many samples may be asked about ahead.
            in_vain: Whether the proposal had to be requested again.
        """
        with self._lock:
            self._ahead = min(most, self._ahead)
            self._turns = 0 if in_vain else self._turns + 1
            if in_vain:
                self._ahead //= 2
            elif self._turns >= _TURNS_TO_GROW:
                self._turns = 0
                self._ahead = min(most, self._ahead + 1)

    def wait(self) -> None:
        """Wait for the requests that no turn has waited for, because the run was stopped."""
        from concurrent.futures import wait

        with self._lock:
            unused = [*self._unused, *(each.answer for each in self._asked.values())]
        wait(unused)


def _needs_asking(ctx: ACEStepContext) -> bool:
    """Return whether a sample will be asked about at its turn."""
    return ctx.reflection is not None and ctx.skillbook is not None and not is_learned(ctx) and not is_known(ctx)
