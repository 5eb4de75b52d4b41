"""All cases by name."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatch

from .cases.async_steps import async_steps
from .cases.boundary import boundary
from .cases.branch import branch
from .cases.hooks import hooks
from .cases.memory import memory, memory_streamed
from .cases.plain_steps import plain, plain_one_field, plain_threads
from .cases.replace import replace
from .cases.threads import threads
from .rows import CostRow, MakespanRow
from .scale import Scale
from .workloads.cases import WORKLOAD_CASES

Case = Callable[[Scale], Sequence[CostRow | MakespanRow]]

CASES: dict[str, Case] = {
    "plain": plain,
    "plain-one-field": plain_one_field,
    "plain-threads": plain_threads,
    "async": async_steps,
    "replace": replace,
    "hooks": hooks,
    "branch": branch,
    "boundary": boundary,
    "threads": threads,
    "memory": memory,
    "memory-streamed": memory_streamed,
    **WORKLOAD_CASES,
}


def matching(patterns: Sequence[str]) -> list[str]:
    """Return the names of the cases that match one of the patterns; all of them where there is no pattern.

    Raises:
        LookupError: If a pattern matches nothing; the text names what there is.
    """
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in CASES):
            raise LookupError(f"no case is called {pattern!r}; there are: {', '.join(CASES)}")
    return [name for name in CASES if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]
