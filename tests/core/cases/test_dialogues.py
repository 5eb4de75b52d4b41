"""The cases of dialogues of many shapes, once a model has named the judgements in them."""

from __future__ import annotations

import pytest

from ace.cases import answer_passes, cases_of, checked_judgements, corrections_of
from ace.logs.trace import read_trace
from ace.outputs import Judgement
from tests.core.cases.dialogues import CORRECTED, DIALOGUES, UNCORRECTED, Dialogue, Taught
from tests.core.cases.unseen_dialogues import LATER, MISJUDGED, UNSEEN


def test_the_table_is_large_and_half_of_it_holds_no_correction() -> None:
    assert len(DIALOGUES) >= 80
    assert len({dialogue.name for dialogue in DIALOGUES}) == len(DIALOGUES)
    assert len(UNCORRECTED) * 5 >= len(DIALOGUES) * 2
    assert len(CORRECTED) * 5 >= len(DIALOGUES) * 2


def judgement(dialogue: Dialogue, taught: Taught) -> Judgement:
    """Return the last correction of a question as a strong model names it."""
    answered = [at for at in range(1, len(dialogue.turns), 2) if dialogue.turns[at] == taught.wrong]
    reply = answered[0] + 1
    last = dialogue.turns[reply:]
    said = [text for text in taught.passes if any(text in turn for turn in last)]
    right = max(said, key=len, default=dialogue.turns[-1])
    replies = range(reply, len(dialogue.turns), 2)
    reply = next((at for at in replies if right in dialogue.turns[at]), reply)
    return Judgement(message=str(reply + 1), quote=dialogue.turns[reply], wrong=taught.wrong, right=right)


@pytest.mark.parametrize("dialogue", [*CORRECTED, *UNSEEN, *LATER, *MISJUDGED], ids=lambda case: case.name)
def test_a_dialogue_yields_its_cases(dialogue: Dialogue) -> None:
    speakers = ("user", "assistant")
    messages = [{"role": speakers[at % 2], "content": text} for at, text in enumerate(dialogue.turns)]
    trace = read_trace({"messages": [{"role": "system", "content": "You help the office."}, *messages]})
    named = [judgement(dialogue, taught) for taught in dialogue.cases]
    for judged in named:
        judged.message = str(int(judged.message) + 1)  # the system message is the first
    trace["corrections"] = corrections_of(checked_judgements(trace, named), trace)
    cases = cases_of(trace)

    assert [(case.question, case.wrong) for case in cases] == [(case.question, case.wrong) for case in dialogue.cases]
    for case, wanted in zip(cases, dialogue.cases, strict=True):
        passed = {answer: answer_passes(case, answer) for answer in (*wanted.passes, *wanted.fails, wanted.wrong)}
        assert passed[wanted.wrong] is False
        assert [passed[answer] for answer in wanted.passes] == [True] * len(wanted.passes)
        assert not any(passed[answer] for answer in wanted.fails), "some of them need a judge"
        assert not case.expected or answer_passes(case, case.expected)
