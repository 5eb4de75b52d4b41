"""Why a batch has changed no skill, as the history of its skillbook tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace import Skillbook

__all__ = ["why_unchanged"]


def why_unchanged(book: Skillbook, batch: str) -> str:
    """Return in words why a batch that has ended has changed no skill.

    Args:
        book: Its skillbook.
        batch: The id of the batch, which is the name of its run.

    Raises:
        SkillbookError: The skillbook cannot be read.
    """
    store = book.store
    versions = [] if store is None else [row.version for row in store.progress(batch) if row.version is not None]
    later = book.history(min(versions) - 1) if versions else []
    own = [entry for entry in later if entry.key is not None and entry.key.run == batch]
    reasons = Counter(str(note.get("reason", "")) for entry in own for note in entry.skipped)
    if not reasons:
        return "the model found nothing to learn in its feedback"
    return "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in reasons.most_common())
