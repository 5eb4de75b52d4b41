"""The routes that change what users get: reviews, releases, experiments, and the deletion of a subject."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final

import anyio.to_thread
import sqlalchemy as sa
from fastapi import APIRouter, Depends
from sqlalchemy.exc import IntegrityError

from ace.integrations import counted
from ace.skillbook import SkillbookError
from ace_server import audit, releases, reviews, tables
from ace_server.api.access import Access, needs
from ace_server.api.errors import ApiError, error_responses
from ace_server.api.lists import from_row, newest_first, of_book, page, rows_of
from ace_server.api.schemas import (
    Cursor,
    Decision,
    ExperimentBody,
    ExperimentOut,
    Limit,
    ObjectId,
    Page,
    ReleaseOut,
    ReviewOut,
    StopBody,
    SubjectDeletion,
    SubjectInPath,
)
from ace_server.candidates import Withdrawn, candidate_changes, withdraw
from ace_server.database import new_id, now
from ace_server.experiments import Arm, arms_from_json, arms_to_json, report, stop
from ace_server.retention import request_deletion

__all__ = ["router"]

_COMMON: Final = (400, 401, 403, 429, 503)
_CHANGES: Final = (*_COMMON, 404, 409, 413)
_MOST_NAMED: Final = 10

Row = sa.Row[Any]


router: Final = APIRouter(prefix="/v1")

Reviews = Annotated[Access, Depends(needs("review"))]
Administers = Annotated[Access, Depends(needs("admin"))]


@router.post("/review/{review}", tags=["deciding"], responses=error_responses(*_CHANGES))
async def decide_review(review: ObjectId, body: Decision, access: Reviews) -> ReviewOut:
    """Decide what to do with feedback, a release or an uncertain answer."""
    if body.decision == "edit" and not body.content and not body.ground_truth:
        raise ApiError(400, "With the decision edit, content or ground_truth must be given.")
    row = await _one(access, tables.review, review)
    withdrawn = None
    if row.release is not None and row.state == "open":
        withdrawn = await _release_decided(access, row, body)

    def change(connection: sa.Connection) -> None:
        reviews.decide(
            connection,
            access.state.service.seal,
            review,
            body.decision,
            by=access.key.id,
            content=body.content,
            ground_truth=body.ground_truth,
            note=body.note,
            withdrawn=withdrawn,
        )

    try:
        await _changed(access, change, "review.decide", review)
    except reviews.AlreadyDecidedError:
        raise ApiError(409, "It was already decided.") from None
    except reviews.UnknownReviewError:  # deleted since it was read, with its subject or because of its age
        raise _missing(tables.review) from None
    except reviews.ReleaseNotEditableError:
        raise ApiError(400, "A release can be accepted or rejected, but not edited.") from None
    if row.release is not None:
        access.state.inference.wake()
    return from_row(ReviewOut, await _one(access, tables.review, review))


@router.post("/releases/{release}/publish", tags=["deciding"], responses=error_responses(*_CHANGES))
async def publish_release(release: ObjectId, access: Reviews) -> ReleaseOut:
    """Publish a release, also one that was published before. It is used from the next sync on."""
    await _one(access, tables.release, release)
    is_new = await _changed(
        access,
        lambda connection: releases.publish(connection, release, by=access.key.id),
        "release.publish",
        release,
    )
    if not is_new:
        raise ApiError(409, "It is published already.")
    access.state.inference.wake()
    return from_row(ReleaseOut, await _one(access, tables.release, release))


@router.post("/experiments", tags=["experiments"], status_code=201, responses=error_responses(*_CHANGES))
async def start_experiment(body: ExperimentBody, access: Administers) -> ExperimentOut:
    """Answer the requests of a book with several releases, to compare them."""
    access.check_book(body.book)
    arms = tuple(Arm(arm.release, arm.weight) for arm in body.arms)
    await _check_arms(access, body.book, arms)
    identifier = new_id("exp")
    values = {
        "id": identifier,
        "at": now(),
        "book": body.book,
        "by": access.key.id,
        "arms": arms_to_json(arms),
        "state": "running",
    }
    try:
        await _changed(
            access,
            lambda connection: connection.execute(sa.insert(tables.experiment).values(values)).rowcount,
            "experiment.start",
            identifier,
        )
    except IntegrityError:
        raise ApiError(409, "The book has a running experiment.") from None
    access.state.inference.wake()
    return await _experiment(access, await _one(access, tables.experiment, identifier))


@router.get("/experiments", tags=["experiments"], responses=error_responses(*_COMMON))
async def list_experiments(access: Administers, limit: Limit = 50, cursor: Cursor = None) -> Page[ExperimentOut]:
    """List the experiments, the newest first."""
    query = of_book(sa.select(tables.experiment), tables.experiment, access, None)
    rows = await rows_of(access, newest_first(query, tables.experiment, cursor, limit))
    reports = {row.id: await _experiment(access, row) for row in rows[:limit]}
    return page(rows, limit, lambda row: str(row.id), lambda row: reports[row.id])


@router.get("/experiments/{experiment}", tags=["experiments"], responses=error_responses(*_COMMON, 404))
async def get_experiment(experiment: ObjectId, access: Administers) -> ExperimentOut:
    """Return an experiment, with what is known of its arms."""
    return await _experiment(access, await _one(access, tables.experiment, experiment))


@router.post("/experiments/{experiment}/stop", tags=["experiments"], responses=error_responses(*_CHANGES))
async def stop_experiment(experiment: ObjectId, body: StopBody, access: Administers) -> ExperimentOut:
    """Stop an experiment, and publish the release of the arm that won, if one is named."""
    row = await _one(access, tables.experiment, experiment)
    arms = arms_from_json(row.arms)
    if body.winner is not None and body.winner >= len(arms):
        raise ApiError(400, f"winner: the experiment has the arms 0 to {len(arms) - 1}.")
    is_stopped = await _changed(
        access,
        lambda connection: stop(connection, experiment, body.winner, arms, by=access.key.id),
        "experiment.stop",
        experiment,
    )
    if not is_stopped:
        raise ApiError(409, "It was stopped already.")
    access.state.inference.wake()
    return await _experiment(access, await _one(access, tables.experiment, experiment))


@router.delete("/subjects/{subject}", tags=["privacy"], status_code=202, responses=error_responses(*_COMMON))
async def delete_subject(subject: SubjectInPath, access: Administers) -> SubjectDeletion:
    """Delete everything of a subject: requests, feedback, and the texts of reviews. It takes less than a minute."""
    if access.key.book is not None:
        raise ApiError(403, "A subject is deleted from all books; the key is for one.")
    pseudonym = access.state.subjects.pseudonym(subject)
    deletion = await access.state.writer.write(
        lambda connection: request_deletion(connection, pseudonym, by=access.key.id, origin=access.origin)
    )
    access.state.recent.forget(pseudonym)
    access.state.maintenance.wake()
    return SubjectDeletion(deletion_id=deletion)


async def _release_decided(access: Access, review: Row, body: Decision) -> Withdrawn | None:
    """Prepare the decision about a release: check that nothing is removed unasked, or withdraw what is rejected.

    Raises:
        ApiError: The release removes skills, and the reviewer has not confirmed that.
    """
    service = access.state.service
    release = await _one(access, tables.release, review.release)
    try:
        if body.decision == "reject":
            return await anyio.to_thread.run_sync(
                partial(withdraw, service.database, service.open_book, release, by=access.key.id)
            )
        if body.decision == "accept" and not body.confirm_removals:
            difference = await anyio.to_thread.run_sync(
                candidate_changes, service.database, service.open_book, release.book, release.version
            )
            if difference.removed:
                removed = ", ".join(skill.id for skill in difference.removed[:_MOST_NAMED])
                raise ApiError(
                    409,
                    f"Publishing it would remove {counted(len(difference.removed), 'skill')} from what users get "
                    f"({removed}); send confirm_removals: true.",
                )
    except SkillbookError as error:
        raise ApiError(503, f"The skillbook cannot be read or written: {error}") from error
    return None


async def _changed(access: Access, change: Callable[[sa.Connection], Any], what: str, target: str) -> Any:
    """Make a change, with its row in the audit log in the same transaction, unless its result is False (no change)."""

    def recorded(connection: sa.Connection) -> Any:
        result = change(connection)
        if result is not False:
            audit.record(connection, who=access.key.id, what=what, target=target, origin=access.origin)
        return result

    return await access.state.writer.write(recorded)


async def _one(access: Access, table: sa.Table, identifier: str) -> Row:
    found = await rows_of(access, sa.select(table).where(table.c.id == identifier))
    if not found or not access.key.is_for(found[0].book):
        raise _missing(table)
    return found[0]


def _missing(table: sa.Table) -> ApiError:
    return ApiError(404, f"The {table.name} does not exist.")


async def _check_arms(access: Access, book: str, arms: tuple[Arm, ...]) -> None:
    table = tables.release
    wanted = {arm.release for arm in arms}
    if len(wanted) != len(arms):
        raise ApiError(400, "arms: every arm needs another release.")
    found = await rows_of(access, sa.select(table.c.id).where(table.c.book == book, table.c.id.in_(wanted)))
    if len(found) != len(wanted):
        raise ApiError(404, "The book has no such release.")


async def _experiment(access: Access, row: Row) -> ExperimentOut:
    arms = await anyio.to_thread.run_sync(report, access.state.service.database, row.id, arms_from_json(row.arms))
    return ExperimentOut(
        id=row.id,
        book=row.book,
        state=row.state,
        at=row.at,
        by=row.by,
        stopped_at=row.stopped_at,
        winner=row.winner,
        arms=arms,
    )
