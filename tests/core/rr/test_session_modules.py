"""The modules `statistics` and `difflib` of a session, against those of the standard library."""

import difflib
import importlib.util
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.rr import TraceSandbox, session_difflib, session_statistics
from tests.requirement import missing

numbers = st.lists(st.integers(-1000, 1000) | st.floats(-1000, 1000), min_size=2, max_size=20)
texts = st.text("ab \n", max_size=30)
lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=30)


@pytest.mark.parametrize(
    "name",
    ["fmean", "mean", "median", "median_high", "median_low", "pstdev", "pvariance", "quantiles", "stdev", "variance"],
)
@given(numbers=numbers)
def test_statistics_are_those_of_the_standard_library(name: str, numbers: list[float]) -> None:
    expected = getattr(statistics, name)(numbers)
    assert getattr(session_statistics, name)(numbers) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(numbers=st.lists(st.integers(0, 5), min_size=2), parts=st.integers(1, 12))
def test_modes_and_quantiles_are_those_of_the_standard_library(numbers: list[int], parts: int) -> None:
    assert session_statistics.multimode(numbers) == statistics.multimode(numbers)
    assert session_statistics.mode(numbers) == statistics.mode(numbers)
    assert type(session_statistics.mean(numbers)) is type(statistics.mean(numbers))
    for method in ("exclusive", "inclusive"):
        expected = statistics.quantiles(numbers, n=parts, method=method)
        assert session_statistics.quantiles(numbers, n=parts, method=method) == pytest.approx(expected)


def test_correlation_is_that_of_the_standard_library() -> None:
    x, y = [1, 2, 4, 8], [3, 1, 9, 7.5]
    assert session_statistics.correlation(x, y) == pytest.approx(statistics.correlation(x, y))
    with pytest.raises(ValueError, match="not all equal"):
        session_statistics.correlation([1, 1], [1, 2])


@pytest.mark.parametrize(("name", "least"), [("mean", 1), ("median", 1), ("stdev", 2), ("quantiles", 2), ("mode", 1)])
def test_too_few_numbers_are_an_error(name: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name if name != 'stdev' else 'variance'} requires at least {least}"):
        getattr(session_statistics, name)([])


@given(a=texts, b=texts)
def test_similarity_is_that_of_the_standard_library(a: str, b: str) -> None:
    ours, theirs = session_difflib.SequenceMatcher(None, a, b), difflib.SequenceMatcher(None, a, b)
    assert [tuple(block) for block in ours.get_matching_blocks()] == [
        tuple(block) for block in theirs.get_matching_blocks()
    ]
    assert ours.get_opcodes() == theirs.get_opcodes()
    assert ours.ratio() == pytest.approx(theirs.ratio())


@given(a=st.text("abc", min_size=200, max_size=300), b=st.text("abcdefghij", min_size=200, max_size=300))
def test_frequent_elements_of_long_texts_count_as_in_the_standard_library(a: str, b: str) -> None:
    assert session_difflib.SequenceMatcher(None, a, b).ratio() == difflib.SequenceMatcher(None, a, b).ratio()


@given(a=lines, b=lines, context=st.integers(0, 4))
def test_diffs_are_those_of_the_standard_library(a: list[str], b: list[str], context: int) -> None:
    ours = session_difflib.unified_diff(a, b, "before", "after", "1", "2", n=context)
    assert ours == list(difflib.unified_diff(a, b, "before", "after", "1", "2", n=context))


@given(word=st.text("abcd", max_size=6), possibilities=st.lists(st.text("abcd", max_size=6), max_size=8))
def test_close_matches_are_those_of_the_standard_library(word: str, possibilities: list[str]) -> None:
    ours = session_difflib.get_close_matches(word, possibilities)
    assert ours == difflib.get_close_matches(word, possibilities)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("import statistics\nprint(statistics.mean([1, 2, 3, 5]), statistics.quantiles([1, 2, 3], n=2))", "2.75 [2.0]"),
        ("from statistics import median as m, stdev\nprint(m([3, 1, 2]), stdev([1, 1]))", "2 0.0"),
        ("print(statistics.multimode('abba'), statistics.pstdev([2, 4]))", "['a', 'b'] 1.0"),
        ("import difflib\nprint(round(difflib.SequenceMatcher(None, 'abcd', 'bcde').ratio(), 2))", "0.75"),
        (
            "from difflib import get_close_matches\nprint(get_close_matches('appel', ['ape', 'apple']))",
            "['apple', 'ape']",
        ),
        ("print(''.join(difflib.unified_diff(['a\\n'], ['b\\n'])))", "--- \n+++ \n@@ -1 +1 @@\n-a\n+b"),
        ("print(difflib.ndiff(['a', 'b'], ['b', 'c']))", "['- a', '  b', '+ c']"),
    ],
)
def test_a_session_has_the_modules(code: str, output: str) -> None:
    assert printed(code) == output


@pytest.mark.parametrize("module", ["collections", "datetime", "itertools", "json", "math", "random", "re"])
def test_other_modules_need_no_import(module: str) -> None:
    assert printed(f"print({module})") == f"<module '{module}'>"


def printed(code: str) -> Any:
    if importlib.util.find_spec("pydantic_monty") is None:
        missing("rr", "pydantic-monty is not installed: pip install 'ace-core[rr]'")
    with TraceSandbox({}) as sandbox:
        result = sandbox.execute(code)
    assert result.error == ""
    return result.stdout.strip()
