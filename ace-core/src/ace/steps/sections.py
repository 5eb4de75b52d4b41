"""Assigns a new skill to a section of a fixed list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ace._internal.arguments import checked_arguments

__all__ = ["checked_sections", "listed_section"]

_RULES: Final = (
    (
        "TypeScript Patterns",
        re.compile(
            r"typescript|tsconfig|\btsc?\b|\bcompil|type[ -]?errors?\b|type[ -]?check|\btyping\b"
            r"|\bimports?\b|\bmodules?\b"
        ),
    ),
    (
        "Build & Test Patterns",
        re.compile(r"\bbuil[dt]|\btest|\bnpm\b|\bp?npm\b|\byarn\b|\bpytest\b|\bjest\b|\bvitest\b|\bmake\b|\bci\b"),
    ),
    ("Dependency Patterns", re.compile(r"\bdependenc|\bdiscovered\b|\bblock(?:s|ed|er|ing)?\b|\bissues?\b|\bbeads?\b")),
)
"""What a skill is about, and where it belongs, in the words of an existing tool. The first rule counts."""
_REST: Final = "Architecture Patterns"
_WORD: Final = re.compile(r"[a-z0-9]{3,}")
_COMMON: Final = frozenset({"patterns", "pattern", "and", "the", "for", "with", "general"})


def checked_sections(sections: Sequence[str]) -> tuple[str, ...]:
    """Return a list of sections without repetitions.

    Args:
        sections: The names.

    Raises:
        ValueError: A name is empty.
    """
    if isinstance(sections, str):
        raise TypeError(f"sections must be a list of names, got {sections!r}")
    found = tuple(dict.fromkeys(" ".join(name.split()) for name in sections))
    if "" in found:
        raise ValueError("sections must not contain an empty name")
    return found


@checked_arguments()
def listed_section(section: str, content: str, sections: Sequence[str]) -> str:
    """Return the section of a list to which a skill belongs.

    If a section has the same name, ignoring case and punctuation, it is used. Otherwise, the topic of the skill
    decides: compilers, type errors and modules belong to `TypeScript Patterns`, builds, tests and npm to `Build & Test
    Patterns`, discovered issues to `Dependency Patterns`, and everything else to `Architecture Patterns`. If the list
    does not contain that section, the one that shares the most words with the skill is used, or the last one if none
    does.

    Args:
        section: The section that the skill manager named.
        content: The text of the skill.
        sections: The list; if it is empty, `section` is returned.

    Example:
        >>> names = ["TypeScript Patterns", "Build & Test Patterns", "Dependency Patterns", "Architecture Patterns"]
        >>> listed_section("typescript_patterns", "Use .js in imports.", names)
        'TypeScript Patterns'
        >>> listed_section("lessons", "Run npm ci before the tests.", names)
        'Build & Test Patterns'
        >>> listed_section("lessons", "Keep the layers apart.", names)
        'Architecture Patterns'
    """
    if not sections or section in sections:
        return section
    by_name = {_plain(name): name for name in reversed(sections)}
    if _plain(section) in by_name:
        return by_name[_plain(section)]
    text = f"{section.replace('_', ' ')}\n{content}".lower()
    chosen = next((name for name, rule in _RULES if rule.search(text)), _REST)
    if _plain(chosen) in by_name:
        return by_name[_plain(chosen)]
    words = _words(text)
    return max(reversed(sections), key=lambda name: len(_words(name.lower()) & words))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _words(text: str) -> set[str]:
    """Return the words of a text, without the end by which singular and plural differ."""
    return {word.removesuffix("s") for word in _WORD.findall(text) if word not in _COMMON}
