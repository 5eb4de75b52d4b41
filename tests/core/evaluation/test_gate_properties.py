"""What holds for every batch: no loss is accepted, no judgement is suppressed, and a refusal changes nothing."""

from __future__ import annotations

from types import MappingProxyType

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ace.context import ACEStepContext, SkillbookView
from ace.evaluation import AllGates, CounterGate, counter_metrics
from ace.loop.metadata import VERDICT
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, GateStep
from ace.updates import UpdateBatch, UpdateOperation

COUNTS = st.fixed_dictionaries({"helpful": st.integers(0, 5), "harmful": st.integers(0, 5)})
BOOKS = st.lists(st.tuples(COUNTS, st.sampled_from(("a", "b"))), min_size=1, max_size=6)
IDS = [f"{section}-{number:05d}" for section in "ab" for number in range(1, 8)]
CLAIMS = st.dictionaries(st.sampled_from(("helpful", "harmful", "neutral")), st.integers(-1, 9), max_size=3)
OPERATIONS = st.builds(
    UpdateOperation,
    type=st.sampled_from(("ADD", "UPDATE", "REMOVE", "TAG")),
    section=st.sampled_from(("a", "b", "")),
    content=st.one_of(st.none(), st.sampled_from(("Check the units.", "Round up.", " "))),
    skill_id=st.one_of(st.none(), st.sampled_from(IDS)),
    metadata=CLAIMS,
)
BATCHES = st.lists(OPERATIONS, min_size=1, max_size=6)


def filled(skills: list[tuple[dict[str, int], str]]) -> Skillbook:
    book = Skillbook()
    for number, (counts, section) in enumerate(skills):
        book.add_skill(section, f"Rule {number}.", metadata=counts)
    return book


def applied(book: Skillbook, operations: list[UpdateOperation], *, judged: bool) -> ACEStepContext:
    """Apply the operations, through the gate if they are judged."""
    ctx = ACEStepContext(
        sample="s",
        trace={},
        skillbook=SkillbookView(book),
        skill_manager_output=UpdateBatch("", operations),
        metadata=MappingProxyType({"trace_id": "t"}),
    )
    apply = ApplyStep(book, learn_without_truth=True)
    return apply(GateStep(AllGates([CounterGate()]), book, apply=apply)(ctx) if judged else ctx)


@settings(max_examples=300, deadline=None)
@given(BOOKS, BATCHES)
@example(
    [({"helpful": 1}, "a")],
    [
        UpdateOperation("ADD", "b", "Check the units."),
        UpdateOperation("UPDATE", "b", skill_id="b-00002", metadata={"harmful": 1}),
    ],
)
@example(
    [({}, "a"), ({"harmful": 1}, "a")],
    [
        UpdateOperation("REMOVE", "a", skill_id="a-00002"),
        UpdateOperation("ADD", "a", "Check the units.", skill_id="a-00002", metadata={"harmful": 2}),
    ],
)
@example(
    [({"helpful": 1}, "a")],
    [
        UpdateOperation("ADD", "b", "Check the units."),
        UpdateOperation("ADD", "b", "Round up.", skill_id="b-00002", metadata={"harmful": 1}),
    ],
)
def test_every_batch(skills: list[tuple[dict[str, int], str]], operations: list[UpdateOperation]) -> None:
    book, judgements_only = filled(skills), filled(skills)
    tags = [operation for operation in operations if operation.type == "TAG"]
    applied(judgements_only, tags, judged=False)
    ctx = applied(book, operations, judged=True)
    verdict = ctx.metadata.get(VERDICT)
    if verdict is None or not verdict.accepted:
        assert _contents(book) == _contents(judgements_only)  # judgements count, and nothing else has changed
        return
    before, after = counter_metrics(judgements_only), counter_metrics(book)
    assert verdict.before["net"] == before.net <= verdict.after["net"]
    assert after.net >= before.net


def _contents(book: Skillbook) -> list[dict[str, object]]:
    """Return everything in the skills except the times, which are those of the test."""
    times = ("created_at", "updated_at")
    skills = [skill.to_dict() for skill in book.skills(include_invalid=True)]
    return [{name: value for name, value in skill.items() if name not in times} for skill in skills]


@settings(max_examples=200, deadline=None)
@given(BOOKS, BATCHES)
def test_the_sums_that_the_gate_uses_are_those_of_the_skills(
    skills: list[tuple[dict[str, int], str]], operations: list[UpdateOperation]
) -> None:
    book = filled(skills)
    assert book.judged_count() == counter_metrics(book).judged
    applied(book, operations, judged=False)
    metrics = counter_metrics(book)
    tags = book.stats()["tags"]
    assert isinstance(tags, dict)
    sums = (book.judged_count(), tags["helpful"], tags["harmful"], len(book))
    assert sums == (metrics.judged, metrics.helpful, metrics.harmful, metrics.skills)
