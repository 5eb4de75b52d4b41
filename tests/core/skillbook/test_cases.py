"""The cases of skills: what learning joins, what is put by hand, results, history, and files."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace.skill import MAX_CASES, CaseCheck, CaseResult, SkillCase
from ace.skillbook import EventRefusedError, Skillbook, SkillbookFileError
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking


def case(number: int = 1, result: CaseResult = "not_run") -> SkillCase:
    made = SkillCase.make(
        f"When is high water at pier {number}?",
        CaseCheck("contains", "14h30"),
        context="Pier list",
        wrong="2:30 pm",
        correction="Times are given as 14h30.",
        expected="14h30",
        trace_id=f"t{number}",
        made_at="2026-01-01T00:00:00+00:00",
    )
    ran = "" if result == "not_run" else "2026-02-02T00:00:00+00:00"
    return replace(made, last_result=result, last_run_at=ran, model="m" if ran else "")


def changed(**fields: object) -> Any:
    made = object.__new__(SkillCase)
    vars(made).update(vars(case()) | fields)
    return made


@pytest.fixture(params=["memory", "json", "db"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Skillbook:
    if request.param == "memory":
        return Skillbook(clock=ticking())
    return Skillbook.open(tmp_path / f"skills.{request.param}", clock=ticking())


def apply(book: Skillbook, *operations: UpdateOperation) -> list[str]:
    return [left.reason for left in book.apply_update(UpdateBatch("", operations)).skipped]


def cases_of(book: Skillbook, skill_id: str) -> tuple[SkillCase, ...]:
    skill = book.get_skill(skill_id)
    assert skill is not None
    return skill.cases


def test_an_added_skill_has_the_cases_of_its_operation(book: Skillbook) -> None:
    assert apply(book, UpdateOperation("ADD", section="a", content="x", cases=[case(1), case(2), case(1)])) == []
    assert cases_of(book, "a-00001") == (case(1), case(2))


def test_an_update_with_nothing_but_cases_joins_them(book: Skillbook) -> None:
    book.add_skill("a", "x", cases=[case(1, "passed")])
    assert apply(book, UpdateOperation("UPDATE", skill_id="a-00001", cases=[case(2, "failed"), case(1)])) == []
    skill = book.get_skill("a-00001")
    assert skill is not None
    assert skill.content == "x"
    # A case that was not run does not replace its result.
    assert skill.cases == (case(1, "passed"), case(2, "failed"))
    assert skill.proof == "failing"


def test_learning_joins_no_more_cases_than_a_skill_may_have(book: Skillbook) -> None:
    many = [case(number) for number in range(MAX_CASES + 5)]
    apply(book, UpdateOperation("ADD", section="a", content="x", cases=many))
    assert cases_of(book, "a-00001") == tuple(many[:MAX_CASES])
    apply(book, UpdateOperation("UPDATE", skill_id="a-00001", cases=[case(99), case(0, "passed")]))
    assert cases_of(book, "a-00001") == (case(0, "passed"), *many[1:MAX_CASES])
    book.put_cases("a-00001", many)
    assert len(cases_of(book, "a-00001")) == MAX_CASES + 5
    apply(book, UpdateOperation("UPDATE", skill_id="a-00001", cases=[case(99)]))
    assert len(cases_of(book, "a-00001")) == MAX_CASES + 5


def test_a_new_content_resets_the_results_that_come_without_it(book: Skillbook) -> None:
    book.add_skill("a", "x", cases=[case(1, "passed"), case(2, "passed")])
    apply(book, UpdateOperation("UPDATE", skill_id="a-00001", content="y", cases=[case(2, "passed")]))
    assert cases_of(book, "a-00001") == (case(1), case(2, "passed"))
    book.update_skill("a-00001", content="y", justification="the same content")
    assert cases_of(book, "a-00001") == (case(1), case(2, "passed"))
    book.update_skill("a-00001", content="z")
    assert cases_of(book, "a-00001") == (case(1), case(2))


def test_cases_are_put_and_removed_by_hand(book: Skillbook) -> None:
    book.add_skill("a", "x")
    put = book.put_cases("a-00001", [case(1), case(2)])
    assert put is not None
    assert put.cases == (case(1), case(2))
    edited = replace(case(1), expected="14h30, or later")
    assert book.put_cases("a-00001", [edited]) == book.get_skill("a-00001")
    assert cases_of(book, "a-00001") == (edited, case(2))
    left = book.remove_cases("a-00001", [case(1).id, "unknown"])
    assert left is not None
    assert left.cases == (case(2),)
    assert left.updated_at > put.updated_at
    assert book.put_cases("nothing", [case()]) is None
    assert book.remove_cases("nothing", [case().id]) is None


def test_results_are_noted_for_the_cases_that_are_there(book: Skillbook) -> None:
    book.add_skill("a", "x", cases=[case(1), case(2)])
    before = book.add_skill("a", "y", cases=[case(3, "passed")])
    other = replace(case(1, "passed"), question="A question of another book?")
    book.note_results({"a-00001": [other, case(9, "failed")], before.id: [case(3, "failed")], "gone": [case()]})
    assert cases_of(book, "a-00001") == (case(1, "passed"), case(2))
    after = book.get_skill(before.id)
    assert after is not None
    assert after.proof == "failing"
    assert after.updated_at == before.updated_at


def test_a_merged_skill_has_the_cases_of_all(book: Skillbook) -> None:
    for number in (1, 2, 3):
        shared = replace(case(9, "failed"), expected=f"from skill {number}")
        book.add_skill("a", f"text {number}", cases=[case(number, "passed"), shared])
    shared = replace(case(9), expected="from skill 2", last_result="failed", last_run_at=case(9, "failed").last_run_at)
    kept = book.merge_skills("a-00002", ["a-00001"])
    assert [stored.id for stored in kept.cases] == [case(2).id, case(9).id, case(1).id]
    # The others were answered with another text, so their results say nothing of this one.
    assert kept.cases[0] == case(2, "passed")
    assert (kept.cases[1].expected, kept.cases[1].last_result) == (shared.expected, "failed")
    assert kept.cases[2] == case(1)
    kept = book.merge_skills("a-00002", ["a-00003"], "All of it.")
    assert {stored.last_result for stored in kept.cases} == {"not_run"}
    assert len(kept.cases) == 4
    assert cases_of(book, "a-00001")[0] == case(1, "passed")


def test_imported_skills_keep_their_cases(book: Skillbook) -> None:
    other = Skillbook(clock=ticking())
    other.add_skill("a", "x", cases=[case(1, "passed")])
    book.add_skill("a", "first")
    assert book.import_skills(other)[0].cases == (case(1, "passed"),)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (["text"], "cases[0] must be a SkillCase with a CaseCheck, got 'text'"),
        ("text", "cases must be a list of SkillCase, got str"),
        ([replace(case(), question=" ")], "cases[0].question is empty"),
        ([changed(wrong=3)], "cases[0].wrong must be a string, got int"),
        ([replace(case(), correction="\ud800")], "cases[0].correction: lone surrogate at character 0"),
        ([changed(check=None)], "cases[0] must be a SkillCase with a CaseCheck"),
        ([replace(case(), check=CaseCheck("equals", "x"))], "cases[0].check.kind must be one of exact, contains"),  # type: ignore[arg-type]
        ([changed(last_result="great")], "cases[0].last_result must be one of passed, failed, not_run"),
    ],
)
def test_what_no_file_can_hold_is_refused(book: Skillbook, wrong: Any, reason: str) -> None:
    skill = book.add_skill("a", "x", cases=[case()])
    before = book.dumps()
    assert reason in apply(book, UpdateOperation("ADD", section="a", content="y", cases=wrong))[0]
    assert reason in apply(book, UpdateOperation("UPDATE", skill_id=skill.id, cases=wrong))[0]
    changes: list[Callable[[], object]] = [
        lambda: book.put_cases(skill.id, wrong),
        lambda: book.note_results({skill.id: wrong}),
        lambda: book.add_skill("a", "y", cases=wrong),
        lambda: book.update_skill(skill.id, cases=wrong),
    ]
    for change in changes:
        with pytest.raises(EventRefusedError) as caught:
            change()
        assert reason in str(caught.value)
    assert book.dumps() == before


def test_a_refused_operation_is_noted_with_its_cases(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db", clock=ticking()) as book:
        book.add_skill("a", "x")
        book.apply_update(UpdateBatch("", [UpdateOperation("UPDATE", skill_id="gone", cases=[case()])]), author="me")
        book.add_skill("a", "y")
        book.apply_update(
            UpdateBatch(
                "",
                [
                    UpdateOperation("TAG", skill_id="a-00001", metadata={"helpful": 1}),
                    UpdateOperation("UPDATE", skill_id="gone", cases=[case()]),
                ],
            )
        )
        (note,) = book.history()[-1].skipped
        assert note["operation"]["cases"] == [{**case().to_dict(), "evidence": "truth"}]


def test_an_operation_is_read_and_written_with_its_cases() -> None:
    operation = UpdateOperation("ADD", section="a", content="x", cases=[case(1, "passed"), case(2)])
    assert UpdateOperation.from_dict(operation.to_dict()) == operation
    assert UpdateOperation.from_dict(json.loads(json.dumps(operation.to_dict()))) == operation
    assert "cases" not in UpdateOperation("ADD", section="a", content="x").to_dict()
    with pytest.raises(ValueError, match=r"'cases\[0\]' cannot be read: question: this field is missing"):
        UpdateOperation.from_dict({"type": "ADD", "cases": [{"id": "a"}]})
    with pytest.raises(ValueError, match="'cases' must be a list, got 3"):
        UpdateOperation.from_dict({"type": "ADD", "cases": 3})


@pytest.mark.parametrize("shape", ["flat", "nested", "list"])
def test_a_model_cannot_claim_a_proof(shape: str) -> None:
    from ace.outputs import SkillManagerOutput

    operation = {"type": "ADD", "section": "a", "content": "x", "cases": [case(1, "passed").to_dict()]}
    flat = {"reasoning": "", "operations": [operation]}
    answers: dict[str, Any] = {"flat": flat, "nested": {"update": flat}, "list": {"update": [operation]}}
    (read,) = SkillManagerOutput.model_validate(answers[shape]).update.operations
    assert (read.content, read.cases) == ("x", ())


def test_the_file_of_a_book_with_cases_is_plain_json(book: Skillbook) -> None:
    book.add_skill("a", "without")
    before = book.dumps()
    assert "cases" not in before
    book.add_skill("a", "with", cases=[case(1, "passed"), replace(case(2), wrong='"quoted"\n ä')])
    book.add_skill("a", "again without")
    text = book.dumps()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert json.loads(text) == book.to_dict()
    assert Skillbook.loads(text).skills() == book.skills()
    assert Skillbook.from_dict(book.to_dict()).dumps() == text
    for skill in book.skills():
        book.remove_cases(skill.id, [stored.id for stored in skill.cases])
    assert "cases" not in book.dumps()


def written(**changes: Any) -> str:
    book = Skillbook(clock=ticking())
    book.add_skill("a", "x", cases=[case(1, "passed"), case(2)])
    data: Any = book.to_dict()
    fields = data["skills"]["a-00001"]["cases"][0]
    for name, value in changes.items():
        if value is ...:
            del fields[name]
        else:
            fields[name] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"id": 3}, "cases[0].id", "must be a string, got 3"),
        ({"id": ""}, "cases[0].id", "must not be empty"),
        ({"id": case(2).id}, "cases[1]", "appears twice"),
        ({"question": ...}, "cases[0].question", "this field is missing"),
        ({"question": " "}, "cases[0].question", "must not be empty"),
        ({"check": ...}, "cases[0].check", "must be an object, got None"),
        ({"check": {"kind": "exact"}}, "cases[0].check.value", "this field is missing"),
        ({"check": {"kind": "equals", "value": "x"}}, "cases[0].check.kind", "must be one of exact, contains"),
        ({"check": {"kind": "exact", "value": "x", "strict": True}}, "cases[0].check.strict", "unknown field"),
        ({"last_result": "great"}, "cases[0].last_result", "must be one of passed, failed, not_run, got 'great'"),
        ({"model": None}, "cases[0].model", "must be a string, got None"),
        ({"tokens": 7}, "cases[0].tokens", "unknown field"),
    ],
)
def test_a_damaged_case_is_refused_with_its_place(changes: dict[str, Any], place: str, reason: str) -> None:
    with pytest.raises(SkillbookFileError) as caught:
        Skillbook.loads(written(**changes))
    assert f"skills['a-00001'].{place}" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("cases", [3, "x", [3], {"a": 1}])
def test_cases_that_are_no_list_of_objects_are_refused(cases: Any) -> None:
    data = json.loads(written())
    data["skills"]["a-00001"]["cases"] = cases
    with pytest.raises(SkillbookFileError, match=r"skills\['a-00001'\]\.cases"):
        Skillbook.loads(json.dumps(data))


def test_a_file_in_another_order_of_fields_is_read_alike() -> None:
    book = Skillbook(clock=ticking())
    for number in range(4):
        cases = [case(number, "passed"), case(number + 9)] if number % 2 else []
        book.add_skill("a", f"text {number}", cases=cases)
    data: Any = book.to_dict()
    for fields in data["skills"].values():
        fields["cases"] = [dict(reversed(fields_of_case.items())) for fields_of_case in fields.get("cases", [])]
    in_order, in_another = Skillbook.loads(book.dumps()), Skillbook.loads(json.dumps(data))
    assert in_order.skills() == in_another.skills() == book.skills()
    assert in_order.dumps() == in_another.dumps() == book.dumps()
    assert [hash(skill) for skill in in_order.skills()] == [hash(skill) for skill in book.skills()]


def test_cases_of_another_framework_are_named_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    skills: dict[str, dict[str, Any]] = {
        "a-00001": {"section": "a", "content": "x", "cases": 3},
        "a-00002": {"section": "a", "content": "y"},
    }
    skills["a-00002"]["cases"] = [case(1, "passed").to_dict()]
    with caplog.at_level(logging.WARNING):
        book = Skillbook.loads(json.dumps({"skills": skills}))
    assert [skill.cases for skill in book.skills()] == [(), (case(1, "passed"),)]
    assert "These fields of the file are not supported and were ignored: skills.cases" in caplog.text


def test_what_a_case_lacks_in_a_file_is_empty() -> None:
    read = Skillbook.loads(written(wrong=..., last_result=..., model=...)).skills()[0].cases
    assert read[0] == replace(case(1), last_run_at=case(1, "passed").last_run_at, wrong="")
    assert read[1] == case(2)
    data = json.loads(written())
    data["skills"]["a-00001"]["cases"] = []
    assert Skillbook.loads(json.dumps(data)).skills()[0].cases == ()


def test_saves_that_meet_join_their_cases(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    first = Skillbook.open(path, clock=ticking())
    first.add_skill("a", "x", cases=[case(1)])
    first.save_to_file(path)
    second = Skillbook.open(path, clock=ticking())
    first.put_cases("a-00001", [case(2)])
    first.note_results({"a-00001": [case(1, "passed")]})
    second.put_cases("a-00001", [case(3)])
    first.save_to_file(path)
    second.save_to_file(path, merge=True)
    assert cases_of(Skillbook.open(path), "a-00001") == (case(1, "passed"), case(2), case(3))


def test_a_book_merged_into_another_file_brings_the_cases_of_skills_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    theirs = Skillbook.open(path, clock=ticking())
    theirs.add_skill("b", "y")
    theirs.add_skill("a", "x", cases=[case(1, "passed")])
    theirs.save_to_file(path)
    ours = Skillbook(clock=ticking())
    ours.add_skill("a", "x", cases=[case(1, "failed"), case(2, "passed")])
    ours.add_skill("b", "y", cases=[case(3)])
    ours.save_to_file(path, merge=True)
    merged = Skillbook.open(path)
    assert [skill.cases for skill in merged.skills()] == [(case(3),), (case(1, "passed"), case(2, "passed"))]


def test_history_and_rollback_of_cases(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as book:
        book.add_skill("a", "x", cases=[case(1)])
        book.note_results({"a-00001": [case(1, "passed")]}, author="test")
        book.put_cases("a-00001", [case(2)])
        book.remove_cases("a-00001", [case(1).id])
        states = [cases_of(book.as_of(version), "a-00001") for version in (1, 2, 3, 4)]
        assert states == [(case(1),), (case(1, "passed"),), (case(1, "passed"), case(2)), (case(2),)]
        assert [entry.author for entry in book.history()] == ["", "test", "", ""]
        assert len(book.blame("a-00001")) == 4
        book.rollback(3)
        assert cases_of(book, "a-00001") == (case(1, "passed"), case(2))
        text = book.dumps()
    with Skillbook.open(path) as book:
        assert book.dumps() == text == book.as_of(5).dumps()


def test_results_that_say_nothing_new_make_no_version(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db", clock=ticking()) as book:
        book.add_skill("a", "x", cases=[case(1, "passed"), case(2)])
        book.add_skill("a", "y", cases=[case(3)])
        assert book.version == 2
        book.note_results({"a-00001": [case(1, "passed")], "gone": [case(1, "failed")]})
        book.note_results({})
        book.put_cases("a-00001", [case(2)])
        book.put_cases("a-00001", [])
        book.remove_cases("a-00001", ["unknown"])
        assert book.version == 2
        book.note_results({"a-00001": [case(2, "passed")], "a-00002": [case(3, "failed")]})
        assert book.version == 3


def test_two_books_on_one_store_change_cases_of_one_skill(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as first, Skillbook.open(path, clock=ticking()) as second:
        first.add_skill("a", "x", cases=[case(1), case(2)])
        first.add_skill("a", "y", cases=[case(3)])
        second.refresh()
        first.remove_cases("a-00001", [case(1).id])
        first.remove_skill("a-00002")
        # Both are of an older version: what was removed meanwhile gets no result, and does not come back.
        second.note_results({"a-00001": [case(1, "failed"), case(2, "passed")], "a-00002": [case(3, "passed")]})
        assert cases_of(second, "a-00001") == (case(2, "passed"),)
        first.refresh()
        assert second.dumps() == first.dumps() == Skillbook.open(path).dumps()
        with caplog.at_level(logging.WARNING):
            first.remove_skill("a-00001")
            with pytest.raises(ValueError, match="no such skill: 'a-00001'"):
                second.put_cases("a-00001", [case(4)])
        assert "no such skill: 'a-00001'" in caplog.text


def test_cases_follow_their_skill_to_the_id_that_it_gets(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as first, Skillbook.open(path, clock=ticking()) as second:
        with second.deferred_commits():
            mine = second.add_skill("a", "mine", cases=[case(1)])
            second.put_cases(mine.id, [case(2)])
            second.note_results({mine.id: [case(1, "passed")]})
            apply(second, UpdateOperation("UPDATE", skill_id=mine.id, cases=[case(3)]))
            theirs = first.add_skill("a", "theirs")
            assert theirs.id == mine.id
        assert [(skill.content, skill.cases) for skill in second.skills()] == [
            ("theirs", ()),
            ("mine", (case(1, "passed"), case(2), case(3))),
        ]
        assert second.dumps() == second.as_of(2).dumps() == Skillbook.open(path).dumps()


def test_what_learning_joined_is_in_the_history(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db", clock=ticking()) as book:
        book.add_skill("a", "x")
        apply(book, UpdateOperation("UPDATE", skill_id="a-00001", cases=[case(1, "passed")]))
        apply(book, UpdateOperation("UPDATE", skill_id="a-00001", content="y", cases=[case(2, "passed")]))
        states = [cases_of(book.as_of(version), "a-00001") for version in (1, 2, 3)]
        assert states == [(), (case(1, "passed"),), (case(1), case(2, "passed"))]
        assert cases_of(book, "a-00001") == states[-1]
