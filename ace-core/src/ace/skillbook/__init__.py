"""The skillbook: skills in memory, in JSON, or in a store with history."""

from ace.skillbook.book import Skillbook
from ace.skillbook.errors import (
    EventRefusedError,
    SkillbookChangedError,
    SkillbookError,
    SkillbookFileError,
    SkillbookHistoryError,
)
from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff
from ace.skillbook.report import AppliedOperation, SkippedOperation, UpdateReport
from ace.skillbook.sources import SourceSummary
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
    "SkippedOperation",
    "SourceSummary",
    "UpdateReport",
    "VersionConflictError",
]
