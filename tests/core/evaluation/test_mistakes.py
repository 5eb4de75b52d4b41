"""How often the mistakes of recorded runs are repeated, and how certain that is."""

from collections.abc import Sequence

import pytest

from ace.environments import Sample
from ace.evaluation import Evaluation, UnfinishedEvaluationError, case_questions, is_mistake, mistake_rates
from ace.logs import read_trace
from tests.core.evaluation.world import answer_of


def question(number: int, answer: str = "no") -> Sample:
    trace = {"question": f"Question {number}?", "answer": answer, "ground_truth": "yes"}
    [sample] = case_questions(read_trace(trace), f"{number}.json")
    return sample


def evaluation(name: str, *correct: Sequence[float]) -> Evaluation:
    answers = [answer_of(str(place), share) for place, repeats in enumerate(correct) for share in repeats]
    return Evaluation(name, tuple(answers), len(answers))


def test_an_answer_that_was_wrong_in_its_run_is_a_mistake() -> None:
    assert is_mistake(question(1))
    assert not is_mistake(question(1, "yes"))
    assert not is_mistake(Sample("2+2?", ground_truth="4"))


def test_repeated_and_new_mistakes_are_counted_apart() -> None:
    questions = [question(1), question(2), question(3, "yes")]
    before, after = mistake_rates(questions, [evaluation("before", [0], [0], [1]), evaluation("after", [1], [0], [0])])
    assert (before.name, before.repeated.value, before.mistakes, before.new, before.right) == ("before", 1.0, 2, 0, 1)
    assert (after.name, after.repeated.value, after.mistakes, after.new, after.right) == ("after", 0.5, 2, 1, 1)
    assert (before.p_value, after.p_value) == (1.0, 1.0)
    assert before.repeated.low == pytest.approx(0.342, abs=0.001)


def test_a_difference_in_many_questions_is_hardly_chance() -> None:
    questions = [question(number) for number in range(8)]
    rates = mistake_rates(questions, [evaluation("a", *[[0]] * 8), evaluation("b", *[[1]] * 8)])
    assert rates[1].p_value == pytest.approx(2 / 2**8)


def test_repeats_count_by_their_mean() -> None:
    questions = [question(number) for number in range(3)]
    rates = mistake_rates(questions, [evaluation("a", *[[0, 0]] * 3), evaluation("b", *[[0, 1]] * 3)])
    assert [rate.repeated.value for rate in rates] == [1.0, 0.5]
    assert [rate.mistakes for rate in rates] == [3, 3]
    assert rates[1].p_value == 0.25


def test_without_mistakes_there_is_no_rate() -> None:
    with pytest.raises(ValueError, match="no mistake can be repeated"):
        mistake_rates([question(1, "yes")], [evaluation("a", [1])])


def test_an_evaluation_with_missing_answers_has_no_rate() -> None:
    unfinished = Evaluation("a", (answer_of("0", 1),), 2)
    with pytest.raises(UnfinishedEvaluationError):
        mistake_rates([question(1), question(2)], [unfinished])
