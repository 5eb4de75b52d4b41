"""Code gives a verdict on an answer only where its values decide; everything else is left to a judge."""

from __future__ import annotations

import pytest

from ace.cases import answer_passes, check_for, check_of_correction
from ace.skill import SkillCase


def verdict(question: str, right: str, answer: str, *, wrong: str = "", correction: str = "") -> bool | None:
    check = (check_of_correction(question, wrong, correction, right) if wrong else None) or check_for(right)
    case = SkillCase.make(question, check, wrong=wrong, correction=correction, expected=right)
    return answer_passes(case, answer)


SCHOOLS = "Schools get 15 % from 10 lamps on."
YEARS = "Bulbs have 1 year, fixtures 2 years."


@pytest.mark.parametrize(
    ("right", "answer", "passes"),
    [
        (SCHOOLS, "15 % from 10 lamps on", True),
        (SCHOOLS, "15 %", None),  # whether more was asked for is not known to code
        (SCHOOLS, "12 %", False),
        (SCHOOLS, "10 % from 15 lamps on", False),
        (YEARS, "1 year for bulbs, 2 years for fixtures.", True),
        (YEARS, "3 years for both.", False),
        ("1", "1 year for bulbs, 2 years for fixtures.", None),
        ("4.5 kg", "4500 grams", True),
        ("4.5 kg", "4.5 g", False),
        ("4.5 kg", "4.5", True),
        ("4 hours", "240 min", True),
        ("Ms Okafor", "Anna does it.", None),  # "Anna" may be the first word of any sentence
        ("Ms Okafor", "It is Anna.", False),
        ("the harbour office", "They are sold at the office of the harbour.", None),
        ("K7-RED", "K7-REDDISH", False),
        ("K7-RED", "a red one", False),  # a code must appear as such
        ("Crates with K7-RED go to Lund.", "to Lund", None),
        ("消灯は22時です。", "22時", True),
        ("消灯は22時です。", "21時", False),
    ],
)
def test_values_decide_and_other_words_do_not(right: str, answer: str, passes: bool | None) -> None:
    assert verdict("What is it?", right, answer) is passes


def test_an_answer_that_says_only_what_was_wrong_fails_in_other_words_too() -> None:
    question, wrong = "Where do parcels go?", "Parcels go to the front desk on the ground floor"
    said = "No, they are kept in the cellar of the house."
    assert verdict(question, "the cellar", "the front desk", wrong=wrong, correction=said) is False
    assert verdict(question, "the cellar", "down below", wrong=wrong, correction=said) is None
