"""Corrections are found in dialogues of many shapes, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from ace.cases import answer_passes, cases_of
from ace.logs.trace import read_trace
from tests.core.cases.dialogues import CORRECTED, DIALOGUES, UNCORRECTED, Dialogue
from tests.core.cases.unseen_dialogues import LATER, MISJUDGED, UNSEEN


def test_the_table_is_large_and_half_of_it_holds_no_correction() -> None:
    assert len(DIALOGUES) >= 80
    assert len({dialogue.name for dialogue in DIALOGUES}) == len(DIALOGUES)
    assert len(UNCORRECTED) * 5 >= len(DIALOGUES) * 2
    assert len(CORRECTED) * 5 >= len(DIALOGUES) * 2


@pytest.mark.parametrize("dialogue", [*DIALOGUES, *UNSEEN, *LATER, *MISJUDGED], ids=lambda case: case.name)
def test_a_dialogue_yields_its_cases(dialogue: Dialogue) -> None:
    speakers = ("user", "assistant")
    messages = [{"role": speakers[at % 2], "content": text} for at, text in enumerate(dialogue.turns)]
    cases = cases_of(read_trace({"messages": [{"role": "system", "content": "You help the office."}, *messages]}))

    assert [(case.question, case.wrong) for case in cases] == [(case.question, case.wrong) for case in dialogue.cases]
    for case, wanted in zip(cases, dialogue.cases, strict=True):
        passed = {answer: answer_passes(case, answer) for answer in (*wanted.passes, *wanted.fails, wanted.wrong)}
        assert passed[wanted.wrong] is False
        assert [passed[answer] for answer in wanted.passes] == [True] * len(wanted.passes)
        assert not any(passed[answer] for answer in wanted.fails), "some of them need a judge"
        assert not case.expected or answer_passes(case, case.expected)
