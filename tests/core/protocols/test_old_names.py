"""Names of `ace.calls` that `ace.protocols` had first."""

import pytest

import ace.calls
import ace.protocols

MOVED = (
    *("BLOCKING", "ON_LOOP", "AnswerBudget", "CallScope", "Calling", "RecordedAnswers", "answer_budget", "call_scope"),
    *("current_answer_budget", "current_call_scope", "finished", "note_model_call", "own_twin", "redactor_for"),
    "within_seconds",
)


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_has_moved_works_and_says_where_it_is(name: str) -> None:
    now = rf"^ace\.protocols\.{name} is called ace\.calls\.{name} now; the old name works until 0\.2$"
    with pytest.warns(DeprecationWarning, match=now):
        assert getattr(ace.protocols, name) is getattr(ace.calls, name)


def test_an_unknown_name_is_not_looked_for_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"'ace\.protocols' has no attribute 'nonsense'"):
        _ = ace.protocols.nonsense
