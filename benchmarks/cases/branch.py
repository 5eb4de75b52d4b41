"""A branch of two children."""

from functools import partial

from ace.pipeline import Pipeline

from ..checks import check_trace, equals, returns_with_answer
from ..contexts import SixFields, make_contexts
from ..costs import BARE, measure
from ..floors import bare_loop, branch_loop
from ..interleaved import timed
from ..rows import CostRow
from ..scale import Scale
from ..steps import NoOp, Trace
from ..wrong_result import require

ONE_THREAD_MORE = "a kept thread for the second child"
BRANCH = "step, branch of two, step"


def branch(scale: Scale) -> list[CostRow]:
    """A step, a branch of two, a step (goal 6)."""
    _check_what_is_merged()
    calls = [NoOp().__call__ for _ in range(4)]
    before, left, right, after = calls
    contexts = make_contexts(scale.samples)
    pipeline = Pipeline[SixFields]([NoOp()]).branch(NoOp(), NoOp()).then(NoOp())
    contenders = {
        BARE: timed(partial(bare_loop, calls, contexts), equals(contexts)),
        ONE_THREAD_MORE: timed(partial(branch_loop, before, (left, right), after, contexts), equals(contexts)),
        BRANCH: timed(partial(pipeline.run, contexts), returns_with_answer(contexts, 0)),
    }
    costs = measure("branch", "sample", scale.samples, scale.rounds, contenders)
    return [costs.row(BRANCH, ONE_THREAD_MORE, goal=2)]


class _SetUpdate:
    """A child that writes another field than its sibling, which leaves a trace."""

    requires = frozenset({"sample"})
    provides = frozenset({"update"})

    def __call__(self, ctx: SixFields) -> SixFields:
        return ctx.replace(update=ctx.sample + 1)


class _ReadUpdate:
    """Writes down what the branch has merged."""

    requires = frozenset({"update", "trace"})
    provides = frozenset({"update", "trace"})

    def __call__(self, ctx: SixFields) -> SixFields:
        require(ctx.update == ctx.sample + 1, f"the branch has lost a field of sample {ctx.sample}")
        return ctx.replace(update=0, trace=(*ctx.trace, "merged"))


def _check_what_is_merged() -> None:
    like = NoOp()
    pipeline = Pipeline[SixFields]([Trace("before", like=like)]).branch(Trace("left", like=like), _SetUpdate())
    check_trace(pipeline.then(_ReadUpdate()).run, ("before", "left", "merged"))
