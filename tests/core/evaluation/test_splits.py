"""Splits share nothing, keep equal tasks together, and are the same for the same seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.environments import Sample
from ace.evaluation import split_samples

SAMPLES = st.lists(
    st.builds(Sample, st.text("abcdefgh", max_size=2), context=st.sampled_from(["", "x", "y"])), max_size=40
)


@given(SAMPLES, st.floats(0.05, 0.45), st.floats(0.05, 0.45), st.integers(0, 3))
def test_three_parts_share_no_task_and_lose_no_sample(
    samples: list[Sample], validate: float, test: float, seed: int
) -> None:
    tasks = {(sample.question, sample.context) for sample in samples}
    if len(tasks) < 3:
        with pytest.raises(ValueError, match="cannot be split into 3"):
            split_samples(samples, validate=validate, test=test, seed=seed)
        return
    parts = split_samples(samples, validate=validate, test=test, seed=seed)
    found = [
        {(sample.question, sample.context) for sample in part} for part in (parts.train, parts.validate, parts.test)
    ]
    assert all(found)
    assert sum(map(len, found)) == len(tasks)
    assert len(parts.train) + len(parts.validate) + len(parts.test) == len(samples)
    again = split_samples(samples, validate=validate, test=test, seed=seed)
    assert all(one is other for one, other in zip(parts.test, again.test, strict=True))


def test_white_space_and_case_make_no_other_task() -> None:
    samples = [Sample("What is  it?"), Sample("what is it?"), Sample("b"), Sample("c")]
    for seed in range(20):
        parts = split_samples(samples, validate=0.25, test=0.25, seed=seed)
        whole = (parts.train, parts.validate, parts.test)
        twins = [sum(sample.question.lower().startswith("what") for sample in part) for part in whole]
        assert sorted(twins) == [0, 0, 2]


def test_the_seed_decides() -> None:
    samples = [Sample(str(number)) for number in range(30)]
    tests = {tuple(sample.question for sample in split_samples(samples, seed=seed).test) for seed in range(5)}
    assert len(tests) == 5


@pytest.mark.parametrize(("validate", "test"), [(-0.1, 0.2), (0.5, 0.5), (0.2, 1.0)])
def test_shares_that_make_no_sense_are_errors(validate: float, test: float) -> None:
    with pytest.raises(ValueError, match=r"share|less than 1"):
        split_samples([Sample(str(number)) for number in range(9)], validate=validate, test=test)
