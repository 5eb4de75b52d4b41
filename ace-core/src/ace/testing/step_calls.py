"""Calls a step as a pipeline would, whether it is asynchronous or not."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ace.pipeline import CancellationToken, cancel_token_var

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol

__all__ = ["call_all_at_once", "call_step", "cancelled_by", "is_asynchronous"]


def is_asynchronous(step: StepProtocol[Any]) -> bool:
    """Tell whether a step is called asynchronously."""
    return inspect.iscoroutinefunction(type(step).__call__)


def call_step(step: StepProtocol[Any], ctx: ACEStepContext) -> ACEStepContext:
    """Call a step once.

    Args:
        step: The step.
        ctx: What it gets.
    """
    returned: Any = step(ctx)
    result: ACEStepContext = asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned
    return result


def call_all_at_once(step: StepProtocol[Any], contexts: Sequence[ACEStepContext]) -> list[ACEStepContext]:
    """Call one step for all contexts at the same time.

    Args:
        step: The step.
        contexts: What it gets.
    """
    if is_asynchronous(step):
        return asyncio.run(_all_awaited(step, contexts))
    with ThreadPoolExecutor(len(contexts)) as pool:
        return list(pool.map(lambda ctx: call_step(step, ctx), contexts))


@contextmanager
def cancelled_by(token: CancellationToken) -> Iterator[None]:
    """Have a token in the place where steps look for that of the run.

    Args:
        token: The token.
    """
    before = cancel_token_var.set(token)
    try:
        yield
    finally:
        cancel_token_var.reset(before)


async def _awaited(returned: Awaitable[Any]) -> Any:
    return await returned


async def _all_awaited(step: StepProtocol[Any], contexts: Sequence[ACEStepContext]) -> list[ACEStepContext]:
    returned: list[Any] = [step(ctx) for ctx in contexts]
    return list(await asyncio.gather(*returned))
