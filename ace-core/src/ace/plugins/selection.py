"""Which plugins may be imported, as the environment says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Selection", "is_strict", "normalised"]


def normalised(name: str) -> str:
    """Return the name of a plugin or a distribution in the form in which names are compared.

    Example:
        >>> normalised(" Browser_Use ")
        'browser-use'
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def is_strict(environ: Mapping[str, str]) -> bool:
    """Tell whether what is wrong with any plugin shall be raised (`ACE_PLUGINS_STRICT=1`)."""
    return environ.get("ACE_PLUGINS_STRICT", "").strip().lower() in ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Selection:
    """The plugins that are wanted, by names of plugins or distributions.

    Example:
        >>> chosen = Selection.of({"ACE_PLUGINS_DISABLED": "ace-langchain, nonsense"})
        >>> chosen.allows("langchain", "ace-langchain"), chosen.allows("acme", "ace-acme")
        (False, True)
        >>> chosen.unmatched([("langchain", "ace-langchain")])
        [('ACE_PLUGINS_DISABLED', 'nonsense')]
    """

    only: tuple[str, ...] | None
    """`ACE_PLUGINS`: None allows all of them, an empty one none."""
    disabled: tuple[str, ...]
    """`ACE_PLUGINS_DISABLED`."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Selection:
        """Read the selection from environment variables."""
        only = environ.get("ACE_PLUGINS")
        return cls(None if only is None else _names(only), _names(environ.get("ACE_PLUGINS_DISABLED", "")))

    def allows(self, name: str, distribution: str) -> bool:
        """Tell whether a plugin may be imported.

        Args:
            name: Its name.
            distribution: The distribution that it comes with.
        """
        own = {normalised(name), normalised(distribution)}
        if own & set(map(normalised, self.disabled)):
            return False
        return self.only is None or bool(own & set(map(normalised, self.only)))

    def unmatched(self, known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the names that mean nothing here, each after the variable that holds it.

        Args:
            known: Names of plugins, each with its distribution.
        """
        names = {normalised(name) for pair in known for name in pair}
        wanted = [("ACE_PLUGINS", name) for name in self.only or ()]
        wanted += [("ACE_PLUGINS_DISABLED", name) for name in self.disabled]
        return [(variable, name) for variable, name in wanted if normalised(name) not in names]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
