from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.environments import EnvironmentResult, Sample, SimpleEnvironment, TaskEnvironment
from ace.environments import Match as MatchName
from ace.outputs import AgentOutput
from ace.skill import CaseCheck


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
        ("strict", "K7", "K7-BLUE", False),
        ("strict", "K7", "Bay K7.", True),
        ("strict", "12", "120", False),
        ("strict", "12", "12.0 km", True),
        ("strict", "12", "12 or 13", False),
        ("strict", "14", "14:30", False),
        ("strict", "yes", "Yes, it may.", True),
        ("strict", "yes", "No. Yes?", False),
        ("strict", "Fair winds", "Fair\nwinds!", True),
    ],
)
def test_matchers(match: MatchName, truth: str, answer: str, correct: bool) -> None:
    result = judge(match, truth, answer)
    assert result.metrics == {"correct": float(correct)}
    assert result.feedback.startswith("Correct" if correct else "Incorrect")
    assert repr(truth) in result.feedback
    assert result.ground_truth == truth


@pytest.mark.parametrize("truth", [None, "", "  "])
@pytest.mark.parametrize("match", ["contains", "exact", "numeric", "regex", "strict"])
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
    with pytest.raises(ValueError, match="match must be one of contains, exact, numeric, regex, strict, got 'fuzzy'"):
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


@pytest.mark.parametrize(
    ("truth", "answer", "feedback"),
    [
        ("Pier C", "Pier C", "Correct: the answer has 'Pier C'."),
        ("Pier C", "Pier A or pier C", "Incorrect: the answer names 'A' beside 'Pier C'."),
        ("Pier C", "Pier A", "Incorrect: the answer lacks 'Pier C'."),
    ],
)
def test_strict_fails_an_answer_that_names_both_alternatives_and_says_so(
    truth: str, answer: str, feedback: str
) -> None:
    sample = Sample("Where does it moor, pier A or pier C?", ground_truth=truth)
    result = SimpleEnvironment("strict").evaluate(sample, AgentOutput(reasoning="", final_answer=answer))
    assert result.feedback == feedback
    assert result.metrics == {"correct": float(feedback.startswith("Correct"))}


def test_strict_takes_numbers_of_the_question_for_harmless() -> None:
    sample = Sample("How many km are 8600 m?", ground_truth="8.6")
    judged = {
        answer: SimpleEnvironment("strict").evaluate(sample, AgentOutput(reasoning="", final_answer=answer)).metrics
        for answer in ("8600 m are 8.6 km", "8,6", "86 km", "8.6 or 86")
    }
    assert [metrics["correct"] for metrics in judged.values()] == [1.0, 1.0, 0.0, 0.0]


class Lenient(TaskEnvironment):
    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("Fine.", None, {"correct": 1.0})


@pytest.mark.parametrize(
    ("environment", "truth", "check"),
    [
        (SimpleEnvironment(), "Pier C", CaseCheck("contains", "Pier C")),
        (SimpleEnvironment("exact"), "Pier C", CaseCheck("exact", "Pier C")),
        (SimpleEnvironment("numeric"), "12", CaseCheck("numeric", "12")),
        (SimpleEnvironment("numeric", tolerance=0.1), "12", CaseCheck("environment", "SimpleEnvironment")),
        (SimpleEnvironment("regex"), "^a  b$", CaseCheck("regex", "^a  b$")),
        (SimpleEnvironment("strict"), "12", CaseCheck("numeric", "12")),
        (SimpleEnvironment("strict"), None, CaseCheck("environment", "SimpleEnvironment")),
        (Lenient(), "x", CaseCheck("environment", "Lenient")),
    ],
)
def test_an_environment_tells_its_check(environment: TaskEnvironment, truth: str | None, check: CaseCheck) -> None:
    assert environment.check_of(Sample("q", ground_truth=truth)) == check
