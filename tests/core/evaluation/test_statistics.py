"""Intervals, tests and pass^k against what can be worked out by hand or by brute force."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.evaluation import (
    bootstrap_difference,
    bootstrap_interval,
    mcnemar_test,
    mean_interval,
    paired_interval,
    pass_hat_k,
    permutation_test,
    share_interval,
    sign_flip_test,
)


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 6))
def test_pass_hat_k_is_the_share_of_choices_that_are_all_right(right: int, attempts: int, k: int) -> None:
    if right > attempts or k > attempts:
        with pytest.raises(ValueError, match=rf"pass\^{k} needs"):
            pass_hat_k(right, attempts, k)
        return
    outcomes = [place < right for place in range(attempts)]
    choices = list(itertools.combinations(outcomes, k))
    assert pass_hat_k(right, attempts, k) == pytest.approx(fmean(all(choice) for choice in choices))


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (5, 0, 2 / 32), (10, 0, 2 / 1024), (6, 1, 2 * (1 + 7) / 128), (3, 3, 1.0), (1, 9, 2 * 11 / 1024)],
)
def test_mcnemar_is_the_binomial_of_the_pairs_that_changed(gained: int, lost: int, p: float) -> None:
    before = [False] * gained + [True] * lost + [True, False]
    after = [True] * gained + [False] * lost + [True, False]
    assert mcnemar_test(before, after) == pytest.approx(p)


def test_mcnemar_knows_no_largest_number_of_changes() -> None:
    assert mcnemar_test([False] * 3000, [True] * 3000) == 0.0
    assert mcnemar_test([False, True] * 1500, [True, False] * 1500) == 1.0
    assert 0.01 < mcnemar_test([False] * 1060 + [True] * 950, [True] * 1060 + [False] * 950) < 0.02


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), max_size=8))
def test_few_differences_are_tested_by_every_sign(differences: list[float]) -> None:
    observed = abs(sum(differences)) - 1e-9
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) for signs in flips]
    assert sign_flip_test(differences) == pytest.approx(sum(found >= observed for found in sums) / len(flips))


def test_many_differences_are_drawn_and_never_impossible() -> None:
    assert sign_flip_test([1.0] * 40, permutations=999) == 1 / 1000
    assert sign_flip_test([1.0, -1.0] * 20) > 0.9
    # Binary pairs are McNemar's case: both tests have to agree, up to the drawing.
    mixed = [1.0] * 20 + [-1.0] * 8
    exact = mcnemar_test([value < 0 for value in mixed], [value > 0 for value in mixed])
    assert sign_flip_test(mixed, permutations=20_000) == pytest.approx(exact, rel=0.2)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    generator = random.Random(7)
    covered = 0
    for seed in range(200):
        values = [float(generator.random() < 0.6) for _ in range(60)]
        interval = bootstrap_interval(values, confidence=0.9, resamples=300, seed=seed)
        covered += interval.low <= 0.6 <= interval.high
    assert 165 <= covered <= 196


def test_the_interval_is_that_of_all_possible_drawings() -> None:
    # Of the 27 ways to draw three times from 0, 0, 1, the mean is 0 in 8, 1/3 in 12, 2/3 in 6 and 1 in 1.
    interval = bootstrap_interval([0.0, 0.0, 1.0], confidence=0.9, resamples=20_000)
    assert (interval.value, interval.low, interval.high) == pytest.approx((1 / 3, 0, 2 / 3))
    assert bootstrap_interval([0.0, 0.0, 1.0], confidence=0.99, resamples=20_000).high == 1


def test_the_interval_is_the_one_that_numpy_finds() -> None:
    generator = random.Random(5)
    values = [generator.gauss(3, 2) for _ in range(80)]
    numbers = np.random.default_rng(1)
    means = numbers.choice(values, size=(20_000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    interval = bootstrap_interval(values, resamples=20_000)
    assert interval.value == pytest.approx(np.mean(values))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.02)


def test_the_same_seed_gives_the_same_interval_and_no_value_is_an_error() -> None:
    values = [0.0, 0.2, 0.9, 1.0, 1.0]
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)
    with pytest.raises(ValueError, match="an interval needs at least one value"):
        bootstrap_interval([])


OF_VALUES: list[tuple[Callable[[Any], object], str]] = [
    (bootstrap_interval, "values"),
    (sign_flip_test, "differences"),
    *(
        pair
        for test in (bootstrap_difference, permutation_test, mcnemar_test)
        for pair in (
            (lambda values, test=test: test(values, [1.0, 0.0]), "before" if test is mcnemar_test else "first"),
            (lambda values, test=test: test([1.0, 0.0], values), "after" if test is mcnemar_test else "second"),
        )
    ),
]


@pytest.mark.parametrize("call", range(len(OF_VALUES)))
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (5, " must be a sequence of numbers, got 5"),
        (None, " must be a sequence of numbers, got None"),
        ("10", " must be a sequence of numbers, got '10'"),
        ([1.0, "0.5"], "[1] must be a number, got '0.5'"),
        ([None, 1.0], "[0] must be a number, got None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_are_no_numbers_are_named(call: int, values: object, message: str) -> None:
    function, name = OF_VALUES[call]
    with pytest.raises(TypeError, match=f"^{re.escape(name + message)}"):
        function(values)


def test_other_wrong_arguments_are_named() -> None:
    wrong: Any = "0.9"
    with pytest.raises(ValueError, match=r"confidence must be a number, got '0\.9'"):
        bootstrap_interval([1.0], confidence=wrong)
    with pytest.raises(ValueError, match="got 2 values before and 1 after"):
        mcnemar_test([True, False], [True])
    with pytest.raises(ValueError, match=r"right must be a whole number, got 1\.5"):
        pass_hat_k(1.5, 3, 1)  # type: ignore[arg-type]  # the mistake that is tested


def test_arrays_of_numpy_and_iterators_are_values_too() -> None:
    values = [0.0, 1.0, 1.0, 0.5]
    expected = bootstrap_interval(values)
    arrays: list[Any] = [np.array(values), np.array(values, dtype=np.float32), iter(values)]
    assert [bootstrap_interval(array) for array in arrays] == [expected] * 3
    flags: Any = np.array([True, False, True])
    assert mcnemar_test(flags, flags) == 1.0


def test_the_interval_of_a_share_has_a_width_at_its_ends() -> None:
    interval = share_interval(22 / 24, 24)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.742, 0.977)
    assert share_interval(1.0, 24).high == 1.0
    assert 0.2 < share_interval(1.0, 1).low < 0.21


@pytest.mark.parametrize(("share", "count"), [(-0.1, 3), (1.1, 3), (0.5, 0)])
def test_a_share_that_cannot_be_one_is_rejected(share: float, count: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        share_interval(share, count)


def test_the_interval_of_yes_or_no_values_is_that_of_a_share() -> None:
    assert mean_interval([1.0] * 4) == share_interval(1.0, 4)
    assert mean_interval([1.0, 0.0, 0.5]) == bootstrap_interval([1.0, 0.0, 0.5])


def test_the_interval_of_a_difference_has_a_width_where_all_samples_changed_or_none() -> None:
    assert paired_interval([0.0] * 4, [1.0] * 4).low < 0.5
    unchanged = paired_interval([1.0, 0.0] * 5, [1.0, 0.0] * 5)
    assert unchanged.low < unchanged.value == 0 < unchanged.high
    assert paired_interval([0.5, 0.0], [1.0, 1.0]) == bootstrap_interval([0.5, 1.0])


def test_the_interval_of_a_difference_is_that_of_the_example_of_its_author() -> None:
    first, second = [1.0] * 48 + [0.0] * 2, [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    interval = paired_interval(second, first)
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.2, 0.0569, 0.3404), abs=1e-4)


def test_the_interval_of_a_difference_covers_it_about_as_often_as_it_says() -> None:
    generator = random.Random(3)
    covered = 0
    for _ in range(500):
        before = [float(generator.random() < 0.4) for _ in range(24)]
        after = [float(generator.random() < (0.9 if value else 0.5)) for value in before]
        interval = paired_interval(before, after)
        covered += interval.low <= 0.4 * 0.9 + 0.6 * 0.5 - 0.4 <= interval.high
    assert 465 <= covered <= 490
