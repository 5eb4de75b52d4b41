"""Marks in place of personal data: the model sees only these, and the user gets the originals back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ace.integrations import UsageError
from ace_server.anonymise import (
    AnonymiserError,
    BuiltInFinder,
    Finder,
    Span,
    anonymise,
    load_finder,
)

BUILT_IN = BuiltInFinder()


class Words:
    """A finder for a test: finds these words."""

    def __init__(self, *words: str, kind: str = "name") -> None:
        self.words = words
        self.kind = kind

    def find(self, text: str) -> Iterable[Span]:
        for word in self.words:
            start = text.find(word)
            while start >= 0:
                yield Span(start, start + len(word), self.kind)
                start = text.find(word, start + 1)


class Returning:
    """A finder for a test: returns these spans for every text."""

    def __init__(self, *spans: object) -> None:
        self.spans = spans

    def find(self, text: str) -> Iterable[Span]:
        return self.spans  # type: ignore[return-value]  # the finder of a user may return anything


class Failing:
    """A finder for a test: fails with the text in its message."""

    def find(self, text: str) -> Iterable[Span]:
        raise RuntimeError(text)


class NeedsArgument:
    """A class that is no finder."""

    def __init__(self, language: str) -> None:
        self.language = language


def test_each_class_gets_marks_of_its_name_and_the_same_value_the_same_mark() -> None:
    question = (
        "I am jane@acme.com, call +49 170 1234567. My card 4111 1111 1111 1111 and DE89 3704 0044 0532 0130 00; "
        "078-05-1120; password: hunter2-hunter2. Is bob@acme.com there, or jane@acme.com?"
    )
    request = anonymise([question, "From: jane@acme.com"], BUILT_IN)
    hidden = (
        "I am [EMAIL_1], call [PHONE_1]. My card [CARD_1] and [BANK_ACCOUNT_1]; "
        "[SSN_1]; password: [SECRET_1]. Is [EMAIL_2] there, or [EMAIL_1]?"
    )
    assert request.texts == (hidden, "From: [EMAIL_1]")
    assert request.count == 7
    assert [request.restore(text) for text in request.texts] == [question, "From: jane@acme.com"]


@pytest.mark.parametrize(
    "written", ["[EMAIL_1]", "[email_1]", r"\[EMAIL_1\]", r"[EMAIL\_1]", "[EMAIL 1]", "[ EMAIL_1 ]", "[Email-1]"]
)
def test_marks_are_restored_however_the_model_repeats_them(written: str) -> None:
    request = anonymise(["Write to jane@acme.com."], BUILT_IN)
    assert request.restore(f"Sent to {written}.") == "Sent to jane@acme.com."


def test_marks_that_the_user_typed_keep_their_meaning() -> None:
    texts = ["jane@acme.com asks what [email 1] and \\[EMAIL\\_3\\] mean", "and bob@acme.com [EMAIL_02]"]
    request = anonymise(texts, BUILT_IN)
    assert request.texts[0].startswith("[EMAIL_4] asks what [email 1]")
    assert request.texts[1] == "and [EMAIL_5] [EMAIL_02]"
    assert [request.restore(text) for text in request.texts] == texts


def test_marks_that_mean_nothing_are_left_alone() -> None:
    assert anonymise(["nothing"], BUILT_IN).restore("[EMAIL_1]") == "[EMAIL_1]"
    assert anonymise(["jane@acme.com"], BUILT_IN).restore("[EMAIL_2] [PHONE_1]") == "[EMAIL_2] [PHONE_1]"


VALUES = ("jane@acme.com", "bob@acme.org", "+49 170 1234567", "4111111111111111", "Ann", "Bob", "x", "1")
SIGNS = ("[EMAIL_1]", "[name_2]", "[NAME", "_1]", "\\[PHONE\\_1\\]", "[NAME 1]", "\\", "[", "]", " ")
PIECES = st.sampled_from([*VALUES, *SIGNS])


@given(st.lists(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join), max_size=4))
@example(["\\jane@acme.com"])
@example(["[Ann_1] Bob"])
@example(["Ann", "[NAME_1]"])
def test_restoring_returns_every_text_as_it_was(texts: list[str]) -> None:
    for finder in (BUILT_IN, Words("Ann", "Bob", "nn", "1")):
        request = anonymise(texts, finder)
        assert [request.restore(text) for text in request.texts] == texts


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
def test_no_value_that_was_found_is_left_where_it_was_found(text: str) -> None:
    values = ["Ann", "Bob"]
    (hidden,) = anonymise([text], Words(*values)).texts
    assert not any(value in hidden for value in values)


def test_overlapping_spans_of_a_finder_are_joined() -> None:
    finder = Returning(Span(4, 12, "name"), Span(0, 8, "street"), Span(0, 3, "word"))
    assert anonymise(["0123456789abcdef"], finder).texts == ("[STREET_1]cdef",)


def test_any_object_with_the_three_attributes_is_a_span() -> None:
    finder = Returning(SimpleNamespace(start=0, end=3, kind="IT: Person", score=0.7))
    assert anonymise(["Ann!"], finder).texts == ("[IT_PERSON_1]!",)


@pytest.mark.parametrize(
    "span", [Span(0, 99, "name"), Span(2, 2, "name"), Span(-1, 2, "name"), Span(0, 1, ""), Span(0, 1, "名前"), (0, 1)]
)
def test_an_invalid_span_is_an_error_that_quotes_nothing(span: object) -> None:
    with pytest.raises(AnonymiserError, match="the anonymiser Returning") as raised:
        anonymise(["s3cret"], Returning(span))
    assert "s3cret" not in str(raised.value)


def test_a_finder_that_fails_is_an_error_that_quotes_nothing() -> None:
    with pytest.raises(AnonymiserError, match="Failing failed with RuntimeError") as raised:
        anonymise(["s3cret"], Failing())
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_what_the_marks_mean_cannot_be_shown_or_stored() -> None:
    request = anonymise(["jane@acme.com"], BUILT_IN)
    assert "jane" not in repr(request)
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stay in memory"):
            store(request)


def test_a_setting_names_the_finder() -> None:
    finder: Finder = load_finder("ace_server.anonymise:BuiltInFinder")
    assert anonymise(["jane@example.com"], finder).texts == ("[EMAIL_1]",)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("acme", "must be written as 'package.module:Class'"),
        ("acme.finder:", "must be written as 'package.module:Class'"),
        ("acme..finder:Names", "must be written as 'package.module:Class'"),
        ("acme_not_there:Names", "cannot be loaded: ModuleNotFoundError"),
        ("ace_server.anonymise:Names", "cannot be loaded: AttributeError"),
        (f"{__name__}:NeedsArgument", "cannot be loaded: TypeError"),
        ("builtins:dict", "has no method find"),
    ],
)
def test_a_finder_that_cannot_be_used_is_an_error_of_usage(reference: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_finder(reference)
