"""Checks are strict: whole values, numbers by value, one of the alternatives, and never what was wrong."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ace.cases import (
    answer_passes,
    cases_of,
    check_for,
    check_of_correction,
    check_passes,
    deciding_values,
    missing_values,
    other_alternatives,
    right_values,
    why_not,
    worked_example,
)
from ace.cases.values import inverted_number, number_in, numbers_in
from ace.skill import CaseCheck, CheckKind, SkillCase

HOLDS = [
    # Codes and file names
    ("contains", "K7", "Bay K7.", True),
    ("contains", "K7", "bay k7", True),
    ("contains", "K7", "K7-BLUE", False),
    ("contains", "K7", "AK7", False),
    ("contains", "K7", "X/K7", False),
    ("contains", "K7", "K7/2", False),
    ("contains", "K7", "K7_old", False),
    ("contains", "web", "web:login", False),
    ("contains", "login", "web:login", False),
    ("contains", "board_14.md", "It is `board_14.md`.", True),
    ("contains", "board_14.md", "board_14.mdx", False),
    ("contains", "board_14.md", "old/board_14.md", False),
    ("contains", "+493012345", "+493012345", True),
    ("contains", "+493012345", "+4930123456", False),
    ("contains", "007", "7", False),
    ("contains", "-n", "rg -n", True),
    ("contains", "ops@x.org", "Write to ops@x.org!", True),
    ("contains", "x.org", "ops@x.org", False),
    ("contains", "Tove", "Tove's desk", True),
    # Numbers by value
    ("contains", "12", "12.0 km", True),
    ("contains", "12", "12,0 km", True),
    ("contains", "12", "120 km", False),
    ("contains", "12", "0.12 km", False),
    ("contains", "12", "K12", False),
    ("contains", "14", "14:30", False),
    ("contains", "30", "14:30", False),
    ("contains", "5", "2024-05-03", False),
    ("contains", "3", "version 3.11.2", False),
    ("contains", "1200", "1,200 kg", True),
    ("contains", "1200", "1.200,0", True),
    ("contains", "1200", "1'200", True),
    ("contains", "1.2", "1,200", False),
    ("contains", "-7", "about \u22127", True),
    ("contains", "7", "-7", False),
    ("contains", "4", "four stacks", True),
    ("contains", "12", "12kg", True),
    ("contains", "12", "12th", False),
    ("contains", "12", "10-12", False),
    ("numeric", "12", "12 km", True),
    ("numeric", "12", "12.00", True),
    ("numeric", "12", "12 or 13", False),
    ("numeric", "12", "13", False),
    ("numeric", "12", "It leaves at 14:30 from bay 12", True),
    # Units
    ("contains", "7 percent", "7%", True),
    ("contains", "7 percent", "7.0 per cent", True),
    ("contains", "7 percent", "17 percent", False),
    ("contains", "12 km", "12 kilometres", True),
    ("contains", "12 km", "12km", True),
    ("contains", "12 km", "12 m", False),
    ("contains", "12 km", "12", False),
    ("contains", "RAL 6005", "RAL 60051", False),
    # Phrases, letters, yes and no
    ("contains", "Fair winds", "Yours,\nFair  winds!", True),
    ("contains", "Fair winds", "Fair wind", False),
    ("contains", "A\nB2", "Bay A, gate B2", True),
    ("contains", "A\nB2", "Bay A", False),
    ("contains", "C", "Pier C", True),
    ("contains", "C", "c", True),
    ("contains", "A", "A boat moors at pier C", False),
    ("contains", "A", "Pier A", True),
    ("any_of", "red\nblue", "Blue.", True),
    ("any_of", "red\nblue", "bluebell", False),
    ("exact", "Fair winds", "fair  winds\n", True),
    ("exact", "Fair winds", "Fair winds!", False),
    ("regex", r"^\d{3}$", "007", True),
    ("contains", "", "anything", False),
]


@pytest.mark.parametrize(("kind", "value", "answer", "passes"), HOLDS)
def test_a_check_is_bounded_and_compares_numbers_by_value(
    kind: CheckKind, value: str, answer: str, passes: bool
) -> None:
    check = CaseCheck(kind, value)
    assert check_passes(check, answer) is passes
    assert (why_not(check, answer) == "") is passes


@pytest.mark.parametrize("kind", ["environment", "judge"])
def test_what_code_cannot_check_is_neither_right_nor_wrong(kind: CheckKind) -> None:
    case = SkillCase.make("q", CaseCheck(kind, "x"), wrong="w", expected="e")
    assert check_passes(case.check, "x") is answer_passes(case, "x") is None


ALTERNATIVES = [
    ("Where does it moor, pier A or pier C?", "Pier C", [("A",)]),
    ("A boat of 6 metres: pier A or pier C?", "A", [("C",)]),
    ("Is the flag red, green or blue?", "green", [("red",), ("blue",)]),
    ("Should I take calendar_api or rooms_api?", "rooms_api", [("calendar_api",)]),
    ("Is it free delivery or paid delivery?", "paid", [("free",)]),
    ("Who signs, Anna or the head of finance?", "Anna", [("head",)]),
    ("Tea or coffee?", "water", []),
    ("Which pier for 11 metres?", "C", []),
]


@pytest.mark.parametrize(("question", "value", "others"), ALTERNATIVES)
def test_the_other_alternatives_of_a_question(question: str, value: str, others: list[tuple[str, ...]]) -> None:
    assert other_alternatives(question, value) == others


def case_of(question: str, wrong: str, said: str, right: str) -> SkillCase:
    check = check_of_correction(question, wrong, said, right)
    assert check is not None
    return SkillCase.make(question, check, wrong=wrong, correction=said, expected=right)


def test_harmless_words_of_a_long_wrong_answer_do_not_fail_a_right_one() -> None:
    wrong = (
        "In March the harbour office opens at 9, closes at 17 and takes calls all day; a guest who arrives late rings "
        "the bell at Pier 4, and the front desk in Building B lends out keys."
    )
    case = case_of("Who lends out keys?", wrong, "No, keys come from Osman.", "Osman lends out keys.")
    assert answer_passes(case, "In March it is Osman, who sits beside the bell.")
    assert answer_passes(case, "It is Osman, who sits in Building B at Pier 4.") is None, "more than was asked for"
    assert answer_passes(case, wrong) is False


def test_an_answer_that_repeats_the_wrong_one_beside_the_right_one_fails() -> None:
    case = case_of("Who gets the call?", "The front desk", "No, Tove.", "Tove")
    assert [
        answer_passes(case, answer) for answer in ("Tove", "Tove or the front desk", "Not the front desk: Tove")
    ] == [*(True, False, False)]


def test_numbers_of_the_question_may_be_repeated() -> None:
    case = case_of("How many km are 8600 m?", "8600 km", "Divide by 1000.", "8.6 km")
    assert case.check == CaseCheck("numeric", "8.6")
    assert [answer_passes(case, answer) for answer in ("8600 m are 8.6 km", "8600 km or 8.6 km", "8.6 or 9")] == [
        *(True, False, False)
    ]


def test_a_judged_trace_without_a_wrong_answer_has_a_case_that_says_so() -> None:
    [case] = cases_of({"question": "6*7?", "answer": "6*7 = 42", "ground_truth": "42"})
    assert (case.wrong, answer_passes(case, "6*7 is 42")) == ("", True)


WORDS = st.text(alphabet="abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNOPQRSTUVWXYZ0123456789-_./:", min_size=1, max_size=12)
ANSWERS = st.lists(WORDS | st.integers(-(10**6), 10**6).map(str), min_size=1, max_size=8).map(" ".join) | st.text(
    min_size=1, max_size=60
)


@given(question=ANSWERS, wrong=ANSWERS, said=ANSWERS, right=ANSWERS)
@example(question="q", wrong="7", said="three digits", right="007")
@example(question="q", wrong="osl", said="in capitals", right="OSL")
@example(question="q", wrong="2.40", said="a comma", right="2,40")
@example(question="A or B?", wrong="A", said="B, not A", right="B, not A")
@example(question="q", wrong="Fair winds.", said="no full stop", right="Fair winds")
def test_the_accepted_answer_passes_its_own_check_and_the_wrong_one_does_not(
    question: str, wrong: str, said: str, right: str
) -> None:
    assume(" ".join(wrong.split()) != " ".join(right.split()) and right.strip() and wrong.strip())
    check = check_of_correction(question, wrong, said, right)
    if check is None:
        return
    case = SkillCase.make(question, check, wrong=wrong, correction=said, expected=right)
    assert answer_passes(case, right) is True
    assert answer_passes(case, wrong) is False
    # Also by the check itself, which is all that is left where a case has lost its answers.
    assert check_passes(check, right, question=question) is True
    assert set(missing_values(f"{said}\n{right}", case)) <= set(deciding_values(case))
    assert worked_example(case).startswith("Example: ")
    right_values(question, wrong, said, right)


@pytest.mark.parametrize(
    ("question", "wrong", "said", "right", "values"),
    [
        (
            "At which level is an expired card logged?",
            "WARNING",
            "NOTICE for every failed payment. ERROR only if data is lost.",
            "NOTICE",
            ("NOTICE", "ERROR"),
        ),
        ("Which queue gets it?", "B4", "It belongs into C7, unless Ines is away.", "C7", ("C7", "Ines")),
        # What was rejected does not decide.
        ("At which level is it logged?", "ERROR", "NOTICE. ERROR only if data is lost.", "NOTICE", ("NOTICE",)),
        # A remark is not a condition.
        ("Which queue gets it?", "B4", "Ines has told you. It belongs into C7.", "C7", ("C7",)),
    ],
)
def test_the_values_of_a_condition_decide_as_well(
    question: str, wrong: str, said: str, right: str, values: tuple[str, ...]
) -> None:
    check = check_of_correction(question, wrong, said, right)
    assert check is not None
    case = SkillCase.make(question, check, wrong=wrong, correction=said, expected=right)
    assert deciding_values(case) == values


PIER = ("A boat of 6 metres: pier A or pier C?", "Pier C", "Pier C is for boats longer than 9 metres.", "Pier A")
SIGNS = ("Who signs 40 euros?", "Marek", "Up to 75 euros Vera signs.", "Vera signs.")


@pytest.mark.parametrize(
    ("case", "rule", "number"),
    [
        (PIER, "When a boat is longer than 9 metres, moor at pier A; otherwise, moor at pier C.", "9"),
        (PIER, "When a boat is longer than 9 metres, moor at pier C; otherwise, moor at pier A.", ""),
        (PIER, "Boats longer than 9 metres moor at pier C.", ""),
        (PIER, "Boats longer than 9 metres moor at pier A.", "9"),
        (PIER, "Pier C is for long boats.", ""),  # the lost number is found elsewhere
        (SIGNS, "Above 75 euros Vera signs.", ""),  # only the condition is inverted: that is for the proof
        (SIGNS, "Up to 75 euros Marek signs.", "75"),
        (SIGNS, "Up to 75 euros Vera signs, not Marek.", ""),
    ],
)
def test_a_rule_that_gives_a_condition_the_wrong_answer_is_found(
    case: tuple[str, str, str, str], rule: str, number: str
) -> None:
    question, wrong, said, right = case
    check = check_of_correction(question, wrong, said, right)
    assert check is not None
    made = SkillCase.make(question, check, wrong=wrong, correction=said, expected=right)
    assert inverted_number(rule, made) == number


@given(value=ANSWERS.filter(lambda text: bool(text.strip(" .!,;:"))))
def test_a_ground_truth_passes_its_own_check(value: str) -> None:
    assume(value.strip())
    check = check_for(value)
    assert check_passes(check, value) is True
    assert why_not(check, value, expected=value) == ""


CODE = st.from_regex(r"\A[A-Za-z]{1,4}[-_/]?[0-9]{1,4}\Z")


@given(
    value=CODE,
    before=st.from_regex(r"\A[A-Za-z0-9]{1,3}[-_/@#.]?\Z"),
    after=st.from_regex(r"\A[-_/@.:]?[A-Za-z0-9]{1,3}\Z"),
)
def test_a_value_inside_a_longer_code_never_passes(value: str, before: str, after: str) -> None:
    check = CaseCheck("contains", value)
    for longer in (before + value, value + after, before + value + after):
        assert check_passes(check, f"It is {longer} here") is False
    assert check_passes(check, f"It is {value}, here") is True


@given(number=st.integers(0, 10**9), digits=st.from_regex(r"\A[0-9]{1,4}\Z"))
def test_a_number_inside_a_longer_number_or_code_never_passes(number: int, digits: str) -> None:
    assume(int(f"{digits}{number}") != number and int(f"{number}{digits}") != number)
    check = check_for(str(number))
    for longer in (f"{digits}{number}", f"{number}{digits}", f"K{number}", f"{number}-ML", f"{number}:30"):
        assert check_passes(check, f"It is {longer}") is False
    for same in (f"{number}.0", f"{number},0", f"{number:,}", f"It is {number}."):
        assert check_passes(check, same) is True


@given(text=st.text(max_size=80))
def test_numbers_of_any_text_are_numbers(text: str) -> None:
    assert all(number.is_finite() for number in numbers_in(text))
    value = number_in(text)
    assert value is None or value in numbers_in(f"It is {text.strip()}")


def test_a_case_without_a_known_answer_has_no_worked_example() -> None:
    rubric = CaseCheck("judge", "Is it polite?")
    assert worked_example(SkillCase.make("How do we greet?", rubric, wrong="Hey")) == ""
    assert (
        worked_example(SkillCase.make("How do we greet?", rubric, expected="Hello"))
        == "Example: How do we greet? -> Hello"
    )
