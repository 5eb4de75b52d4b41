"""The routes that applications use: answers, feedback and recorded traces."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

import anyio
import anyio.to_process
import anyio.to_thread
import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Query, Request

from ace_server import tables
from ace_server.api.access import Access, add_cost, check_budget, needs
from ace_server.api.errors import ApiError, error_responses
from ace_server.api.schemas import (
    AnswerBody,
    AnswerGiven,
    BookName,
    FeedbackAccepted,
    FeedbackBody,
    ShortText,
    UsageOut,
)
from ace_server.api.state import KnownRequest, ServerState
from ace_server.database import new_id
from ace_server.intake import GivenFeedback, IdempotencyError, request_row, store_feedback, store_trace
from ace_server.trace_form import form_problem_apart

__all__ = ["serving_routes"]

_FIRST_WAIT: Final = 0.02
_LONGEST_WAIT: Final = 0.5
_PARSED_AT_ONCE: Final = 2
"""How many traces are read at once, because a trace takes many times its size in memory."""

_DESCRIBED_TRACE: Final = {
    "requestBody": {
        "required": True,
        "description": "A recorded trace of any shape that `ace learn` reads.",
        "content": {"application/json": {"schema": {"type": ["object", "array"], "minProperties": 1, "minItems": 1}}},
    }
}


Infers = Annotated[Access, Depends(needs("infer"))]
GivesFeedback = Annotated[Access, Depends(needs("feedback"))]
GivesTraces = Annotated[Access, Depends(needs("feedback", takes_traces=True))]


def serving_routes(*, max_trace_bytes: int) -> APIRouter:
    """Return the routes.

    Args:
        max_trace_bytes: The largest body of a trace.
    """
    router = APIRouter(prefix="/v1", tags=["serving"])
    parsing = anyio.CapacityLimiter(_PARSED_AT_ONCE)

    @router.post("/answers", responses=error_responses(400, 401, 403, 404, 413, 429, 502, 503, 504))
    async def create_answer(body: AnswerBody, access: Infers) -> AnswerGiven:
        """Answer a question with the skills of the published release."""
        access.check_book(body.book)
        await check_budget(access)
        state = access.state
        request = new_id("req")
        found = state.inference.release_for(body.book, body.subject or request)
        if found is None:
            raise access.no_book(body.book)
        release, experiment, arm = found
        answer = await state.inference.answer(release, body.question, body.context or "")
        await add_cost(access, answer.usage)
        state.metrics.model(answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cost)
        subject = None if body.subject is None else state.subjects.pseudonym(body.subject)
        state.recent.add(request, KnownRequest(release.book, subject))
        state.writer.insert_later(
            tables.request,
            request_row(
                state.service.seal,
                release,
                answer,
                request=request,
                key=access.key.id,
                model=state.service.model,
                question=body.question,
                context=body.context,
                subject=subject,
                metadata=body.metadata,
                experiment=experiment,
                arm=arm,
            ),
        )
        return AnswerGiven(
            request_id=request,
            answer=answer.answer,
            reasoning=answer.reasoning,
            skill_ids=list(answer.skill_ids),
            release=release.id,
            usage=UsageOut(
                model_calls=answer.usage.calls,
                input_tokens=answer.usage.input_tokens,
                output_tokens=answer.usage.output_tokens,
                cost=None if answer.usage.unpriced_calls else answer.usage.cost,
            ),
            experiment=None if experiment is None else experiment.id,
        )

    @router.post("/feedback", status_code=202, responses=error_responses(400, 401, 403, 404, 409, 413, 429, 503))
    async def give_feedback(body: FeedbackBody, access: GivesFeedback) -> FeedbackAccepted:
        """Say how good an answer was. The response is sent once the feedback is stored durably."""
        correction, comment = _written(body.correction), _written(body.comment)
        if body.thumb is None and body.score is None and not correction and not comment:
            raise ApiError(400, "At least one of thumb, score, correction and comment must be given.")
        await check_budget(access)
        known = await _known_request(access.state, body.request_id)
        if known is None or not access.key.is_for(known.book):
            raise ApiError(404, "The request does not exist.")
        feedback = GivenFeedback(
            request=body.request_id,
            book=known.book,
            subject=known.subject,
            key=access.key.id,
            thumb=body.thumb,
            score=body.score,
            correction=correction,
            comment=comment,
            idempotency_key=access.state.subjects.idempotency(body.idempotency_key),
        )
        try:
            return FeedbackAccepted(
                feedback_id=await access.state.writer.write(store_feedback(access.state.service.seal, feedback))
            )
        except IdempotencyError:
            raise ApiError(409, "The idempotency key was used for other feedback.") from None

    @router.post(
        "/traces",
        status_code=202,
        openapi_extra=_DESCRIBED_TRACE,
        max_body_size=max_trace_bytes,
        responses=error_responses(400, 401, 403, 404, 409, 413, 429, 503),
    )
    async def add_trace(
        request: Request,
        access: GivesTraces,
        book: Annotated[BookName, Query()] = "default",
        subject: Annotated[ShortText | None, Query()] = None,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> FeedbackAccepted:
        """Store a recorded trace, to be learned from."""
        access.check_book(book)
        if not access.state.inference.has_book(book):
            raise access.no_book(book)
        await check_budget(access)
        body = await request.body()
        try:
            problem = await anyio.to_process.run_sync(form_problem_apart, body, limiter=parsing)
        except anyio.BrokenWorkerProcess:
            raise ApiError(503, "The process that checks traces was ended.", retry_after=1) from None
        if problem is not None:
            raise ApiError(problem.status, problem.message)
        trace = body.decode("utf-8")
        change = await anyio.to_thread.run_sync(
            lambda: store_trace(
                access.state.service.seal,
                book,
                trace,
                key=access.key.id,
                subject=None if subject is None else access.state.subjects.pseudonym(subject),
                idempotency_key=access.state.subjects.idempotency(idempotency_key),
            )
        )
        try:
            return FeedbackAccepted(feedback_id=await access.state.writer.write(change))
        except IdempotencyError:
            raise ApiError(409, "The idempotency key was used for another trace.") from None

    return router


def _written(text: str | None) -> str | None:
    """Return a text of a user, or None if it is blank."""
    return text if text and not text.isspace() else None


async def _known_request(state: ServerState, request: str) -> KnownRequest | None:
    """Return a request, which another process may be about to write."""
    ends_at = time.monotonic() + state.service.settings.feedback_wait
    pause = _FIRST_WAIT
    while True:
        known = state.recent.find(request) or await anyio.to_thread.run_sync(_stored_request, state, request)
        left = ends_at - time.monotonic()
        if known is not None or left <= 0:
            return known
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_WAIT)


def _stored_request(state: ServerState, request: str) -> KnownRequest | None:
    table = tables.request
    with state.service.database.reading() as connection:
        row = connection.execute(sa.select(table.c.book, table.c.subject).where(table.c.id == request)).first()
    return None if row is None else KnownRequest(row.book, row.subject)
