"""With skills against without: intervals, tests, costs, what changed, and what each skill did."""

from __future__ import annotations

import pytest

from ace.evaluation import (
    Evaluation,
    UnfinishedEvaluationError,
    ValidationSettings,
    compare,
    leave_one_out,
    run_experiment,
    skill_effects,
    split_samples,
)
from tests.core.evaluation.world import answer_of, book_of, by_kind, evaluator_for, samples, served, trainer_for

UP = "Round every price up to whole euros."
IDLE = "Be polite."


def evaluation(name: str, *correct: float, repeats: int = 1, **fields: float) -> Evaluation:
    answers = tuple(
        answer_of(f"s{place // repeats}", value, repeat=place % repeats + 1, **fields)
        for place, value in enumerate(correct)
    )
    return Evaluation(name, answers, len(answers))


def test_binary_answers_get_the_exact_test_and_the_changes_are_listed() -> None:
    found = compare(evaluation("baseline", 0, 0, 0, 0, 0, 1, 1, 0), evaluation("learned", 1, 1, 1, 1, 1, 1, 0, 0))
    accuracy = found.accuracy
    assert (accuracy.baseline.value, accuracy.learned.value, accuracy.difference.value) == (0.25, 0.75, 0.5)
    assert accuracy.test == "McNemar, exact"
    assert accuracy.p_value == pytest.approx(2 * 7 / 64)
    assert accuracy.difference.low <= 0.5 <= accuracy.difference.high
    assert [found.count(outcome) for outcome in ("gained", "lost", "both right", "both wrong")] == [5, 1, 1, 1]
    assert found.samples[6].outcome == "lost"


def test_the_order_of_the_answers_makes_no_difference() -> None:
    baseline, learned = evaluation("baseline", 0, 0, 1), evaluation("learned", 1, 0, 1)
    turned = Evaluation("learned", tuple(reversed(learned.answers)), 3)
    assert compare(baseline, learned).measures == compare(baseline, turned).measures


def test_repeats_give_pass_k_and_the_permutation_test() -> None:
    baseline = evaluation("baseline", 0, 1, 0, 0, 1, 0, repeats=3, cost=0.001, seconds=1.0)
    learned = evaluation("learned", 1, 1, 0, 1, 1, 1, repeats=3, cost=0.003, seconds=1.0)
    found = {measure.name: measure for measure in compare(baseline, learned).measures}
    assert list(found) == ["accuracy", "pass^2", "pass^3", "input tokens", "output tokens", "cost (USD)", "seconds"]
    assert found["pass^2"].learned.value == pytest.approx((1 / 3 + 1) / 2)
    assert found["pass^3"].learned.value == 0.5
    assert found["accuracy"].test == "sign flips"
    assert found["cost (USD)"].difference.value == pytest.approx(0.002)
    assert found["seconds"].p_value == 1.0


def test_a_cost_that_is_not_known_is_left_out() -> None:
    assert "cost (USD)" not in [measure.name for measure in compare(evaluation("b", 0), evaluation("l", 1)).measures]


def test_unlike_or_unfinished_evaluations_are_errors() -> None:
    with pytest.raises(ValueError, match="only one of them has 's2'"):
        compare(evaluation("b", 0, 1), evaluation("l", 0, 1, 1))
    unfinished = Evaluation("l", evaluation("l", 1).answers, planned=2, stopped_by="max_cost")
    with pytest.raises(UnfinishedEvaluationError, match="has 1 of 2 answers \\(stopped by max_cost\\)"):
        compare(evaluation("b", 0, 1), unfinished)


def test_skills_that_are_shown_and_never_cited_are_found_and_leaving_one_out_shows_its_worth() -> None:
    prices = by_kind("price")
    book = book_of(IDLE, UP)
    with served() as server:
        evaluator = evaluator_for(server)
        baseline, learned = evaluator.evaluate(prices, name="baseline"), evaluator.evaluate(prices, book)
        up, idle = skill_effects(learned, book, baseline)
        assert (up.content, up.shown, up.cited, up.correct_when_cited, up.without_skills) == (UP, 10, 10, 1.0, 0.0)
        assert (idle.content, idle.cited, idle.is_never_cited, up.is_never_cited) == (IDLE, 0, True, False)
        book.update_skill(book.skills()[0].id, pinned=True)  # what is pinned is measured as well
        without_idle, without_up = leave_one_out(evaluator, prices, book)
    assert (without_idle.effect.value, without_idle.p_value) == (0.0, 1.0)
    assert without_up.effect.value == 1.0
    assert without_up.p_value < 0.01
    assert len(book) == 2


def test_a_skill_is_left_out_against_a_whole_book_that_was_answered_in_another_order() -> None:
    one = [*by_kind("price")[:6], *by_kind("length")[:6]]
    book = book_of(UP, "Give every length in centimetres.")
    with served() as server:
        evaluator = evaluator_for(server)
        whole = evaluator.evaluate(one[::-1], book)
        [without_up] = leave_one_out(evaluator, one, book, skill_ids=["conventions-00001"], whole=whole)
        assert (without_up.effect.value, without_up.p_value) == (0.5, 2 / 64)
        with pytest.raises(ValueError, match="only one of them has 'price 12"):
            leave_one_out(evaluator, one[1:], book, whole=whole)


def test_trainings_of_an_experiment_never_share_a_skillbook() -> None:
    splits = split_samples(samples(), seed=2)
    with served() as server, pytest.raises(ValueError, match="would share one skillbook; pass new_skillbook"):
        run_experiment(trainer_for(server, ValidationSettings()), splits, skillbook=book_of(UP))


def test_several_orders_are_trained_from_the_same_beginning_and_tested_on_what_none_saw() -> None:
    splits = split_samples(samples(), validate=0.2, test=0.3, seed=2)
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(interval=50), evaluator=evaluator_for(server, workers=2))
        found = run_experiment(trainer, splits, orders=[0, 1])
    assert [run.order for run in found.runs] == [0, 1]
    trained = [[result.sample.id for result in run.training.results] for run in found.runs]
    assert trained[0] != trained[1]
    assert sorted(trained[0]) == sorted(trained[1]) == sorted(str(sample.id) for sample in splits.train)
    assert found.comparison.learned.repeats == 2
    assert found.comparison.accuracy.baseline.value < 0.4
    assert found.comparison.accuracy.learned.value == 1.0
    assert found.comparison.accuracy.p_value < 0.01
