"""The cheapest plain code that keeps one promise of the engine: what the engine is measured against."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from queue import SimpleQueue

from ace.pipeline import PipelineCancelled, PipelineHook, SampleResult

from .contexts import SixFields

Call = Callable[[SixFields], SixFields]
AsyncCall = Callable[[SixFields], Awaitable[SixFields]]
Results = list[SampleResult[SixFields]]

logger = logging.getLogger(__name__)


class Flag:
    """Whether a run is cancelled, in the form that is quickest to look at."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


def bare_loop(calls: Sequence[Call], contexts: Sequence[SixFields]) -> list[SixFields]:
    """Call all steps on all contexts, with no promise at all."""
    outputs = []
    for context in contexts:
        ctx = context
        for call in calls:
            ctx = call(ctx)
        outputs.append(ctx)
    return outputs


async def bare_async_loop(calls: Sequence[AsyncCall], contexts: Sequence[SixFields]) -> list[SixFields]:
    """Await all steps on all contexts, one after the other."""
    outputs = []
    for context in contexts:
        ctx = context
        for call in calls:
            ctx = await call(ctx)
        outputs.append(ctx)
    return outputs


def semantic_loop(calls: Sequence[tuple[str, Call]], contexts: Sequence[SixFields], cancelled: Flag) -> Results:
    """Keep the promises of one worker: a numbered result for each sample, errors captured, cancellation looked at."""
    results: Results = []
    for place, context in enumerate(contexts):
        ctx = context
        name = ""
        result: SampleResult[SixFields] = SampleResult(ctx.sample, None, None, None, None, place)
        try:
            for name, call in calls:  # noqa: B007 - the name is wanted where a step raises
                if cancelled.is_set:
                    raise PipelineCancelled
                ctx = call(ctx)
            result.output = ctx
        except Exception as error:
            result.failed_at = name
            result.error = error
        results.append(result)
    return results


def semantic_loop_with_hooks(
    calls: Sequence[tuple[str, Call]], contexts: Sequence[SixFields], cancelled: Flag, hooks: Sequence[PipelineHook]
) -> Results:
    """The same with observers, whose errors are logged."""
    before_step = [hook.before_step for hook in hooks]
    after_step = [hook.after_step for hook in hooks]
    results: Results = []
    for place, context in enumerate(contexts):
        ctx = context
        name = ""
        result: SampleResult[SixFields] = SampleResult(ctx.sample, None, None, None, None, place)
        try:
            for name, call in calls:
                if cancelled.is_set:
                    raise PipelineCancelled
                for notify in before_step:
                    try:
                        notify(name, ctx)
                    except Exception:
                        logger.exception("a hook raised")
                ctx = call(ctx)
                for notify in after_step:
                    try:
                        notify(name, ctx)
                    except Exception:
                        logger.exception("a hook raised")
            result.output = ctx
        except Exception as error:
            result.failed_at = name
            result.error = error
        results.append(result)
    return results


def semantic_loop_in_thread(
    calls: Sequence[tuple[str, Call]], contexts: Sequence[SixFields], cancelled: Flag
) -> Results:
    """Run `semantic_loop` in a thread, and leave the caller's loop free until it ends."""

    async def wait() -> Results:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Results] = loop.create_future()

        def work() -> None:
            results = semantic_loop(calls, contexts, cancelled)
            loop.call_soon_threadsafe(ended.set_result, results)

        thread = threading.Thread(target=work)
        thread.start()
        results = await ended
        thread.join()
        return results

    return asyncio.run(wait())


def pulling_threads(calls: Sequence[Call], contexts: Sequence[SixFields], workers: int) -> list[SixFields]:
    """Run `workers` threads that pull from one iterator, and wait for them.

    The iterator of a list is safe to share: drawing from it is one step of the interpreter.
    """
    outputs = list(contexts)
    source = iter(enumerate(contexts))

    def work(source: Iterator[tuple[int, SixFields]]) -> None:
        for place, context in source:
            ctx = context
            for call in calls:
                ctx = call(ctx)
            outputs[place] = ctx

    workers_threads = [threading.Thread(target=work, args=(source,)) for _ in range(workers)]
    for thread in workers_threads:
        thread.start()
    for thread in workers_threads:
        thread.join()
    return outputs


async def pulling_tasks(calls: Sequence[AsyncCall], contexts: Sequence[SixFields], workers: int) -> list[SixFields]:
    """Run `workers` tasks that pull from one iterator."""
    outputs = list(contexts)
    source = iter(enumerate(contexts))

    async def work() -> None:
        for place, context in source:
            ctx = context
            for call in calls:
                ctx = await call(ctx)
            outputs[place] = ctx

    await asyncio.gather(*(work() for _ in range(workers)))
    return outputs


def branch_loop(
    before: Call, children: tuple[Call, Call], after: Call, contexts: Sequence[SixFields]
) -> list[SixFields]:
    """Run a step, two children side by side and another step, with one kept thread for the second child."""
    to_child: SimpleQueue[SixFields | None] = SimpleQueue()
    from_child: SimpleQueue[SixFields] = SimpleQueue()
    first, second = children

    def serve() -> None:
        while (ctx := to_child.get()) is not None:
            from_child.put(second(ctx))

    thread = threading.Thread(target=serve)
    thread.start()
    outputs = []
    for context in contexts:
        ctx = before(context)
        to_child.put(ctx)
        left = first(ctx)
        outputs.append(after(_merge(left, from_child.get())))
    to_child.put(None)
    thread.join()
    return outputs


def _merge(left: SixFields, right: SixFields) -> SixFields:
    if left is not right:
        raise ValueError("the children have returned different contexts, and this loop does not merge")
    return left


def queue_loop(
    foreground: Sequence[Call], background: Call, contexts: Sequence[SixFields], max_workers: int
) -> list[SixFields]:
    """Run the foreground here, and the background in kept threads that read from one queue."""
    outputs = list(contexts)
    queue: SimpleQueue[tuple[int, SixFields] | None] = SimpleQueue()

    def serve() -> None:
        while (item := queue.get()) is not None:
            place, ctx = item
            outputs[place] = background(ctx)

    pool = [threading.Thread(target=serve) for _ in range(max_workers)]
    for thread in pool:
        thread.start()
    for place, context in enumerate(contexts):
        ctx = context
        for call in foreground:
            ctx = call(ctx)
        queue.put((place, ctx))
    for _ in pool:
        queue.put(None)
    for thread in pool:
        thread.join()
    return outputs
