"""Proposals of the skill manager that are requested before the turns of their samples.

Samples pass the lane of the skillbook one at a time, and most of that time `UpdateStep` waits for a model. So when one
sample is asked about, those that wait behind it are asked about too: in the same request (a group), with further
requests at the same time, or both. What a model proposed before its sample's turn was for an older skillbook: it is
used unless the skillbook has changed where it matters.

Who calls what, and on which thread: the step of the sample that is in the lane calls all methods of `Proposals`, on its
own thread or loop, and makes the request about the group that this sample begins. `_ask_ahead` is also called on the
threads on which further samples arrive at the lane. The other requests are made on cached threads of the engine.

Invariants:

- A group consists of samples that wait when it is formed; no sample is waited for.
- Each sample belongs to at most one group at a time. If the request about a group fails, the first of its samples whose
  turn comes fails with it; the others, and those that it did not get to, join new groups at their turns.
- At its turn, a sample is asked about alone at most twice: if its part of an answer is not usable, and if that does not
  fit the skillbook any more. Nothing else is written to the skillbook meanwhile.
- The mark of the skillbook is taken before the prompt is written. So a change that the model did not see is always
  noticed; one that it did see may be taken for one that it did not.
- A sample is asked about ahead only while it waits, which is checked and noted under one lock. So nothing is requested
  for a sample that has had its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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

__all__ = ["Found", "Group", "Proposal", "Proposals", "conflicts"]

_NEARLY_THE_SAME: Final = 0.75
"""The similarity, by words, from which a text is a near duplicate of a new skill. It is above the threshold of the
deduplication, which asks a model about each pair: here, a pair that is not a duplicate costs a request."""
_MOST_TEXT: Final = 48_000
"""How many characters the reflections of one group have at most, unless it is only one: as many as one may have."""
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


Found = Mapping[SampleKey, Proposal | None]
"""What was proposed for the samples of a group; None for one that has to be asked about alone. A sample that is missing
was not asked about."""


@dataclass(slots=True, eq=False)
class Group:
    """Samples that are asked about in one request."""

    contexts: Sequence[ACEStepContext]
    """Their contexts, in the order of the samples."""
    answer: Future[Found]
    """What was proposed."""
    is_due: bool = False
    """Whether it is asked about at the turn of its first sample, and not ahead of it."""
    was_awaited: bool = False
    """Whether one of the samples that were asked about ahead has had its turn, and so the error if there is one."""


@final
class Proposals:
    """The proposals for the samples of one run that have been requested ahead of their turns.

    How many samples are asked about ahead depends on how often that was in vain: the number starts at 15, is halved at
    each conflict, down to none, and grows by one after every second turn without one.

    Args:
        ask: Asks about a group, on the thread that calls it.
        together: How many samples one request may be about.
    """

    def __init__(self, ask: Callable[[Sequence[ACEStepContext]], Found], *, together: int) -> None:
        self._ask = ask
        self._together = together
        self._lock = threading.Lock()
        self._groups: dict[SampleKey, Group] = {}
        self._unused: list[Future[Found]] = []
        self._ahead = _FIRST
        self._turns = 0

    @contextmanager
    def asking_ahead(self, queue: LaneQueue, *, most: int, requests: int) -> Iterator[None]:
        """Ask about the samples that wait in the lane now, and about those that arrive inside the block.

        Args:
            queue: The samples that wait.
            most: How many of them are asked about at once, the first ones first.
            requests: How many requests are made at once.
        """
        if not requests:
            yield
            return
        ask = partial(self._ask_ahead, queue, most, requests)
        with queue.watched(ask):
            ask()
            yield

    def _ask_ahead(self, queue: LaneQueue, most: int, requests: int) -> None:
        started: list[tuple[WaitingSample, Group]] = []
        with self._lock:  # what waits now has not been taken, and will not be before the lock is released
            limit = min(most, self._ahead)
            open_groups = [group for group in self._groups.values() if not group.answer.done()]
            room = limit - len(open_groups)
            requests -= len({id(group) for group in open_groups if not group.is_due})
            found = self._to_ask(queue, limit)[: max(0, room)]
            while found and requests > 0:
                group = self._grouped([ctx for _, ctx in found])
                started.append((found[0][0], group))
                found = found[len(group.contexts) :]
                requests -= 1
        for sample, group in started:
            work = partial(sample.variables.run, partial(self._answer, group))
            try:
                threads.start(work)
            except RuntimeError:  # no thread can be started: this one, on which the sample before has arrived, asks
                work()

    def _to_ask(self, queue: LaneQueue, most: int) -> list[tuple[WaitingSample, ACEStepContext]]:
        """Return those of the first samples that wait that are not in a group and have to be asked about."""
        found: list[tuple[WaitingSample, ACEStepContext]] = []
        for sample in queue.waiting(most):
            ctx = sample.context
            key = ctx.metadata.get("sample_key")
            if not isinstance(key, SampleKey) or not isinstance(ctx, ACEStepContext) or key in self._groups:
                continue
            if _needs_asking(ctx):
                found.append((sample, ctx))
        return found

    def _grouped(self, waiting: Sequence[ACEStepContext]) -> Group:
        """Return a new group that begins with the first of these samples."""
        from concurrent.futures import Future  # only runs that ask ahead need it

        first, *others = waiting
        chosen = [first]
        if self._together > 1 and not _has_failed(first):
            room = _MOST_TEXT - _size(first)
            for ctx in others[: self._together - 1]:
                room -= _size(ctx)
                if room < 0 or _has_failed(ctx):
                    break
                chosen.append(ctx)
        group = Group(chosen, Future())
        for ctx in chosen:
            self._groups[ctx.metadata["sample_key"]] = group
        return group

    def _answer(self, group: Group) -> None:
        try:
            group.answer.set_result(self._ask(group.contexts))
        except BaseException as error:  # raised at the turn of the sample
            group.answer.set_exception(error)

    def begun(self, ctx: ACEStepContext, queue: LaneQueue) -> Group:
        """Return a new group that begins with the sample whose turn it is. The caller has to ask about it.

        Args:
            ctx: The context of the sample.
            queue: The samples that wait.
        """
        with self._lock:
            ahead = min(self._together - 1, self._ahead)
            waiting = self._to_ask(queue, ahead + len(self._groups))[:ahead] if ahead else []
            group = self._grouped([ctx, *(each for _, each in waiting)])
            group.is_due = True
            del self._groups[ctx.metadata["sample_key"]]
            return group

    def taken(self, ctx: ACEStepContext) -> Group | None:
        """Return the group of a sample, or None if it is in none. Call it once, when its turn has come.

        Args:
            ctx: The context of the sample.
        """
        with self._lock:
            group = self._groups.pop(ctx.metadata["sample_key"], None)
            if group is None:
                return None
            if all(asked.reflection is not ctx.reflection for asked in group.contexts):  # a step of the lane changed it
                self._unused.append(group.answer)
                self._ahead //= 2
                return None
            has_failed = group.answer.done() and group.answer.exception() is not None
            if has_failed and (group.is_due or group.was_awaited):
                return None
            group.was_awaited = True
            return group

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
            unused = [*self._unused, *(group.answer for group in self._groups.values())]
        wait(unused)


def _needs_asking(ctx: ACEStepContext) -> bool:
    """Return whether a sample will be asked about at its turn."""
    return ctx.reflection is not None and ctx.skillbook is not None and not is_learned(ctx) and not is_known(ctx)


def _has_failed(ctx: ACEStepContext) -> bool:
    """Return whether the answers about a sample were not usable in an earlier call; it is asked about alone then."""
    return bool(ctx.metadata.get("attempts", {}).get("SkillManager"))


def _size(ctx: ACEStepContext) -> int:
    return 0 if ctx.reflection is None else len(ctx.reflection.model_dump_json(exclude={"raw"}))
