"""Replaces personal data by placeholders before a model sees a request, and puts it back into the answer.

In `Write to jane@acme.com`, the address becomes `[EMAIL_1]`. The same value gets the same placeholder throughout a
request, so that the model can still tell people apart, and different values get different placeholders. Only the
memory of the request knows what they mean, in an `Anonymised`: that is never stored, logged or shown.

Placeholders that a user has typed are not changed: a number that occurs in the texts, in any notation, is not used.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ace.integrations import UsageError
from ace.redaction import Redactor

__all__ = [
    "Anonymised",
    "AnonymiserError",
    "BuiltInFinder",
    "Finder",
    "FoundSpan",
    "Span",
    "anonymise",
    "anonymise_value",
    "load_finder",
]

_SHORT_NAMES: Final = {
    "email_address": "EMAIL",
    "phone_number": "PHONE",
    "card_number": "CARD",
    "social_security_number": "SSN",
}
_LONGEST_NAME: Final = 40
_PLACEHOLDER: Final = re.compile(
    r"(?P<escape>\\)?\[[ ]?(?P<name>[A-Z0-9](?:[A-Z0-9]|\\?_){0,78}?)(?:\\?_|[ -])(?P<number>[0-9]{1,9})[ ]?"
    r"(?(escape)\\)\]",
    re.IGNORECASE,
)
"""A placeholder as models repeat it: in another case, with the backslashes of Markdown, or with a space.

A single backslash before it belongs to the text, as in `C:\\[NAME_1]`."""


class FoundSpan(Protocol):
    """What a finder returns for each match: a `Span`, or any object with these attributes."""

    @property
    def start(self) -> int:
        """The position of the first character."""

    @property
    def end(self) -> int:
        """The position after the last character."""

    @property
    def kind(self) -> str:
        """What was found, as a word such as `name`; it becomes the placeholder `[NAME_1]`."""


class Span(NamedTuple):
    """Personal data at a position in a text."""

    start: int
    """The position of the first character."""
    end: int
    """The position after the last character."""
    kind: str
    """What was found, as a word such as `name`; it becomes the placeholder `[NAME_1]`."""


@runtime_checkable
class Finder(Protocol):
    """Finds what a model must not see. One object serves all requests, on several threads at once."""

    def find(self, text: str) -> Iterable[FoundSpan]:
        """Return the personal data in a text, in any order; overlapping spans are joined.

        Args:
            text: The question or the context of a request, or a recorded text that is learned from.
        """


class AnonymiserError(Exception):
    """A finder failed or returned an invalid span. The text must not be sent to a model.

    The message names the finder and the kind of the failure, and quotes nothing from the text.
    """


class BuiltInFinder:
    """Finds e-mail addresses, numbers of telephones, cards, bank accounts and identity documents, keys and passwords.

    It finds what `ace.redaction` finds with `thorough=True`. It does **not** find names, streets, dates of birth, or
    anything else without a fixed format.

    Example:
        >>> [(span.kind, span.start) for span in BuiltInFinder().find("Ann Lee, jane@acme.com, 030 1234567")]
        [('email_address', 9), ('phone_number', 24)]
    """

    def __init__(self) -> None:
        self._redactor = Redactor(thorough=True)

    def find(self, text: str) -> Sequence[FoundSpan]:
        """Return what was found in a text, in order and without overlaps.

        Args:
            text: Any text.
        """
        return self._redactor.find(text)


@dataclass(frozen=True, slots=True)
class Anonymised:
    """Texts in which personal data is replaced by placeholders. Neither `repr` nor `pickle` reveals their values."""

    texts: tuple[str, ...]
    """The texts with placeholders, in the order in which they were given."""
    _values: Mapping[tuple[str, int], str] = field(repr=False)

    @property
    def count(self) -> int:
        """The number of different values that were replaced."""
        return len(self._values)

    def restore(self, text: str) -> str:
        """Return a text with the placeholders replaced by their values; unknown placeholders are not changed.

        Args:
            text: What a model answered.

        Example:
            >>> request = anonymise(["I am jane@acme.com, who is bob@acme.com?"], BuiltInFinder())
            >>> request.texts[0]
            'I am [EMAIL_1], who is [EMAIL_2]?'
            >>> request.restore("[EMAIL_2] is a colleague of [email_1]; [EMAIL_3] is not known.")
            'bob@acme.com is a colleague of jane@acme.com; [EMAIL_3] is not known.'
        """
        if not self._values:
            return text
        return _PLACEHOLDER.sub(lambda found: self._values.get(_meaning(found), found[0]), text)

    def __reduce__(self) -> str:
        raise TypeError("the values of the placeholders stay in memory: an Anonymised cannot be pickled or copied")


def anonymise(texts: Sequence[str], finder: Finder) -> Anonymised:
    """Return the texts of a request with personal data replaced by placeholders.

    Args:
        texts: All texts of the request that a model will see, so that the same value gets the same placeholder in each.
        finder: Finds the personal data.

    Raises:
        AnonymiserError: The finder failed or returned an invalid span. The texts must not be sent.

    Example:
        >>> class Names:
        ...     def find(self, text):
        ...         return [Span(found.start(), found.end(), "name") for found in re.finditer("Ann|Bob", text)]
        >>> anonymise(["Ann and Bob", "Did Ann call?"], Names()).texts
        ('[NAME_1] and [NAME_2]', 'Did [NAME_1] call?')
    """
    found = [_spans(finder, text) for text in texts]
    placeholders = _Placeholders(texts)
    return Anonymised(
        tuple(_with_placeholders(text, spans, placeholders) for text, spans in zip(texts, found, strict=True)),
        {key: value for value, key in placeholders.keys.items()},
    )


def anonymise_value(value: object, finder: Finder) -> object:
    """Return a value, such as a recorded trace, with personal data in all of its texts replaced by placeholders.

    The same value gets the same placeholder in all texts. The keys of objects are not changed.

    Args:
        value: Texts, numbers, lists and dicts with texts as keys.
        finder: Finds the personal data.

    Raises:
        AnonymiserError: The finder failed or returned an invalid span.

    Example:
        >>> anonymise_value({"question": "Who is ann@acme.com?", "steps": ["mail ann@acme.com", 7]}, BuiltInFinder())
        {'question': 'Who is [EMAIL_1]?', 'steps': ['mail [EMAIL_1]', 7]}
    """
    texts = iter(anonymise(list(_texts_in(value)), finder).texts)
    return _with_texts(value, texts)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def _with_texts(value: object, texts: Iterator[str]) -> object:
    """Return a value with its texts replaced by these, in the order of `_texts_in`."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, Mapping):
        return {key: _with_texts(inner, texts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(inner, texts) for inner in value]
    return value


def load_finder(reference: str | None) -> Finder:
    """Return the finder that a setting names.

    Args:
        reference: `package.module:Class`; the class is called without arguments. None is the built-in finder.

    Raises:
        UsageError: It cannot be imported or created, or has no method `find`.

    Example:
        >>> type(load_finder("ace_server.anonymise:BuiltInFinder")).__name__
        'BuiltInFinder'
        >>> load_finder("ace_server.anonymise")
        Traceback (most recent call last):
        ...
        ace.cli.errors.UsageError: anonymiser must be written as 'package.module:Class', got 'ace_server.anonymise'
    """
    if reference is None:
        return BuiltInFinder()
    module_name, colon, class_name = reference.partition(":")
    if not (colon and class_name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise UsageError(f"anonymiser must be written as 'package.module:Class', got {reference!r}")
    try:
        created: object = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:  # the module and the class are the user's own code
        raise UsageError(f"the anonymiser {reference!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(created, Finder):
        raise UsageError(f"the anonymiser {reference!r} has no method find(text)")
    return created


class _Placeholders:
    """The placeholders of a request: each value gets the next number of its name that no text contains."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.keys: dict[str, tuple[str, int]] = {}
        self._taken = {_meaning(found) for text in texts for found in _PLACEHOLDER.finditer(text)}
        self._last: dict[str, int] = {}

    def placeholder(self, value: str, kind: str) -> str:
        if value not in self.keys:
            name = _placeholder_name(kind)
            number = self._last.get(name, 0) + 1
            while (name, number) in self._taken:
                number += 1
            self._last[name] = number
            self.keys[value] = (name, number)
        name, number = self.keys[value]
        return f"[{name}_{number}]"


def _with_placeholders(text: str, spans: Sequence[FoundSpan], placeholders: _Placeholders) -> str:
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], placeholders.placeholder(text[span.start : span.end], span.kind)]
        end = span.end
    return "".join([*parts, text[end:]])


def _spans(finder: Finder, text: str) -> list[Span]:
    """Return what a finder finds, checked, in order and without overlaps."""
    name = type(finder).__qualname__
    try:
        given: list[tuple[object, object, object]] = [
            (finding.start, finding.end, finding.kind) for finding in finder.find(text)
        ]
    except Exception as error:  # the finder may be the user's own code; its message may quote the text
        raise AnonymiserError(f"the anonymiser {name} failed with {type(error).__name__}") from None
    spans = []
    for start, end, kind in given:
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)):
            raise AnonymiserError(f"the anonymiser {name} returned a span outside of the text, or an empty one")
        if not (isinstance(kind, str) and _placeholder_name(kind)):
            raise AnonymiserError(f"the anonymiser {name} returned a span whose kind is not a word of letters")
        spans.append(Span(start, end, kind))
    joined: list[Span] = []
    for span in sorted(spans, key=lambda item: (item.start, -item.end)):
        if joined and span.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _placeholder_name(kind: str) -> str:
    """Return the name of the placeholders of a kind: capitals, digits and single underscores."""
    return _SHORT_NAMES.get(kind) or re.sub(r"[^A-Z0-9]+", "_", kind.upper())[:_LONGEST_NAME].strip("_")


def _meaning(found: re.Match[str]) -> tuple[str, int]:
    """Return the name and the number of a placeholder, however it is written."""
    return found["name"].replace("\\", "").upper(), int(found["number"])
