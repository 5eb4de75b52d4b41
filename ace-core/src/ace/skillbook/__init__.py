"""The skillbook: skills in memory, in JSON, or in a store with history.

Stores are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports
from ace.skillbook.applying import AppliedOperation, SkippedOperation, UpdateReport
from ace.skillbook.book import Skillbook
from ace.skillbook.errors import (
    EventRefusedError,
    SkillbookChangedError,
    SkillbookError,
    SkillbookFileError,
    SkillbookHistoryError,
    SkillbookStoreError,
)
from ace.skillbook.frozen_copy import PromptParts
from ace.skillbook.selection import SourceSummary
from ace.skillbook.text_changes import BookMark

if TYPE_CHECKING:
    from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff, compared_skills
    from ace.skillbook.locations import has_scheme, shown_location
    from ace.skillbook.skill_folders import SKILL_FILE, SkillFolder, as_skill_folders
    from ace.skillbook.skill_search import SkillSearch
    from ace.skillbook.store import (
        AlreadyCommittedError,
        Commit,
        ForgetsAnswers,
        Head,
        ProgressRow,
        SampleKey,
        SkillbookStore,
        SkillRow,
        StoredBook,
        StoredEvent,
        VersionConflictError,
    )
    from ace.skillbook.timeline import BookSize, BookSizes, SkillChange, SkillTimeline

__all__ = [
    "SKILL_FILE",
    "AlreadyCommittedError",
    "AppliedOperation",
    "BlameEntry",
    "BookMark",
    "BookSize",
    "BookSizes",
    "Commit",
    "EventRefusedError",
    "ForgetsAnswers",
    "Head",
    "HistoryEntry",
    "ProgressRow",
    "PromptParts",
    "SampleKey",
    "SkillChange",
    "SkillFolder",
    "SkillRow",
    "SkillSearch",
    "SkillTimeline",
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
    "StoredBook",
    "StoredEvent",
    "UpdateReport",
    "VersionConflictError",
    "as_skill_folders",
    "compared_skills",
    "has_scheme",
    "shown_location",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AlreadyCommittedError": "store",
        "BlameEntry": "history",
        "BookSize": "timeline",
        "BookSizes": "timeline",
        "Commit": "store",
        "ForgetsAnswers": "store",
        "Head": "store",
        "HistoryEntry": "history",
        "ProgressRow": "store",
        "SKILL_FILE": "skill_folders",
        "SampleKey": "store",
        "SkillChange": "timeline",
        "SkillFolder": "skill_folders",
        "SkillRow": "store",
        "SkillSearch": "skill_search",
        "SkillTimeline": "timeline",
        "SkillbookDiff": "history",
        "SkillbookStore": "store",
        "StoredBook": "store",
        "StoredEvent": "store",
        "VersionConflictError": "store",
        "as_skill_folders": "skill_folders",
        "compared_skills": "history",
        "has_scheme": "locations",
        "shown_location": "locations",
    },
)
