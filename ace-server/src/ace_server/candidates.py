"""Candidates for a release: what publishing one would change, what that was learned from, and how it is withdrawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import sqlalchemy as sa

from ace import read_trace
from ace.skillbook import SkillbookDiff, compared_skills
from ace_server import tables

if TYPE_CHECKING:
    from ace import Skill, Skillbook
    from ace_server.database import Database, Row
    from ace_server.seal import Seal

__all__ = [
    "CandidateChange",
    "Origin",
    "Withdrawn",
    "candidate_changes",
    "changes_with_origins",
    "said_in_traces",
    "withdraw",
]

_RELEASE: Final = tables.release
_BECAUSE: Final = "a person rejected it in a review"

BookOpener = Callable[[str], "Skillbook"]
"""Opens the skillbook of a book by name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a user said, from which a skill was learned. A text is None if there is none, or if it has been deleted."""

    feedback: str
    question: str | None
    answer: str | None
    correction: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class CandidateChange:
    """A skill that publishing a candidate would add, change or remove."""

    before: Skill | None
    after: Skill | None
    origins: Sequence[Origin]

    @property
    def kind(self) -> Literal["added", "changed", "removed"]:
        """Whether the skill is added, changed or removed."""
        if self.before is None:
            return "added"
        return "changed" if self.after is not None else "removed"

    @property
    def skill(self) -> Skill:
        """The skill after the change, or before it if it is removed."""
        found = self.before if self.after is None else self.after
        assert found is not None
        return found


class Withdrawn(NamedTuple):
    """The state of a book from which a rejected candidate was withdrawn."""

    version: int
    """The version without what it changed."""
    differs: bool
    """Whether agents would be shown other skills than those of the published release."""


def candidate_changes(database: Database, open_book: BookOpener, book: str, version: int) -> SkillbookDiff:
    """Return how a version differs from the one that is published.

    Args:
        database: The database of the service.
        open_book: Opens the skillbook of a book.
        book: The name of the book.
        version: The version of its skillbook.

    Raises:
        SkillbookError: The skillbook cannot be read.
    """
    with closing(open_book(book)) as opened:
        return _difference(database, opened, book, version)


def changes_with_origins(database: Database, seal: Seal, difference: SkillbookDiff) -> list[CandidateChange]:
    """Return the changes of a candidate, each with what users said.

    Args:
        database: The database of the service.
        seal: Opens the texts of users.
        difference: How the candidate differs from what is published.
    """
    pairs: list[tuple[Skill | None, Skill | None]] = [(None, skill) for skill in difference.added]
    pairs += difference.changed
    pairs += [(skill, None) for skill in difference.removed]
    sources = [_new_sources(before, after) for before, after in pairs]
    origins = _origins(database, seal, {id for ids in sources for id in ids})
    return [
        CandidateChange(before, after, [origins[id] for id in ids if id in origins])
        for (before, after), ids in zip(pairs, sources, strict=True)
    ]


def said_in_traces(database: Database, seal: Seal, book: str, traces: Sequence[str]) -> dict[str, list[Origin]]:
    """Return what users said in traces of the service, by the names of these.

    Args:
        database: The database of the service.
        seal: Opens the texts of users.
        book: The book that users said it about: a skill may have been imported from another one.
        traces: The names of traces, as in the sources of a skill.
    """
    places = {trace: trace.rpartition("@")[2] for trace in traces}
    found = _origins(database, seal, places.values(), tables.feedback.c.book == book)
    return {trace: [found[place]] for trace, place in places.items() if place in found}


def withdraw(database: Database, open_book: BookOpener, release: Row, *, by: str) -> Withdrawn | None:
    """Undo in the skillbook what a candidate has changed, so that no later candidate contains it.

    What its batch has added becomes rejected, so that it is not learned again; texts that it has changed are restored.
    Other changes of the book stay. It may be repeated: what is undone is not undone again.

    Args:
        database: The database of the service.
        open_book: Opens the skillbook of a book.
        release: The row of the candidate.
        by: Who rejected it.

    Returns:
        The state of the book; None if the candidate has no changes of its own.

    Raises:
        SkillbookError: The skillbook cannot be read or written.
    """
    with closing(open_book(release.book)) as book:
        own = _own_versions(database, book, release)
        if not own:
            return None
        before = {skill.id: skill for skill in book.as_of(min(own) - 1).skills(include_invalid=True)}
        after = {skill.id: skill for skill in book.as_of(max(own)).skills(include_invalid=True)}
        with book.deferred_commits(author=f"review: {by} rejected version {release.version}"):
            for id in {**before, **after}:
                _restore(book, before.get(id), after.get(id))
        version = book.version
        assert version is not None, "the books of the service are in stores"
        return Withdrawn(version, bool(_difference(database, book, release.book, version)))


def _difference(database: Database, opened: Skillbook, book: str, version: int) -> SkillbookDiff:
    query = sa.select(_RELEASE.c.version).where(_RELEASE.c.book == book, _RELEASE.c.state == "published")
    with database.reading() as connection:
        published = connection.scalar(query) or 0
    return compared_skills(opened.as_of(published).skills(), opened.as_of(version).skills())


def _own_versions(database: Database, book: Skillbook, release: Row) -> list[int]:
    """Return the versions of a candidate that the releases before it do not contain, without those of other batches."""
    earlier = sa.select(sa.func.max(_RELEASE.c.version))
    with database.reading() as connection:
        floor = connection.scalar(earlier.where(_RELEASE.c.book == release.book, _RELEASE.c.version < release.version))
    return [
        entry.version
        for entry in book.history(floor or 0)
        if entry.version <= release.version
        and (release.batch is None or (entry.key is not None and entry.key.run == release.batch))
    ]


def _restore(book: Skillbook, before: Skill | None, after: Skill | None) -> None:
    """Give a skill the state that it had before the candidate, unless a person has pinned it since."""
    if before is None:
        assert after is not None
        now = book.get_skill(after.id)
        if now is not None and not now.pinned and (now.is_active or now.is_pending):
            book.reject_skill(now.id, _BECAUSE)
        return
    now = book.get_skill(before.id)
    if before.is_active and (after is None or not after.is_active):
        if now is None or not now.is_active:  # a skill that was merged or removed gets a new id
            book.add_skill(before.section, before.content, metadata=before.counts(), cases=before.cases)
    elif now is not None and after is not None and not now.pinned and _text(before) != _text(after):
        book.update_skill(before.id, content=before.content, section=before.section)


def _text(skill: Skill) -> tuple[str, str]:
    return skill.section, skill.content


def _new_sources(before: Skill | None, after: Skill | None) -> list[str]:
    """Return the ids of the feedback that a change was learned from; of a removed skill, that which it came from."""
    skill, known = (before, None) if after is None else (after, before)
    assert skill is not None
    old = set() if known is None else {source.trace_id for source in known.sources}
    new = (source.trace_id for source in skill.sources if source.trace_id not in old)
    return list(dict.fromkeys(trace_id.rpartition("@")[2] for trace_id in new))


def _origins(
    database: Database, seal: Seal, ids: Iterable[str], *conditions: sa.ColumnElement[bool]
) -> dict[str, Origin]:
    feedback, request = tables.feedback, tables.request
    columns = (request.c.question, request.c.answer, feedback.c.correction, feedback.c.comment, feedback.c.trace)
    query = (
        sa.select(feedback.c.id, *columns)
        .select_from(feedback.outerjoin(request, request.c.id == feedback.c.request))
        .where(feedback.c.id.in_(sorted(ids)), *conditions)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    found = {}
    for row in rows:
        question, answer, correction, comment, trace = (None if text is None else seal.open(text) for text in row[1:])
        if trace is not None:
            question, answer, comment = _said_in(trace)
        found[row.id] = Origin(row.id, question, answer, correction, comment)
    return found


def _said_in(trace: str) -> tuple[str | None, str | None, str | None]:
    """Return the question, the answer and the feedback of a recorded trace; of several runs, those of the first."""
    from ace.logs import traces_in

    run = next(iter(traces_in(json.loads(trace))), None)
    if run is None:
        return None, None, None
    read = read_trace(run)
    return tuple(str(read[name]) or None for name in ("question", "answer", "feedback"))  # type: ignore[return-value]
