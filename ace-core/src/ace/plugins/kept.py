"""The skillbooks that plugins keep for projects, such as lessons from the sessions of coding agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ace.plugins.access import targets_of
from ace.plugins.specs import SkillbooksSpec

if TYPE_CHECKING:
    from pathlib import Path  # every hook module loads this one, and few need it

__all__ = ["FileChange", "KeptSkillbook", "kept_skillbooks"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a decision would change in a file that agents read.

    Example:
        >>> from pathlib import Path
        >>> FileChange(Path("AGENTS.md"), "", "- Run `make check`.").after
        '- Run `make check`.'
    """

    path: Path
    before: str
    """Its text; empty if it does not exist."""
    after: str
    """Its text afterwards; empty if it is removed."""


def _unknown(accepted: str) -> Sequence[FileChange]:
    return ()


@dataclass(frozen=True, slots=True)
class KeptSkillbook:
    """A skillbook that a plugin keeps for a project.

    Example:
        >>> KeptSkillbook("/state/acme/skills.db", "what Acme agents learned", lambda: []).publish()
        []
    """

    location: str
    """Where it is: a file, or `scheme://...`."""
    title: str
    """What is in it, for people."""
    publish: Callable[[], Sequence[Path]]
    """Called after a person has accepted or rejected skills: writes the active ones where agents read them, and returns
    the files that it changed. It raises OSError or ValueError if it cannot."""
    preview: Callable[[str], Sequence[FileChange]] = _unknown
    """Called with the id of a pending skill: returns what `publish` would change if it was accepted. It raises the same
    errors."""


def kept_skillbooks(folder: Path) -> list[KeptSkillbook]:
    """Return the skillbooks that plugins keep for a folder.

    Args:
        folder: A folder of a project.
    """
    return [book for skillbooks_of in targets_of(SkillbooksSpec) for book in skillbooks_of(folder)]
