import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from ace.pipeline import (
    Branch,
    BranchError,
    MergeConflictError,
    MergeStrategy,
    Pipeline,
    PipelineCancelled,
    PipelineError,
    StepContext,
)
from ace.pipeline.branch import _merge_last_write_wins, _merge_namespaced, _merge_raise_on_conflict

from .sample_steps import AnyDo, CountWords, Do, DoAsync, FindTitle, PageContext, pages, variant
from .test_sample_ends import Call, kinds, ways


@dataclass(frozen=True)
class RicherContext(PageContext):
    author: str = ""


class Write:
    """Sets fields."""

    requires: frozenset[str] = frozenset()

    def __init__(self, **changes: object) -> None:
        self.changes = changes
        self.provides = frozenset(changes)

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx.replace(**self.changes)


class WriteAsync(Write):
    async def __call__(self, ctx: PageContext) -> PageContext:  # type: ignore[override]  # the asynchronous twin
        await asyncio.sleep(0)
        return ctx.replace(**self.changes)


def branch_of(*children: object, merge: Any = MergeStrategy.RAISE_ON_CONFLICT) -> Branch[PageContext]:
    return Branch(*(Pipeline[PageContext]([child]) for child in children), merge=merge)  # type: ignore[list-item]


START = PageContext(sample=1, text="one two")


@pytest.mark.parametrize("strategy", [MergeStrategy.RAISE_ON_CONFLICT, MergeStrategy.LAST_WRITE_WINS])
def test_disjoint_fields_never_conflict_and_none_is_lost(strategy: MergeStrategy) -> None:
    merged = branch_of(FindTitle(), CountWords(), Do(), merge=strategy)(START)
    assert merged == PageContext(sample=1, text="one two", title="One Two", words=2)


def test_equal_values_never_conflict() -> None:
    assert branch_of(Write(title="a"), Write(title="a"))(START).title == "a"


def test_different_values_are_a_conflict_that_names_field_and_children() -> None:
    pipeline = Pipeline([branch_of(Write(title="a"), Do(), Write(title="b"))])
    [result] = pipeline.run([START])
    assert isinstance(result.error, MergeConflictError)
    assert isinstance(result.error, (PipelineError, ValueError))
    assert result.failed_at == "Branch" == result.error.failed_at
    assert str(result.error).startswith(
        "children 0 and 2 of the branch wrote different values to field 'title' of PageContext: 'a' and 'b'; let only"
    )


def test_the_last_write_wins_but_only_over_writes() -> None:
    merged = branch_of(Write(title="a", words=1), Write(title="b"), Do(), merge=MergeStrategy.LAST_WRITE_WINS)(START)
    assert (merged.title, merged.words) == ("b", 1)


def test_setting_a_field_back_to_its_default_is_a_write() -> None:
    before = START.replace(title="old")
    assert branch_of(Write(title=None), Do())(before).title is None


def test_metadata_merges_key_by_key() -> None:
    before = StepContext(sample=1).replace(metadata={"kept": 0, "gone": 0, "both": 0})
    ctx = PageContext(sample=1, metadata=before.metadata)
    first = Write(metadata={"kept": 0, "gone": 0, "both": 1, "first": 1})
    second = Write(metadata={"kept": 0, "both": 0, "second": 2})
    merged = branch_of(first, second)(ctx)
    assert dict(merged.metadata) == {"kept": 0, "both": 1, "first": 1, "second": 2}
    third = Write(metadata={"kept": 0, "gone": 0, "both": 3})
    with pytest.raises(MergeConflictError, match=r"children 0 and 1 .* metadata\['both'\]: 1 and 3"):
        branch_of(first, third)(ctx)
    assert branch_of(first, third, merge=MergeStrategy.LAST_WRITE_WINS)(ctx).metadata["both"] == 3


def test_namespaced_keeps_the_input_and_puts_the_outputs_into_metadata() -> None:
    merged = branch_of(Write(title="a"), Write(title="b"), merge=MergeStrategy.NAMESPACED)(START)
    assert merged.replace(metadata={}) == START
    assert merged.metadata["branch_0"] == START.replace(title="a")
    assert merged.metadata["branch_1"] == START.replace(title="b")


def test_a_merge_function_gets_the_outputs_in_child_order() -> None:
    def longest(outputs: list[PageContext]) -> PageContext:
        assert [output.title for output in outputs] == ["a", "ccc", "bb"]
        return max(outputs, key=lambda output: len(output.title or ""))

    assert branch_of(Write(title="a"), WriteAsync(title="ccc"), Write(title="bb"), merge=longest)(START).title == "ccc"


def test_values_that_cannot_be_compared_count_as_different() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError("an array has no truth value")

        __hash__ = object.__hash__

    with pytest.raises(MergeConflictError):
        branch_of(Write(title=Odd()), Write(title=Odd()))(START)
    same: Any = Odd()
    assert branch_of(Write(title=same), Write(title=same))(START).title is same


@pytest.mark.parametrize("merge", [MergeStrategy.RAISE_ON_CONFLICT, MergeStrategy.LAST_WRITE_WINS])
@pytest.mark.parametrize("class_returned", [RicherContext, StepContext])
def test_a_context_of_another_class_is_refused_because_fields_would_be_lost(
    merge: MergeStrategy, class_returned: type[StepContext]
) -> None:
    class Change(Do):
        def __call__(self, ctx: PageContext) -> PageContext:
            return cast("PageContext", class_returned(sample=ctx.sample))

    [result] = Pipeline([Branch(Do(), Change(), merge=merge)]).run(pages(1))
    assert str(result.error) == (
        f"child 1 of the branch returned a {class_returned.__name__} instead of a PageContext, so fields would be "
        "lost; return ctx.replace(...) from every child, or pass a function of your own as merge"
    )


def test_the_built_in_merges_are_functions_of_the_outputs() -> None:
    titled, counted = START.replace(title="a"), START.replace(words=2)
    assert _merge_raise_on_conflict([titled, counted]) == START.replace(title="a", words=2)
    assert _merge_last_write_wins([titled, START.replace(title="b"), counted]) == START.replace(title="b", words=2)
    assert _merge_namespaced([titled, counted]).metadata["branch_1"] == counted
    with pytest.raises(MergeConflictError):
        _merge_raise_on_conflict([titled, START.replace(title="b")])
    for strategy, function in (
        (MergeStrategy.RAISE_ON_CONFLICT, _merge_raise_on_conflict),
        (MergeStrategy.LAST_WRITE_WINS, _merge_last_write_wins),
        (MergeStrategy.NAMESPACED, _merge_namespaced),
    ):
        assert branch_of(Do(), merge=strategy)._merge_fn is function
    assert [strategy.value for strategy in MergeStrategy] == ["raise_on_conflict", "last_write_wins", "namespaced"]


@pytest.mark.parametrize("failing", [Do, DoAsync])
def test_all_children_run_to_their_end_and_all_failures_are_kept(failing: type[Any]) -> None:
    ended: list[int] = []

    def fail(number: int) -> None:
        raise ValueError(number)

    children = (failing(fail), Do(ended.append), DoAsync(ended.append), Do(lambda _: dict[str, str]()["title"]))
    [result] = Pipeline([branch_of(*children)]).run(pages(1))
    assert ended == [0, 0]
    assert isinstance(result.error, BranchError)
    assert [type(error) for error in result.error.failures] == [ValueError, KeyError]
    assert result.failed_at == "Branch"
    assert result.cause is result.error.failures[0]
    assert str(result.error) == "2 children of the branch failed: ValueError: 0; KeyError: 'title'"


@pytest.mark.parametrize("workers", [1, 3])
def test_plain_children_really_run_at_once(workers: int) -> None:
    meeting = threading.Barrier(2)
    pipeline = Pipeline([branch_of(Do(lambda _: meeting.wait(60)), Do(lambda _: meeting.wait(60)))])
    assert all(result.error is None for result in pipeline.run(pages(5), workers=1))


def test_asynchronous_children_really_run_at_once() -> None:
    first_is_in = asyncio.Event()

    async def enter() -> None:
        first_is_in.set()

    async def wait() -> None:
        await first_is_in.wait()

    pipeline = Pipeline([branch_of(DoAsync(lambda _: wait()), DoAsync(lambda _: enter()))])
    assert all(result.error is None for result in pipeline.run(pages(3)))


def _ways() -> list[Callable[[Pipeline[PageContext]], PageContext | None]]:
    async def called(pipeline: Pipeline[PageContext]) -> PageContext:
        return await pipeline.__call_async__(START)

    return [
        lambda pipeline: pipeline.run([START])[0].output,
        lambda pipeline: asyncio.run(pipeline.run_async([START]))[0].output,
        lambda pipeline: pipeline(START),
        lambda pipeline: asyncio.run(called(pipeline)),
        lambda pipeline: Pipeline([pipeline]).run([START])[0].output,
        lambda pipeline: Pipeline([branch_of(Do(), pipeline)]).run([START])[0].output,
    ]


@pytest.mark.parametrize("way", _ways(), ids=["run", "run_async", "call", "call_async", "nested", "branched"])
@pytest.mark.parametrize("first", [Write, WriteAsync])
@pytest.mark.parametrize("second", [Write, WriteAsync])
def test_plain_and_asynchronous_children_mix_however_the_branch_is_reached(
    first: type[Write],
    second: type[Write],
    way: Callable[[Pipeline[PageContext]], PageContext | None],
) -> None:
    pipeline = Pipeline([branch_of(first(title="a"), second(words=2))])
    assert way(pipeline) == START.replace(title="a", words=2)


def test_a_branch_declares_the_union_of_its_children() -> None:
    branch = branch_of(FindTitle(), CountWords())
    assert branch.requires == {"text"}
    assert branch.provides == {"title", "words"}
    assert all(isinstance(pipeline, Pipeline) for pipeline in branch.pipelines)


def test_an_exit_in_a_child_ends_the_run_after_the_other_children() -> None:
    ended: list[int] = []

    def leave(number: int) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        Pipeline([branch_of(Do(leave), Do(ended.append))]).run(pages(1))
    assert ended == [0]


def test_children_may_return_contexts_with_fields_that_are_no_strings() -> None:
    @dataclass(frozen=True)
    class ListContext(StepContext):
        found: tuple[int, ...] = ()

    class Find:
        requires: frozenset[str] = frozenset()
        provides = frozenset({"found"})

        def __call__(self, ctx: ListContext) -> ListContext:
            return ctx.replace(found=(1, 2))

    assert Branch(Find(), Find())(ListContext(sample=1)).found == (1, 2)


def cancelled(number: int) -> None:
    raise PipelineCancelled(f"page {number} is not wanted")


@kinds
@ways
def test_a_branch_whose_failures_are_all_cancellations_is_cancelled(way: Call, step: AnyDo) -> None:
    for branch in (Branch(step(cancelled), step()), Branch(step(cancelled), step(cancelled))):
        for pipeline in (Pipeline[PageContext]([branch]), Pipeline[PageContext]([Pipeline[PageContext]([branch])])):
            [result] = way(pipeline, pages(1))
            assert isinstance(result.error, PipelineCancelled)
            assert str(result.error) == "page 0 is not wanted"
            assert (result.output, result.cause) == (None, None)
            assert result.failed_at == type(pipeline.steps[0]).__name__


@kinds
def test_a_branch_with_a_failure_beside_a_cancellation_has_failed(step: AnyDo) -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    [result] = Pipeline[PageContext]([Branch(step(cancelled), step(fail))]).run(pages(1))
    assert isinstance(result.error, BranchError)
    assert [type(error) for error in result.error.failures] == [PipelineCancelled, ValueError]


@kinds
def test_a_branch_in_a_branch_and_behind_the_boundary_is_cancelled_too(step: AnyDo) -> None:
    inner = Branch(step(cancelled), step())
    behind = variant(step, boundary=True)()
    pipeline = Pipeline[PageContext]([behind, Branch(inner, step())])
    [result] = pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert isinstance(result.error, PipelineCancelled)
    with pytest.raises(PipelineCancelled):
        Branch(inner, step())(pages(1)[0])


@pytest.mark.parametrize("wrong", [5, {}, PageContext, None, "text"])
def test_a_merge_function_that_returns_no_context_is_an_error_that_says_what_it_returned(wrong: object) -> None:
    branch = Branch(Do(), Do(), merge=lambda contexts: wrong)  # type: ignore[arg-type, return-value]  # on purpose
    [result] = Pipeline[PageContext]([branch]).run(pages(1))
    assert isinstance(result.error, PipelineError)
    assert "Branch returned" in str(result.error)
    with pytest.raises(PipelineError, match="Branch returned"):
        branch(pages(1)[0])
