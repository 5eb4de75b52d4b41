"""Keeps the secrets that the agent may type out of results: they come back in addresses and on pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

__all__ = ["Secrets"]

T = TypeVar("T")


class Secrets:
    """The values of `sensitive_data`, and how to take them out of anything.

    Args:
        sensitive_data: Names and values, also by site, as browser-use takes them.

    Example:
        >>> Secrets({"pin": "a b"}).taken_out({"url": "http://x/?p=a+b", "pages": ["a b"]})
        {'url': 'http://x/?p=<secret>pin</secret>', 'pages': ['<secret>pin</secret>']}
    """

    def __init__(self, sensitive_data: Mapping[str, Any] | None) -> None:
        self._names: dict[str, str] = {}
        for name, value in (sensitive_data or {}).items():
            values = value if isinstance(value, Mapping) else {name: value}
            for inner, secret in values.items():
                for written in (str(secret), quote(str(secret)), quote(str(secret), safe=""), quote_plus(str(secret))):
                    if written:
                        self._names[written] = f"<secret>{inner}</secret>"
        # Where one secret is a part of another, the longer one goes first.
        self._in_order = sorted(self._names, key=len, reverse=True)

    def taken_out(self, value: T) -> T:
        """Return a value without the secrets. Texts in dicts, lists and tuples are looked through.

        Args:
            value: The value.
        """
        cleaned: Any = self._cleaned(value) if self._names else value
        result: T = cleaned
        return result

    def _cleaned(self, value: object) -> object:
        if isinstance(value, str):
            for secret in self._in_order:
                value = value.replace(secret, self._names[secret])
            return value
        if isinstance(value, Mapping):
            return {self._cleaned(key): self._cleaned(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._cleaned(inner) for inner in value)
        return value
