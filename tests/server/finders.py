"""Finders of personal data, as a user writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ace_server.anonymise import BuiltInFinder, Span


class Names:
    """Finds one name, and what the built-in finder finds."""

    def __init__(self) -> None:
        self.built_in = BuiltInFinder()

    def find(self, text: str) -> Sequence[Any]:
        start = text.find("Ann Lee")
        names = [] if start < 0 else [Span(start, start + len("Ann Lee"), "name")]
        return [*names, *self.built_in.find(text)]


class Broken:
    """Fails, and quotes the text."""

    def find(self, text: str) -> Sequence[Any]:
        raise ValueError(text)
