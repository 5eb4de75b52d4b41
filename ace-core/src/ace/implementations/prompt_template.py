"""A prompt with named placeholders, checked when it is made."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping

from ace.protocols.foreign_data import encodable

__all__ = ["PromptTemplate"]

_SECTION_START = re.compile(r"^(?=#+ )", re.MULTILINE)


class PromptTemplate:
    """A text with placeholders such as `{question}`. Literal braces are doubled.

    Values are put in as they are: braces in a value mean nothing.

    Args:
        text: The template.
        role: The role that it is for; named in errors.
        known: The placeholders that the role fills.
        needed: Placeholders of which at least one must be there.

    Raises:
        ValueError: A placeholder is unknown or malformed, or none of the needed ones is there.

    Example:
        >>> template = PromptTemplate("Q: {question}", role="Agent", known=["question"], needed=["question"])
        >>> template.fill({"question": "What is {x}?"})
        'Q: What is {x}?'
    """

    def __init__(self, text: str, *, role: str, known: Collection[str], needed: Collection[str]) -> None:
        self.text = text
        self._role = role
        self._pieces = _parsed(text, role)
        self.placeholders = frozenset(name for _, name in self._pieces if name is not None)
        unknown = sorted(self.placeholders.difference(known))
        if unknown:
            raise ValueError(
                f"the prompt template of {role} has the unknown placeholder "
                f"{_shown(unknown)}; it may use {_shown(known)}. Double a brace that is meant literally: "
                "{{ and }}"
            )
        if not self.placeholders.intersection(needed):
            raise ValueError(
                f"the prompt template of {role} lacks the placeholder {_shown(needed, ' or ')}; "
                "without it the model would not see what to work on"
            )

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with every placeholder replaced, in a form that can be sent.

        Args:
            values: A text for each placeholder.
        """
        return encodable(_filled(self._pieces, values))

    def fill_needed(self, values: Mapping[str, str]) -> str:
        """Return the text filled like `fill`, without the sections that would say nothing.

        A section is a heading (a line that starts with `#` and a blank) and what follows up to the next one. Where all
        of its placeholders would be empty, it is omitted; in any other section, `(none)` is put in for an empty text.

        Args:
            values: A text for each placeholder; it may be empty.

        Example:
            >>> text = "Help.\\n# Notes\\n{context}\\n# Task\\n{question}"
            >>> template = PromptTemplate(text, role="Agent", known=["context", "question"], needed=["question"])
            >>> template.fill_needed({"context": "", "question": "2+2?"})
            'Help.\\n# Task\\n2+2?'
        """
        shown = {name: text or "(none)" for name, text in values.items()}
        sections = [_parsed(part, self._role) for part in _SECTION_START.split(self.text)]
        needed = (pieces for pieces in sections if _says_something(pieces, values))
        return encodable("".join(_filled(pieces, shown) for pieces in needed))


_Pieces = list[tuple[str, str | None]]
"""Pairs of literal text and the placeholder that follows it."""


def _filled(pieces: _Pieces, values: Mapping[str, str]) -> str:
    return "".join(literal + (values[name] if name is not None else "") for literal, name in pieces)


def _says_something(pieces: _Pieces, values: Mapping[str, str]) -> bool:
    names = [name for _, name in pieces if name is not None]
    return not names or any(values[name] for name in names)


def _parsed(text: str, role: str) -> _Pieces:
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(
            f"the prompt template of {role} cannot be read: {error}. "
            "Double a brace that is meant literally: {{ and }}"
        ) from error
    pieces: _Pieces = []
    for literal, name, form, conversion in parsed:
        if name is not None and (form or conversion or not name.isidentifier()):
            raise ValueError(
                f"the prompt template of {role} has the placeholder {_written(name, form, conversion)}; only plain "
                "names such as {question} are allowed. Double a brace that is meant literally: {{ and }}"
            )
        pieces.append((literal, name))
    return pieces


def _written(name: str, form: str | None, conversion: str | None) -> str:
    """Return a placeholder as it is written in the template."""
    return f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"


def _shown(names: Collection[str], joint: str = ", ") -> str:
    return joint.join(f"{{{name}}}" for name in names)
