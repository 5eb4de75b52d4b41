"""`RecordedAnswers`: which recorded answer a request of a resumed run gets."""

from __future__ import annotations

from collections.abc import Mapping

from ace.calls import RecordedAnswers

KEY = ("run", 1, "trace", 0, "Reflector")


class Memory:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def recorded_answer(self, key: str) -> str | None:
        return self.kept.get(key)

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        return self.kept.setdefault(key, answer)


def test_a_request_whose_text_has_changed_gets_the_first_unused_answer_of_its_kind() -> None:
    memory = Memory()
    answers = RecordedAnswers(memory, KEY)
    for text in ("first", "second"):
        assert answers.next(text, "kind") is None
        answers.keep(text, f"answer to {text}", "kind")
    resumed = RecordedAnswers(memory, KEY)
    assert resumed.next("changed", "other kind") is None
    assert resumed.next("changed", "kind") == "answer to first"
    assert resumed.next("second", "kind") == "answer to second"


def test_answers_to_requests_that_overlapped_are_found_by_their_texts_only() -> None:
    memory = Memory()
    answers = RecordedAnswers(memory, KEY)
    texts = ("first", "second", "third")
    for text in texts:
        assert answers.next(text, "kind") is None
    for text in reversed(texts):
        answers.keep(text, f"answer to {text}", "kind")
    assert answers.next("alone", "kind") is None
    answers.keep("alone", "answer to alone", "kind")
    resumed = RecordedAnswers(memory, KEY)
    assert resumed.next("changed", "kind") == "answer to alone"
    assert resumed.next("changed too", "kind") is None
    assert [resumed.next(text, "kind") for text in texts] == [f"answer to {text}" for text in texts]
