"""What observers add to a step."""

from functools import partial

from ace.pipeline import Pipeline, PipelineHook, StepContext

from ..checks import returns_the_contexts
from ..contexts import make_contexts
from ..costs import MICROSECONDS
from ..floors import Flag, semantic_loop, semantic_loop_with_hooks
from ..interleaved import medians, timed
from ..rows import CostRow
from ..scale import Scale
from ..steps import NoOp, Step
from ..wrong_result import require

STEPS = 4


class _Silent:
    """A hook that does nothing."""

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        pass

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        pass


class _Counting:
    """A hook that counts."""

    def __init__(self) -> None:
        self.before = 0
        self.after = 0

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        self.before += 1

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        self.after += 1


def hooks(scale: Scale) -> list[CostRow]:
    """What two hooks add to each of four plain steps, against what they add to a plain loop (goal 5)."""
    _check_that_hooks_are_called()
    steps: list[Step] = [NoOp() for _ in range(STEPS)]
    named = [("NoOp", NoOp().__call__) for _ in range(STEPS)]
    two: list[PipelineHook] = [_Silent(), _Silent()]
    contexts = make_contexts(scale.samples)
    check = returns_the_contexts(contexts)
    seconds = medians(
        {
            "loop": timed(partial(semantic_loop, named, contexts, Flag()), check),
            "loop, hooks": timed(partial(semantic_loop_with_hooks, named, contexts, Flag(), two), check),
            "engine": timed(partial(Pipeline(steps).run, contexts), check),
            "engine, hooks": timed(partial(Pipeline(steps, hooks=two).run, contexts), check),
        },
        scale.rounds,
    )
    added = seconds["engine, hooks"] - seconds["engine"]
    added_to_loop = seconds["loop, hooks"] - seconds["loop"]
    return [
        CostRow(
            case="hooks",
            what="what two hooks add to a plain step",
            unit="us/step",
            value=added / scale.samples / STEPS * MICROSECONDS,
            to_bare=None,
            floor="what they add to the loop with the promised semantics",
            to_floor=added / added_to_loop,
            goal=2,
        )
    ]


def _check_that_hooks_are_called() -> None:
    counting = _Counting()
    steps: list[Step] = [NoOp() for _ in range(STEPS)]
    Pipeline(steps, hooks=[counting]).run(make_contexts(25))
    called = (counting.before, counting.after)
    require(called == (100, 100), f"the hook was called {called} times instead of (100, 100)")
