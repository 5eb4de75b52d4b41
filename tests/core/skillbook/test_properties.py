"""Any sequence of operations, replayed, gives the same bytes; any text comes back as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ace.skill import CASE_RESULTS, CHECK_KINDS, CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking

TEXT = st.text(max_size=30)
SOURCES = st.builds(InsightSource, TEXT, TEXT, st.integers(0, 9), st.integers(0, 9), TEXT, TEXT, TEXT)
SECTIONS = st.sampled_from(["a", "b", "Über uns", "", "x y z"])
CASES = st.builds(
    SkillCase,
    st.sampled_from([f"c{number}" for number in range(30)]),
    st.sampled_from(["Which?", "Ünd was?", " "]),  # the last one is refused
    st.builds(CaseCheck, st.sampled_from(CHECK_KINDS), TEXT),
    context=TEXT,
    wrong=TEXT,
    correction=TEXT,
    expected=TEXT,
    trace_id=TEXT,
    made_at=TEXT,
    last_result=st.sampled_from(CASE_RESULTS),
    last_run_at=TEXT,
    model=TEXT,
    answer=TEXT,
)
CHECK = CaseCheck("exact", "this")
FEW_CASES = st.lists(CASES, max_size=4)

# Skills are chosen by place, so that most steps meet one that exists.
STEP = st.one_of(
    st.tuples(st.just("add"), SECTIONS, TEXT, SOURCES),
    st.tuples(st.just("update"), st.integers(0, 20), TEXT, SECTIONS),
    st.tuples(st.just("tag"), st.integers(0, 20), st.sampled_from(["helpful", "harmful", "neutral", "great"])),
    st.tuples(st.just("remove"), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("merge"), st.integers(0, 20), st.integers(0, 20), TEXT),
    st.tuples(st.just("keep"), st.integers(0, 20), st.integers(0, 20), TEXT),
    st.tuples(st.just("embed"), st.integers(0, 20), st.lists(st.floats(width=32, allow_nan=False), max_size=3)),
    st.tuples(st.just("batch"), st.integers(0, 20), TEXT),
    st.tuples(st.just("import"), TEXT),
    st.tuples(st.just("learn cases"), st.integers(0, 20), st.sampled_from([None, "", "new", "x"]), FEW_CASES),
    st.tuples(st.just("put cases"), st.integers(0, 20), FEW_CASES),
    st.tuples(st.just("remove cases"), st.integers(0, 20), st.integers(0, 29)),
    st.tuples(st.just("note results"), st.integers(0, 20), FEW_CASES, FEW_CASES),
)


def id_at(book: Skillbook, place: int) -> str:
    skills = book.skills(include_invalid=True)
    return skills[place % len(skills)].id if skills else "nobody"


def take(book: Skillbook, step: tuple[object, ...]) -> None:
    """Take one step; a book refuses wrong ones with a ValueError and stays as it is."""
    before = book.dumps()
    try:
        match step:
            case ("add", str(section), str(content), InsightSource() as source):
                book.add_skill(section, content, insight_source=source)
            case ("update", int(place), str(content), str(section)):
                book.update_skill(id_at(book, place), content=content or None, section=section)
            case ("tag", int(place), str(tag)):
                book.tag_skill(id_at(book, place), tag)
            case ("remove", int(place), bool(soft)):
                book.remove_skill(id_at(book, place), soft)
            case ("merge", int(first), int(second), str(content)):
                book.merge_skills(id_at(book, first), [id_at(book, second)], content or None)
            case ("keep", int(first), int(second), str(reasoning)):
                book.keep_apart(id_at(book, first), id_at(book, second), reasoning=reasoning)
            case ("embed", int(place), list(vector)):
                book.set_embeddings({id_at(book, place): vector})
            case ("batch", int(place), str(content)):
                operations = [
                    UpdateOperation("ADD", section="b", content=content),
                    UpdateOperation("UPDATE", skill_id=id_at(book, place), content=content),
                    UpdateOperation("REMOVE", skill_id=id_at(book, place + 1)),
                    UpdateOperation("TAG", skill_id=id_at(book, place + 1), metadata={"helpful": 2}),
                ]
                book.apply_update(UpdateBatch("", operations))
            case ("import", str(content)):
                other = Skillbook(clock=ticking())
                other.add_skill("a", content, metadata={"helpful": 1}, cases=[SkillCase("c1", "Which?", CHECK)])
                book.import_skills(other)
            case _:
                change_cases(book, step)
    except ValueError:
        assert book.dumps() == before


def change_cases(book: Skillbook, step: tuple[object, ...]) -> None:
    match step:
        case ("learn cases", int(place), (str() | None) as content, list(cases)):
            operations = [
                UpdateOperation("ADD", section="c", content=content, cases=cases),
                UpdateOperation("UPDATE", skill_id=id_at(book, place), content=content, cases=cases),
            ]
            book.apply_update(UpdateBatch("", operations))
        case ("put cases", int(place), list(cases)):
            book.put_cases(id_at(book, place), cases)
        case ("remove cases", int(place), int(number)):
            book.remove_cases(id_at(book, place), [f"c{number}", "c0"])
        case ("note results", int(place), list(some), list(others)):
            asked = book.get_skill(id_at(book, place))
            contents = {} if asked is None else {asked.id: asked.content}
            results = {id_at(book, place): some, id_at(book, place + 1): others, "nobody": some}
            book.note_results(results, contents=contents)
        case _:
            raise AssertionError(step)


@given(steps=st.lists(STEP, max_size=25))
@settings(max_examples=120, deadline=None)
def test_json_round_trip(steps: list[tuple[object, ...]]) -> None:
    book = Skillbook(clock=ticking())
    for step in steps:
        take(book, step)
        assert len(book) == len(book.skills()) == sum(map(len, book.sections().values()))
    again = Skillbook.loads(book.dumps())
    assert again.dumps() == book.dumps() == Skillbook.from_dict(book.to_dict()).dumps()
    assert again.as_prompt() == book.as_prompt()
    assert [skill.replace(embedding=None) for skill in book.skills(True)] == again.skills(True)


@given(steps=st.lists(STEP, max_size=25), data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_sequence_replayed_gives_the_same_bytes(steps: list[tuple[object, ...]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "skills.db"
        book = Skillbook.open(path, clock=ticking())
        texts = {0: book.dumps()}
        for step in steps:
            take(book, step)
            if data.draw(st.integers(0, 9)) == 0:
                book.rollback(data.draw(st.integers(0, book.version or 0)))
            texts[book.version or 0] = book.dumps()
        assert {version: book.as_of(version).dumps() for version in texts} == texts
        again = Skillbook.open(path)
        assert again.dumps() == book.dumps()
        assert again.as_prompt() == book.as_prompt()
        assert again.skills(True) == book.skills(True)


@given(steps=st.lists(st.tuples(st.booleans(), STEP), max_size=20), deferred=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_two_books_on_one_store_come_to_the_same_bytes(
    steps: list[tuple[bool, tuple[object, ...]]], deferred: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "skills.db"
        first, second = Skillbook.open(path, clock=ticking()), Skillbook.open(path, clock=ticking())
        second.as_prompt()
        if deferred:
            with second.deferred_commits():
                for mine, step in steps:
                    take(second if mine else first, step)
        else:
            for mine, step in steps:
                second.refresh() if mine else first.refresh()
                take(second if mine else first, step)
        first.refresh()
        second.refresh()
        fresh = Skillbook.open(path)
        assert first.dumps() == second.dumps() == fresh.dumps() == fresh.as_of(fresh.version or 0).dumps()
        assert first.as_prompt() == second.as_prompt() == fresh.as_prompt()
        assert first.skills(True) == fresh.skills(True)
