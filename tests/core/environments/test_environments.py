from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.environments import EnvironmentResult, Sample, SimpleEnvironment, TaskEnvironment
from ace.environments import Match as MatchName
from ace.outputs import AgentOutput


def judge(match: MatchName, truth: str | None, answer: str) -> EnvironmentResult:
    output = AgentOutput(reasoning="", final_answer=answer)
    return SimpleEnvironment(match=match).evaluate(Sample("q", ground_truth=truth), output)


@pytest.mark.parametrize(
    ("match", "truth", "answer", "correct"),
    [
        ("contains", "Paris", "The capital is PARIS.", True),
        ("contains", "stra\u00dfe", "STRASSE", True),
        ("contains", "Paris", "London", False),
        ("exact", " New  York ", "new york\n", True),
        ("exact", "Paris", "Paris.", False),
        ("numeric", "1234.5", "It costs 1,234.50 dollars.", True),
        ("numeric", "4", "2 + 2 = 4", True),
        ("numeric", "4", "4, or is it 5", False),
        ("numeric", "-7", "about \u22127", True),
        ("numeric", "0.001", "1e-3", True),
        ("numeric", ".5", "0.5.", True),
        ("numeric", "42", "no number", False),
        ("numeric", "2", "v1.2", False),
        ("regex", r"^\d{4}-\d{2}$", "2026-11", True),
        ("regex", r"(?i)yes", "YES", True),
        ("regex", r"^no$", "no way", False),
    ],
)
def test_matchers(match: MatchName, truth: str, answer: str, correct: bool) -> None:
    result = judge(match, truth, answer)
    assert result.metrics == {"correct": float(correct)}
    assert result.feedback.startswith("Correct" if correct else "Incorrect")
    assert repr(truth) in result.feedback
    assert result.ground_truth == truth


@pytest.mark.parametrize("truth", [None, "", "  "])
@pytest.mark.parametrize("match", ["contains", "exact", "numeric", "regex"])
def test_without_a_ground_truth_nothing_is_judged(match: MatchName, truth: str | None) -> None:
    result = judge(match, truth, "anything")
    assert result.metrics == {}
    assert "no ground truth" in result.feedback


def test_a_ground_truth_that_does_not_fit_the_matcher_is_told() -> None:
    with pytest.raises(ValueError, match="needs a number as ground truth, got 'many'"):
        judge("numeric", "many", "4")
    with pytest.raises(ValueError, match="needs a pattern as ground truth"):
        judge("regex", "(", "4")


def test_bad_settings_are_told() -> None:
    with pytest.raises(ValueError, match="'contains', 'exact', 'numeric', 'regex', got 'fuzzy'"):
        SimpleEnvironment(match="fuzzy")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="tolerance"):
        SimpleEnvironment("numeric", tolerance=-1.0)


@given(
    number=st.floats(allow_nan=False, allow_infinity=False),
    prose=st.sampled_from(["{}", "It is {}.", "x = {}"]),
)
def test_a_number_equals_itself_in_any_prose(number: float, prose: str) -> None:
    assert judge("numeric", repr(number), prose.format(number)).metrics == {"correct": 1.0}


def test_tolerance_is_a_share_of_the_ground_truth() -> None:
    for truth, answer in (("100", "101"), ("0.0100", "0.0101"), ("-0.5", "-0.505"), ("1e300", "1.01e300")):
        output = AgentOutput(reasoning="", final_answer=answer)
        sample = Sample("q", ground_truth=truth)
        assert SimpleEnvironment("numeric", tolerance=0.02).evaluate(sample, output).metrics["correct"] == 1.0
        assert SimpleEnvironment("numeric", tolerance=0.005).evaluate(sample, output).metrics["correct"] == 0.0


@pytest.mark.parametrize("number", ["0", "1e400", "-1e400"])
def test_zero_and_what_is_too_large_equal_themselves(number: str) -> None:
    assert judge("numeric", number, f"It is {number}.").metrics == {"correct": 1.0}
    assert judge("numeric", number, "It is 1e-12.").metrics == {"correct": 0.0}


def test_samples_have_the_fields_of_their_documentation() -> None:
    sample = Sample("q")
    assert dataclasses.asdict(sample) == {
        "question": "q",
        "context": "",
        "ground_truth": None,
        "metadata": {},
        "id": None,
    }
    assert Sample("q").metadata is not sample.metadata


def test_an_environment_of_ones_own_needs_evaluate() -> None:
    class Half(TaskEnvironment):
        pass

    with pytest.raises(TypeError, match="evaluate"):
        Half()  # type: ignore[abstract]  # that is the test
