"""The errors of the API. All have the same shape, and none contains a stack trace or a text of the request."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from ace.protocols import LLMCallError, LLMError
from ace.skillbook import SkillbookError
from ace_server.anonymise import AnonymiserError
from ace_server.database import DatabaseUnavailableError
from ace_server.group_commit import WriterClosedError
from ace_server.inference import BusyError

__all__ = ["ApiError", "ErrorBody", "ErrorResponse", "add_error_handlers", "error_response", "error_responses"]

_logger = logging.getLogger(__name__)

_CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal_error",
    502: "model_error",
    503: "unavailable",
    504: "timeout",
}
_MEANINGS: Final[Mapping[int, str]] = {
    400: "The request is not valid.",
    401: "The key is missing, wrong, expired or revoked.",
    403: "The key does not allow this.",
    404: "The object does not exist.",
    409: "It was already decided, or conflicts with what is stored.",
    413: "The body is too large.",
    429: "The rate, the budget or the number of requests in flight of the key is exceeded.",
    502: "The model could not be reached, or gave no usable answer.",
    503: "The service is busy, or the database cannot be reached.",
    504: "The model took too long.",
}


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    """A code for programs."""
    message: str
    """A message for people."""
    request_id: str
    """The id of the request, as in the header `X-Request-Id` and in the log."""


class ErrorResponse(BaseModel):
    """The body of every response that is not a success."""

    error: ErrorBody


class ApiError(Exception):
    """An error that is sent to the client.

    Args:
        status: The HTTP status.
        message: What went wrong, for people.
        code: A code for programs; by default that of the status.
        retry_after: After how many seconds the request may be repeated.
    """

    def __init__(self, status: int, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or _CODES[status]
        self.retry_after = retry_after


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of errors for the OpenAPI document.

    Args:
        *statuses: The HTTP statuses.
    """
    return {status: {"model": ErrorResponse, "description": _MEANINGS[status]} for status in sorted(statuses)}


async def _api_error(request: Request, error: ApiError) -> Response:
    return _response(request, error.status, error.message, code=error.code, retry_after=error.retry_after)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return _response(request, 400, _what_is_invalid(error.errors()))


async def _http_error(request: Request, error: HTTPException) -> Response:
    status = error.status_code
    message = _MEANINGS.get(status) or f"{error.detail}."
    return _response(request, status, message, headers=error.headers)


async def _no_database(request: Request, error: DatabaseUnavailableError) -> Response:
    _logger.error("request %s: %s", request.state.request_id, error)
    return _response(request, 503, "The database cannot be reached or written.", retry_after=5)


async def _stopping(request: Request, error: WriterClosedError) -> Response:
    return _response(request, 503, "The service is stopping.", retry_after=5)


async def _no_book(request: Request, error: SkillbookError) -> Response:
    _logger.error("request %s: the skillbook cannot be read: %s", request.state.request_id, type(error).__name__)
    return _response(request, 503, "The skillbook cannot be read.", retry_after=5)


async def _busy(request: Request, error: BusyError) -> Response:
    return _response(request, 503, "Too many answers are being generated.", code="busy", retry_after=1)


async def _late(request: Request, error: TimeoutError) -> Response:
    return _response(request, 504, "The model took too long.")


async def _model_error(request: Request, error: LLMError) -> Response:
    status = error.status_code if isinstance(error, LLMCallError) else None
    _logger.warning("request %s: %s (status %s)", request.state.request_id, type(error).__name__, status)
    if status == 429:
        return _response(request, 503, "The provider of the model refuses further requests.", retry_after=5)
    if isinstance(error, LLMCallError):
        return _response(request, 502, "The model could not be reached.")
    return _response(request, 502, "The model gave no usable answer.")


async def _not_anonymised(request: Request, error: AnonymiserError) -> Response:
    _logger.error("request %s: the anonymiser failed", request.state.request_id)
    return _response(request, 503, "The anonymiser failed, so the model was not asked.")


async def _unexpected(request: Request, error: Exception) -> Response:
    return _response(request, 500, "Something unexpected went wrong; it is in the log under this request.")


_HANDLERS: Final[Mapping[type[Exception], Callable[[Request, Any], Awaitable[Response]]]] = {
    ApiError: _api_error,
    RequestValidationError: _invalid,
    HTTPException: _http_error,
    DatabaseUnavailableError: _no_database,
    WriterClosedError: _stopping,
    SkillbookError: _no_book,
    BusyError: _busy,
    TimeoutError: _late,
    LLMError: _model_error,
    AnonymiserError: _not_anonymised,
    Exception: _unexpected,
}


def add_error_handlers(app: FastAPI) -> None:
    """Send every error in the same shape."""
    for error, handler in _HANDLERS.items():
        app.add_exception_handler(error, handler)


def _what_is_invalid(problems: Sequence[Any]) -> str:
    """Return which fields are invalid and why, without their values."""
    if not problems:
        return "The request is not valid."
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    if first["type"] == "json_invalid":
        return "The body is not JSON."
    if first["type"] == "extra_forbidden":
        return "The body has a field that is not known."
    return f"{place}: {_without_value(first)}."


def _without_value(problem: Mapping[str, Any]) -> str:
    # The messages of pydantic name limits and types; those of our own checks are made below without values.
    text = str(problem["msg"])
    return text.removeprefix("Value error, ")


def error_response(
    request_id: str,
    status: int,
    message: str,
    *,
    code: str | None = None,
    retry_after: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for an error.

    Args:
        request_id: The id of the request.
        status: The HTTP status.
        message: What went wrong, for people.
        code: A word for programs; by default that of the status.
        retry_after: After how many seconds the request may be repeated.
        headers: Further headers.
    """
    body = ErrorResponse(
        error=ErrorBody(code=code or _CODES.get(status, "error"), message=message, request_id=request_id)
    )
    sent = dict(headers or {})
    if retry_after is not None:
        sent["Retry-After"] = str(max(1, round(retry_after)))
    if status == 401:
        sent["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body.model_dump(), status, sent)


def _response(request: Request, status: int, message: str, **options: Any) -> Response:
    return error_response(request.state.request_id, status, message, **options)
