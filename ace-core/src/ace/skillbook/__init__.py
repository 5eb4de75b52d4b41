"""The skillbook: skills in memory, in JSON, or in a store with history.

What belongs to a store is imported when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ace.skillbook.book import Skillbook
from ace.skillbook.errors import (
    EventRefusedError,
    SkillbookChangedError,
    SkillbookError,
    SkillbookFileError,
    SkillbookHistoryError,
    SkillbookStoreError,
)
from ace.skillbook.report import AppliedOperation, SkippedOperation, UpdateReport
from ace.skillbook.sources import SourceSummary

if TYPE_CHECKING:
    from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff
    from ace.skillbook.store import AlreadyCommittedError, SampleKey, SkillbookStore, VersionConflictError

__all__ = [
    "AlreadyCommittedError",
    "AppliedOperation",
    "BlameEntry",
    "EventRefusedError",
    "HistoryEntry",
    "SampleKey",
    "Skillbook",
    "SkillbookChangedError",
    "SkillbookDiff",
    "SkillbookError",
    "SkillbookFileError",
    "SkillbookHistoryError",
    "SkillbookStore",
    "SkillbookStoreError",
    "SkippedOperation",
    "SourceSummary",
    "UpdateReport",
    "VersionConflictError",
]

_HOMES = {
    "AlreadyCommittedError": "store",
    "BlameEntry": "history",
    "HistoryEntry": "history",
    "SampleKey": "store",
    "SkillbookDiff": "history",
    "SkillbookStore": "store",
    "VersionConflictError": "store",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
