"""The routes that list things: books, skills, releases, runs and reviews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query

from ace.skill import Skill
from ace.skillbook import SkillbookError
from ace_server import tables
from ace_server.api.access import Access, needs
from ace_server.api.errors import ApiError, error_responses
from ace_server.api.schemas import (
    BookName,
    BookNameInPath,
    BookOut,
    ChangeOut,
    Cursor,
    HistoryOut,
    Limit,
    ObjectId,
    OriginOut,
    Page,
    ReleaseOut,
    ReviewOut,
    RunOut,
    SkillCursor,
    SkillOut,
)
from ace_server.candidates import candidate_changes, changes_with_origins
from ace_server.inference import LoadedRelease

__all__ = ["from_row", "newest_first", "of_book", "page", "review_texts", "router", "rows_of"]

Item = TypeVar("Item")
Select = sa.Select[Any]

_COMMON: Final = (400, 401, 403, 429, 503)
_ONE: Final = (*_COMMON, 404)


router: Final = APIRouter(prefix="/v1", tags=["reading"])

Reads = Annotated[Access, Depends(needs("read"))]
_SkillId = Annotated[str, Path(min_length=1, max_length=200)]


@router.get("/books", responses=error_responses(*_COMMON))
async def list_books(access: Reads, limit: Limit = 50, cursor: Cursor = None) -> Page[BookOut]:
    """List the books, by name."""
    table = tables.book
    query = sa.select(table).order_by(table.c.name)
    if cursor is not None:
        query = query.where(table.c.name > cursor)
    if access.key.book is not None:
        query = query.where(table.c.name == access.key.book)
    rows = await rows_of(access, query.limit(limit + 1))
    waiting = await _waiting(access, [row.name for row in rows])
    published = access.state.inference.published
    return page(rows, limit, lambda row: row.name, lambda row: _book(row, published.get(row.name), waiting))


@router.get("/books/{book}/skills", responses=error_responses(*_ONE))
async def list_skills(
    access: Reads, book: BookNameInPath, limit: Limit = 50, cursor: SkillCursor = None
) -> Page[SkillOut]:
    """List the skills of the published release, in the order in which they were added."""
    skills = _release(access, book).skills.skills()
    start = 0
    if cursor is not None:
        start = next((place for place, skill in enumerate(skills, 1) if skill.id == cursor), len(skills))
    return page(skills[start : start + limit + 1], limit, lambda skill: skill.id, _skill)


@router.get("/books/{book}/skills/{skill}", responses=error_responses(*_ONE))
async def get_skill(access: Reads, book: BookNameInPath, skill: _SkillId) -> SkillOut:
    """Return a skill of the published release."""
    found = _release(access, book).skills.get_skill(skill)
    if found is None:
        raise ApiError(404, "The published release has no such skill.")
    return _skill(found)


@router.get("/books/{book}/skills/{skill}/history", responses=error_responses(*_ONE))
async def list_skill_history(
    access: Reads,
    book: BookNameInPath,
    skill: _SkillId,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[HistoryOut]:
    """List every change to a skill, the oldest first, also those that no release contains yet."""
    _release(access, book)
    entries = await anyio.to_thread.run_sync(_history, access, book, skill)
    if not entries:
        raise ApiError(404, "The book never had such a skill.")
    after = _number(cursor)
    return page(
        [entry for entry in entries if entry.version > after][: limit + 1],
        limit,
        lambda entry: str(entry.version),
        lambda entry: entry,
    )


@router.get("/books/{book}/releases", responses=error_responses(*_ONE))
async def list_releases(
    access: Reads, book: BookNameInPath, limit: Limit = 50, cursor: Cursor = None
) -> Page[ReleaseOut]:
    """List the releases of a book, the newest first."""
    _release(access, book)
    query = sa.select(tables.release).where(tables.release.c.book == book)
    rows = await rows_of(access, newest_first(query, tables.release, cursor, limit))
    return page(rows, limit, _id_of, lambda row: from_row(ReleaseOut, row))


@router.get("/runs", responses=error_responses(*_COMMON))
async def list_runs(
    access: Reads,
    book: Annotated[BookName | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[RunOut]:
    """List the batches of feedback and the runs that learn from them, the newest first."""
    query = of_book(sa.select(tables.batch), tables.batch, access, book)
    rows = await rows_of(access, newest_first(query, tables.batch, cursor, limit))
    return page(rows, limit, _id_of, lambda row: from_row(RunOut, row))


@router.get("/runs/{run}", responses=error_responses(*_ONE))
async def get_run(access: Reads, run: ObjectId) -> RunOut:
    """Return a batch of feedback, and the run that learns from it."""
    rows = await rows_of(access, sa.select(tables.batch).where(tables.batch.c.id == run))
    if not rows or not access.key.is_for(rows[0].book):
        raise ApiError(404, "The run does not exist.")
    return from_row(RunOut, rows[0])


@router.get("/review", responses=error_responses(*_COMMON))
async def list_reviews(
    access: Reads,
    book: Annotated[BookName | None, Query()] = None,
    state: Annotated[str, Query(pattern="^(open|accepted|edited|rejected|superseded)$")] = "open",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ReviewOut]:
    """List the reviews, the newest first. The scope review includes the texts of users."""
    query = of_book(sa.select(tables.review), tables.review, access, book).where(tables.review.c.state == state)
    rows = await rows_of(access, newest_first(query, tables.review, cursor, limit))
    texts = {}
    if access.key.allows("review") and rows:
        texts = await anyio.to_thread.run_sync(review_texts, access, rows)
        access.record("text.read", " ".join(row.id for row in rows[:limit]))
    return page(rows, limit, _id_of, lambda row: from_row(ReviewOut, row).model_copy(update=texts.get(row.id, {})))


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise ApiError(400, "cursor: must be the next_cursor of the previous page.")
    return int(cursor)


def _id_of(row: sa.Row[Any]) -> str:
    return str(row.id)


def newest_first(query: Select, table: sa.Table, cursor: str | None, limit: int) -> Select:
    """Return a query for one page, and one row more, which tells whether another page follows.

    Args:
        query: A query for rows of the table.
        table: A table with ids.
        cursor: The id of the last row of the previous page.
        limit: The number of rows of a page.
    """
    if cursor is not None:
        query = query.where(table.c.id < cursor)
    return query.order_by(table.c.id.desc()).limit(limit + 1)


def of_book(query: Select, table: sa.Table, access: Access, book: str | None) -> Select:
    """Return a query for the rows that the key may see.

    Args:
        query: A query for rows of the table.
        table: A table with the column `book`.
        access: The access of the request.
        book: The book that the client asks for, if any.

    Raises:
        ApiError: The key is for another book.
    """
    if book is not None:
        access.check_book(book)
    wanted = book or access.key.book
    return query if wanted is None else query.where(table.c.book == wanted)


def _release(access: Access, book: str) -> LoadedRelease:
    access.check_book(book)
    found = access.state.inference.published.get(book)
    if found is None:
        raise access.no_book(book)
    return found


async def rows_of(access: Access, query: Select) -> Sequence[sa.Row[Any]]:
    """Return the rows of a query.

    Args:
        access: The access of the request.
    """

    def read() -> Sequence[sa.Row[Any]]:
        with access.state.service.database.reading() as connection:
            return connection.execute(query).all()

    return await anyio.to_thread.run_sync(read)


def page(found: Sequence[Any], limit: int, cursor_of: Callable[[Any], str], made: Callable[[Any], Item]) -> Page[Item]:
    """Return one page of a list.

    Args:
        found: The items of the page, and one more if another page follows.
        limit: The number of items of a page.
        cursor_of: Returns the cursor of an item.
        made: Returns an item as it is sent.
    """
    shown = found[:limit]
    return Page(items=[made(row) for row in shown], next_cursor=cursor_of(shown[-1]) if len(found) > limit else None)


def from_row(model: Callable[..., Item], row: sa.Row[Any]) -> Item:
    """Return a row as it is sent.

    Args:
        model: The class of the response, whose fields are columns.
    """
    return model(**row._mapping)


async def _waiting(access: Access, books: Sequence[str]) -> dict[str, int]:
    table = tables.feedback
    query = sa.select(table.c.book, sa.func.count().label("waiting")).group_by(table.c.book)
    rows = await rows_of(access, query.where(table.c.book.in_(books), table.c.state == "new"))
    return {row.book: row.waiting for row in rows}


def _book(row: sa.Row[Any], release: LoadedRelease | None, waiting: dict[str, int]) -> BookOut:
    is_published = release is not None and release.id is not None
    return BookOut(
        name=row.name,
        learning=row.learning,
        release=release.id if release is not None else None,
        version=release.version if release is not None and is_published else None,
        new_feedback=waiting.get(row.name, 0),
    )


def _skill(skill: Skill) -> SkillOut:
    return SkillOut(
        id=skill.id,
        section=skill.section,
        content=skill.content,
        helpful=skill.helpful,
        harmful=skill.harmful,
        neutral=skill.neutral,
        created_at=skill.created_at,
        updated_at=skill.updated_at,
    )


def _history(access: Access, book: str, skill: str) -> list[HistoryOut]:
    with access.state.service.open_book(book) as opened:
        return [
            HistoryOut(
                version=entry.version,
                at=entry.at,
                author=entry.author,
                run=None if entry.key is None else entry.key.run,
                change=type(entry.event).__name__.lower(),
                content=_content_after(entry.event, skill),
            )
            for entry in opened.blame(skill)
        ]


def _content_after(event: object, skill: str) -> str | None:
    """Return the new text of a skill in an event; None if it did not change the text.

    The classes of events are internal to the core, so this goes by their fields.
    """
    added = [getattr(event, "skill", None), *getattr(event, "skills", ())]
    texts = [state.content for state in added if isinstance(state, Skill) and state.id == skill]
    changed = getattr(event, "texts", {}).get("content") or getattr(event, "content", None)
    return texts[0] if texts else changed


def review_texts(access: Access, rows: Sequence[sa.Row[Any]]) -> dict[str, dict[str, Any]]:
    """Return what a reviewer has to see, by the ids of the reviews: texts of users, and the changes of releases.

    Args:
        access: The access of the request.
        rows: The reviews.
    """
    request, feedback, seal = tables.request, tables.feedback, access.state.service.seal
    with access.state.service.database.reading() as connection:
        wanted = [row.request for row in rows if row.request is not None]
        requests = {row.id: row for row in connection.execute(sa.select(request).where(request.c.id.in_(wanted)))}
        wanted = [row.feedback for row in rows if row.feedback is not None]
        feedbacks = {row.id: row for row in connection.execute(sa.select(feedback).where(feedback.c.id.in_(wanted)))}

    def opened(row: sa.Row[Any] | None, name: str) -> str | None:
        sealed = None if row is None else row._mapping[name]
        return None if sealed is None else seal.open(sealed)

    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        asked, said = requests.get(row.request), feedbacks.get(row.feedback)
        proposal = [text for text in (opened(said, "correction"), opened(said, "comment")) if text]
        if said is not None and said.thumb is not None:
            proposal.insert(0, f"thumb {said.thumb}")
        found[row.id] = {
            "question": opened(asked, "question"),
            "answer": opened(asked, "answer"),
            "proposal": "\n".join(proposal) or None,
            "changes": _changes(access, row) if row.release is not None and row.state == "open" else None,
        }
    return found


def _changes(access: Access, row: sa.Row[Any]) -> list[ChangeOut] | None:
    """Return what publishing a release would change; None if the skillbook cannot be read."""
    service, release = access.state.service, tables.release
    with service.database.reading() as connection:
        version = connection.scalar(sa.select(release.c.version).where(release.c.id == row.release))
    if version is None:
        return None
    try:
        difference = candidate_changes(service.database, service.open_book, row.book, version)
    except SkillbookError:
        return None
    return [
        ChangeOut(
            kind=change.kind,
            skill=change.skill.id,
            section=change.skill.section,
            before=None if change.before is None else change.before.content,
            after=None if change.after is None else change.after.content,
            origins=[OriginOut(**asdict(origin)) for origin in change.origins],
        )
        for change in changes_with_origins(service.database, service.seal, difference)
    ]
