"""What is refused when a pipeline is built, and with which words."""

import warnings
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, PipelineConfigError, PipelineOrderError, StepProtocol

from .sample_steps import CountWords, Do, FindTitle, PageContext, Read, pages, variant


def test_a_step_needs_no_base_class() -> None:
    assert isinstance(Read(), StepProtocol)
    assert not isinstance(object(), StepProtocol)


class NoRequires:
    provides = frozenset[str]()

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx


class NoProvides:
    requires = frozenset[str]()

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx


class NotCallable:
    requires = provides = frozenset[str]()


class TextAsFields(NoProvides):
    requires = "text"  # type: ignore[assignment]  # the mistake that is tested
    provides = frozenset[str]()


class NumberAsFields(NoProvides):
    requires = 7  # type: ignore[assignment]  # the mistake that is tested
    provides = frozenset[str]()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (NoRequires(), r"step NoRequires does not declare `requires`; add `requires = \{\.\.\.\}`"),
        (NoProvides(), r"step NoProvides does not declare `provides`; add `provides = \{\.\.\.\}`"),
        (NotCallable(), r"step NotCallable cannot be called; give it a method `def __call__\(self, ctx\)`"),
        (Read, r"Read is a class, not a step; make an instance: Read\(\)"),
        (TextAsFields(), r"step TextAsFields declares `requires` as the string 'text'; write \{'text'\}"),
        (NumberAsFields(), r"step NumberAsFields declares `requires` as 7; it must be a set"),
        (variant(Do, "Greedy", max_workers=0)(), r"step Greedy declares max_workers = 0; it must be a whole number"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_step_with_a_wrong_declaration_is_named_with_the_mend(step: Any, text: str) -> None:
    with pytest.raises(PipelineConfigError, match=text):
        Pipeline([step])


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple])
def test_fields_may_be_declared_in_any_collection(kind: type) -> None:
    step = Read()
    step.requires = kind(["sample"])
    assert Pipeline([step]).requires == frozenset({"sample"})


def test_a_field_that_only_a_later_step_provides_is_an_order_error() -> None:
    with pytest.raises(
        PipelineOrderError,
        match=r"step FindTitle \(number 1\) requires the field 'text', which only the later step Read provides; "
        r"put Read before FindTitle",
    ):
        Pipeline[PageContext]([FindTitle(), Read()])


def test_the_order_error_rises_at_the_then_that_makes_it_and_changes_nothing() -> None:
    pipeline = Pipeline([FindTitle()])
    with pytest.raises(PipelineOrderError):
        pipeline.then(Read())
    assert len(pipeline.steps) == 1
    assert pipeline.then(CountWords()).requires == {"text"}


def test_a_field_that_no_step_provides_comes_from_outside() -> None:
    pipeline = Pipeline[PageContext]([FindTitle(), CountWords()])
    assert pipeline.requires == {"text"}
    assert pipeline.provides == {"title", "words"}


def test_what_every_context_has_may_be_rewritten_later() -> None:
    class Annotate:
        requires = provides = frozenset({"metadata"})

        def __call__(self, ctx: PageContext) -> PageContext:
            return ctx

    class LooksAtMetadata(Do):
        requires = frozenset({"metadata"})

    assert Pipeline[PageContext]([LooksAtMetadata(), Annotate()]).requires == {"metadata"}


def test_then_and_branch_chain_and_nesting_infers() -> None:
    pipeline = Pipeline[PageContext]().then(Read()).branch(Pipeline([FindTitle()]), Pipeline([CountWords()]))
    assert pipeline.requires == {"sample"}
    assert pipeline.provides == {"text", "title", "words"}
    outer = Pipeline([pipeline]).then(Do())
    assert outer.requires == {"sample"}
    assert outer.steps[0] is pipeline
    with pytest.raises(PipelineOrderError, match=r"step Pipeline .* requires the field 'text'"):
        Pipeline[PageContext]([Pipeline([FindTitle()]), Read()])


def test_a_pipeline_that_has_run_cannot_be_changed() -> None:
    pipeline = Pipeline([Read()])
    pipeline.run(pages(1))
    with pytest.raises(PipelineConfigError, match=r"has run, so FindTitle can no longer be added; build a new one"):
        pipeline.then(FindTitle())
    with pytest.raises(PipelineConfigError, match="Branch can no longer be added"):
        pipeline.branch(Pipeline([FindTitle()]))
    called = Pipeline([Read()])
    called(PageContext(sample=1))
    with pytest.raises(PipelineConfigError, match="has run"):
        called.then(FindTitle())


def test_one_boundary_only() -> None:
    boundary = variant(Do, "Reflect", boundary=True)
    another = variant(Do, "Update", boundary=True)
    with pytest.raises(
        PipelineConfigError, match=r"steps Reflect and Update both declare an async boundary; .* remove it from Update"
    ):
        Pipeline([boundary(), another()])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_boundary_inside_a_branch_at_any_depth(depth: int) -> None:
    child: Any = variant(Do, "Reflect", boundary=True)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that of the nested boundary
        for _ in range(depth):
            child = Pipeline([child])
        with pytest.raises(PipelineConfigError, match=r"child 1 of the branch .* declares an async boundary"):
            Branch(Pipeline([Do()]), child)


def test_a_branch_needs_children() -> None:
    with pytest.raises(PipelineConfigError, match=r"a branch needs at least one pipeline"):
        Branch[PageContext]()


@pytest.mark.parametrize("depth", [1, 2])
def test_a_nested_boundary_warns_where_the_outer_pipeline_is_built(depth: int) -> None:
    inner: Any = variant(Do, "Reflect", boundary=True)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(depth):
            inner = Pipeline([inner])
    with pytest.warns(UserWarning, match=r"inside the nested Pipeline has no effect; .*|has no effect") as caught:
        Pipeline([inner])
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="has no effect") as caught:
        Pipeline[PageContext]().then(inner)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_nested_boundary_runs_through_in_the_foreground() -> None:
    seen: list[int] = []
    inner = Pipeline([variant(Do, "Reflect", boundary=True)(seen.append)])
    with pytest.warns(UserWarning, match="has no effect"):
        outer = Pipeline([inner])
    outer.run(pages(3))
    assert seen == [0, 1, 2]
    assert outer.background_stats()["completed"] == 0


def test_different_keys_in_one_lane_section_are_refused() -> None:
    writer = variant(Do, "Tag", lane="skillbook")
    first, second = writer(), writer()
    first.lane_key, second.lane_key = object(), object()
    with pytest.raises(PipelineConfigError, match=r"steps Tag and Tag are in one section of lane 'skillbook'"):
        Pipeline([first, second])


def test_a_step_without_a_lane_that_splits_one_warns() -> None:
    writer = variant(Do, "Write", lane="skillbook")
    with pytest.warns(UserWarning, match=r"step Do has no lane and splits lane 'skillbook'") as caught:
        Pipeline([writer(), Do(), writer()])
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pipeline([writer(), Do(), variant(Do, lane="journal")()])


@pytest.mark.parametrize(
    "wrap", [lambda step: Pipeline([step]), lambda step: Branch(Do(), step)], ids=["nested", "branch"]
)
def test_a_lane_inside_another_step_warns(wrap: Any) -> None:
    inner = wrap(variant(Do, "Write", lane="skillbook")())
    with pytest.warns(UserWarning, match=r"a lane inside the (Pipeline|Branch) has no effect") as caught:
        Pipeline([inner])
    assert [warning.filename for warning in caught] == [__file__]


def test_a_merge_that_is_no_strategy_is_refused() -> None:
    with pytest.raises(PipelineConfigError, match=r"merge is 'last_write_wins'; it must be one of Merge"):
        Branch(Do(), Do(), merge="last_write_wins")  # type: ignore[arg-type]  # the mistake that is tested


def test_hooks_and_limits_are_checked() -> None:
    with pytest.raises(PipelineConfigError, match="hook object lacks before_step or after_step"):
        Pipeline([Read()], hooks=[object()])  # type: ignore[list-item]  # the mistake that is tested
    with pytest.raises(PipelineConfigError, match="background_limit must be a whole number of at least 1, got 0"):
        Pipeline([Read()], background_limit=0)
    with pytest.raises(PipelineConfigError, match=r"it must be a list of steps: Pipeline\(\[step, \.\.\.\]\)"):
        Pipeline(Read())  # type: ignore[arg-type]  # the mistake that is tested


def test_steps_are_indexable() -> None:
    read = Read()
    pipeline = Pipeline[PageContext]([read, Do()])
    assert pipeline.steps[0] is read
    assert len(pipeline.steps) == 2
