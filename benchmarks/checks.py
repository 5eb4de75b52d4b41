"""What the results of a run have to look like."""

from collections.abc import Callable, Sequence

from ace.pipeline import SampleResult

from .contexts import SixFields, make_contexts
from .wrong_result import require

Results = list[SampleResult[SixFields]]


def equals(expected: Sequence[SixFields]) -> Callable[[Sequence[SixFields]], None]:
    """Return a check: these contexts, in this order. For what is measured beside the engine."""

    def check(outputs: Sequence[SixFields]) -> None:
        require(outputs == expected, "plain code that the engine is measured against returned something wrong")

    return check


def returns_the_contexts(contexts: Sequence[SixFields]) -> Callable[[Results], None]:
    """Return a check: one result for each context, in input order, whose output is that very context."""

    def check(results: Results) -> None:
        require_success(results, len(contexts))
        for ctx, result in zip(contexts, results, strict=True):
            require(result.output is ctx, f"sample {ctx.sample} has the output {result.output!r}")

    return check


def returns_with_answer(contexts: Sequence[SixFields], answer: int) -> Callable[[Results], None]:
    """Return a check: one result for each context, in input order, with this answer."""

    def check(results: Results) -> None:
        require_success(results, len(contexts))
        for ctx, result in zip(contexts, results, strict=True):
            expected = ctx.replace(answer=answer)
            require(result.output == expected, f"sample {ctx.sample}: {result.output!r} instead of {expected!r}")

    return check


def require_success(results: Results, count: int) -> None:
    """Require one result for each of `count` samples, none with an error.

    Raises:
        WrongResult: If there are others.
    """
    require(len(results) == count, f"{len(results)} results for {count} samples")
    for result in results:
        require(result.error is None, f"sample {result.sample} failed at {result.failed_at}: {result.error!r}")


def check_trace(run: Callable[[list[SixFields]], Results], expected: Sequence[str]) -> None:
    """Run steps that leave a trace, and check that each sample has passed all of them, in this order.

    Steps that return their context, which are what is measured, would not show that they were left out.

    Args:
        run: Runs traced steps on contexts, and returns when the background is empty.
        expected: The trace that each sample has to have.

    Raises:
        WrongResult: If a sample has another trace.
    """
    contexts = make_contexts(100)
    results = run(contexts)
    require_success(results, len(contexts))
    for place, result in enumerate(results):
        wanted = SixFields(place, trace=tuple(expected))
        require(result.output == wanted, f"sample {place}: {result.output!r} instead of {wanted!r}")
