"""Prefetches proposals of the skill manager before the turns of their samples.

Samples pass the lane of the skillbook one at a time, and most of that time `UpdateStep` waits for a model. So the model
is asked about the samples waiting in the lane too: in the same request (a group), with concurrent requests, or both. A
prefetched proposal was made for an older skillbook; it is used unless a change of the skillbook affects it.

Who calls what, and on which thread: the step of the sample in the lane calls all methods of `Proposals`, on its own
thread or loop, and makes the request for the group that this sample begins. `_ask_ahead` is also called on the threads
on which further samples arrive at the lane. The other requests are made on cached threads of the engine.

Invariants:

- A group consists of samples that are waiting when it is formed; the step never waits for more of them.
- Each sample belongs to at most one group at a time. If the request for a group fails, the first of its samples whose
  turn comes fails too; the others, and those that the request did not include, join new groups at their turns.
- At its turn, there are at most two requests for a sample alone: one if its part of an answer was not usable, and one
  if the proposal conflicts with the skillbook. Nothing else is written to the skillbook meanwhile.
- The mark of the skillbook is set before the prompt is written. So a change that the model has not seen is always
  detected; one that it has seen may be treated as unseen.
- A proposal is prefetched only while its sample waits, which is checked and recorded under one lock. So nothing is
  requested for a sample that has had its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

from ace.calls.sample_context import is_learned
from ace.context import ACEStepContext
from ace.loop.insight_steps import has_only_pending_insights
from ace.pipeline.threads import threads
from ace.proof.trace_facts import is_known, open_cases
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ace.context import SkillbookView
    from ace.outputs import SkillManagerOutput
    from ace.pipeline import LaneQueue, WaitingSample
    from ace.redaction import Redactor
    from ace.skillbook import BookMark

__all__ = ["Found", "Group", "Proposal", "Proposals", "conflicts"]

_NEARLY_THE_SAME: Final = 0.75
"""The minimum lexical similarity at which a text is a near duplicate of a new skill. It is above the threshold of
deduplication, which asks a model about each pair: here, a false positive costs a request."""
_MOST_TEXT: Final = 48_000
"""The maximum length of the reflections of a group, in characters; a single reflection may be longer."""
_FIRST: Final = 15
"""The initial limit of prefetched samples: with traces that teach the same, most of them are wasted."""
_TURNS_TO_GROW: Final = 2
"""The number of turns without a conflict after which the limit of prefetched samples grows by one."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposal of the skill manager for a sample."""

    output: SkillManagerOutput
    question: str
    """The question of the sample, redacted."""
    redactor: Redactor
    mark: BookMark | None
    """The mark of the skillbook that the proposal was made for; None if it was the sample's turn."""


def conflicts(proposal: Proposal, book: SkillbookView) -> bool:
    """Return whether the skill manager might not propose this for the current skillbook.

    That is the case if an operation concerns a skill that has changed since, or if its text is a near duplicate of a
    new skill.

    Args:
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
"""The proposals for the samples of a group; None for a sample that needs a request of its own. Samples that the request
did not include are missing."""


@dataclass(slots=True, eq=False)
class Group:
    """The samples of one request."""

    contexts: Sequence[ACEStepContext]
    """Their contexts, in the order of the samples."""
    answer: Future[Found]
    """The proposals."""
    is_due: bool = False
    """Whether the request is made at the turn of the first sample rather than before."""
    was_awaited: bool = False
    """Whether one of its prefetched samples has had its turn, and raised the error if there was one."""


@final
class Proposals:
    """The prefetched proposals of one run.

    The number of samples to prefetch adapts to how often a proposal was wasted: it starts at 15, is halved at each
    conflict, down to 0, and grows by one after every second turn without a conflict.

    Args:
        ask: Makes the request for a group, on the calling thread.
        together: The maximum number of samples in one request.
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
        """Prefetch the proposals for the samples that wait in the lane, and for those that arrive inside the block.

        Args:
            queue: The waiting samples.
            most: The maximum number of prefetched samples, in the order of the queue.
            requests: The maximum number of concurrent requests.
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
        with self._lock:  # no waiting sample is taken before the lock is released
            limit = min(most, self._ahead)
            open_groups = [group for group in self._groups.values() if not group.answer.done()]
            room = limit - len(open_groups)
            requests -= len({group for group in open_groups if not group.is_due})
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
            except RuntimeError:  # no thread can be started, so this one makes the request
                work()

    def _to_ask(self, queue: LaneQueue, most: int) -> list[tuple[WaitingSample, ACEStepContext]]:
        """Return those of the first waiting samples that have no group yet and need a proposal."""
        found: list[tuple[WaitingSample, ACEStepContext]] = []
        for sample in queue.waiting(most):
            ctx = sample.context
            key = ctx.metadata.get("sample_key")
            if not isinstance(key, SampleKey) or not isinstance(ctx, ACEStepContext) or key in self._groups:
                continue
            if ctx.reflection is not None and ctx.skillbook is not None and not is_learned(ctx) and needs_proposal(ctx):
                found.append((sample, ctx))
        return found

    def _grouped(self, waiting: Sequence[ACEStepContext]) -> Group:
        """Return a new group that begins with the first of these samples."""
        from concurrent.futures import Future  # only needed by runs that prefetch

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
        """Return a new group that begins with the sample whose turn it is. The caller must make its request.

        Args:
            ctx: The context of the sample.
            queue: The waiting samples.
        """
        with self._lock:
            ahead = min(self._together - 1, self._ahead)
            waiting = self._to_ask(queue, ahead + len(self._groups))[:ahead] if ahead else []
            group = self._grouped([ctx, *(context for _, context in waiting)])
            group.is_due = True
            del self._groups[ctx.metadata["sample_key"]]
            return group

    def taken(self, ctx: ACEStepContext) -> Group | None:
        """Return the group of a sample, or None if it has none. Call this once, at the turn of the sample.

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
        """Record the end of a turn.

        Args:
            most: The maximum number of prefetched samples.
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


def needs_proposal(ctx: ACEStepContext) -> bool:
    """Return whether the skill manager is asked about a sample.

    It is not if the skillbook already answers all cases of the sample, if all of its insights stay pending, or if the
    reflection found no error, no insight and no harmful skill in a run without open cases.

    Args:
        ctx: The context of the sample, after its reflection.
    """
    if is_known(ctx) or has_only_pending_insights(ctx):
        return False
    reflection = ctx.reflection
    if reflection is None or reflection.extracted_learnings or open_cases(ctx):
        return True
    says_something = reflection.error_identification.strip() or reflection.key_insight.strip()
    return bool(says_something) or any(tag.tag == "harmful" for tag in reflection.skill_tags)


def _has_failed(ctx: ACEStepContext) -> bool:
    """Return whether an earlier call of the run got no usable answer; the sample then gets its own request."""
    return bool(ctx.metadata.get("attempts", {}).get("SkillManager"))


def _size(ctx: ACEStepContext) -> int:
    return 0 if ctx.reflection is None else len(ctx.reflection.model_dump_json(exclude={"raw"}))
