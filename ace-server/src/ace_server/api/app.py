"""The app: the REST API, the page, and what a supervisor asks."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, final

import anyio.to_thread
import sqlalchemy as sa
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ace_server import tables
from ace_server.api import deciding, lists
from ace_server.api.access import Access, needs
from ace_server.api.errors import ApiError, add_error_handlers, error_response, error_responses
from ace_server.api.serving import serving_routes
from ace_server.api.state import RecentRequests, ServerState, state_of
from ace_server.database import DatabaseUnavailableError, new_id
from ace_server.error_places import described
from ace_server.group_commit import GroupWriter
from ace_server.inference import Inference
from ace_server.keys import KeyRing
from ace_server.limits import Limits
from ace_server.maintenance import Maintenance
from ace_server.metrics import CONTENT_TYPE, Metrics
from ace_server.proxy import BehindProxy
from ace_server.service import Service
from ace_server.subjects import Subjects

__all__ = ["create_app", "openapi_document"]

_logger = logging.getLogger("ace_server.requests")

_VERSION: Final = "1.0"
_OPENAPI: Final = "/openapi.json"
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
_SWITCH_SECONDS: Final = 0.002
"""How long a thread that loads a release or learns may keep the GIL while a request waits for it, as requests need it
several times. Python's default is 5 ms; below 2 ms, the switches themselves cost an answer a fifth more CPU time."""
_FEEDBACK_STATES: Final = ("new", "held", "batched", "learned", "failed")


class Health(BaseModel):
    """The process is alive."""

    status: str
    """ok"""


class Readiness(BaseModel):
    """Whether requests can be answered."""

    status: str
    """ready, degraded (with what is in memory) or starting"""
    since: float | None
    """Since when the database cannot be reached, in seconds since 1970."""


def create_app(service: Service, *, pages: Sequence[BaseRoute] = (), proxy_secret: str | None = None) -> FastAPI:
    """Return the app. It starts and stops its threads with its lifespan.

    Args:
        service: The settings, the database, the seal and the model.
        pages: The routes of the page.
        proxy_secret: The secret of the proxy in front, if there is one.
    """
    settings = service.settings
    state = ServerState(
        service=service,
        subjects=Subjects(service.database, service.seal),
        inference=Inference(service),
        writer=GroupWriter(service.database),
        keys=KeyRing(service.database),
        limits=Limits(service.database, in_flight=settings.in_flight),
        metrics=Metrics(),
        recent=RecentRequests(),
        maintenance=Maintenance(service),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        await anyio.to_thread.run_sync(state.subjects.load)
        await anyio.to_thread.run_sync(state.inference.start)
        state.maintenance.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(_stop, state)
            sys.setswitchinterval(switch_interval)

    app = _documented(
        max_body_bytes=settings.max_body_kb * 1000,
        max_trace_bytes=settings.max_trace_mb * 1_000_000,
        lifespan=lifespan,
    )
    app.state.server = state
    for path in ("/v1/{path:path}", "/healthz", "/readyz", "/metrics", _OPENAPI):
        app.router.routes.append(Route(path, _NoRoute()))  # for every method, known or not
    app.router.routes.extend(pages)
    # Around everything, so that they also see what FastAPI itself rejects. `add_middleware` would put them inside.
    stack: ASGIApp = _Recorded(app.build_middleware_stack(), state)
    if settings.behind_proxy:
        stack = BehindProxy(stack, secret=proxy_secret, user_header=settings.proxy_user_header)
    app.middleware_stack = stack
    return app


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of this version."""
    return _documented(max_body_bytes=1, max_trace_bytes=1).openapi()


def _documented(*, max_body_bytes: int, max_trace_bytes: int, lifespan: Any = None) -> FastAPI:
    app = FastAPI(
        title="ACE server",
        version=_VERSION,
        description="Answers with learned skills, and learns from the feedback on them.",
        docs_url=None,
        redoc_url=None,
        openapi_url=_OPENAPI,
        lifespan=lifespan,
        max_body_size=max_body_bytes,
        generate_unique_id_function=lambda route: route.name,
    )
    add_error_handlers(app)
    app.include_router(_supervision_routes())
    for router in (serving_routes(max_trace_bytes=max_trace_bytes), lists.router, deciding.router):
        app.include_router(router)
    app.openapi = _documenting(app)  # type: ignore[method-assign]  # the way that FastAPI documents
    return app


def _documenting(app: FastAPI) -> Callable[[], dict[str, Any]]:
    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            app.openapi_schema = _with_our_errors(found)
        return app.openapi_schema

    return document


def _with_our_errors(document: dict[str, Any]) -> dict[str, Any]:
    """Describe validation errors as they are sent, and which operations need a key."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            if path.startswith("/v1/") or path == "/metrics":
                operation["security"] = [{"key": []}]
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


def _supervision_routes() -> APIRouter:
    router = APIRouter(tags=["supervision"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """Say that the process is alive."""
        return Health(status="ok")

    @router.get("/readyz", responses={503: {"model": Readiness, "description": "No release could be loaded yet."}})
    async def readyz(request: Request) -> Response:
        """Say whether requests can be answered, and since when the database cannot be reached."""
        inference = state_of(request).inference
        since = inference.unreachable_since
        status = "starting" if not inference.is_ready else "ready" if since is None else "degraded"
        body = Readiness(status=status, since=since).model_dump()
        return JSONResponse(body, 200 if inference.is_ready else 503)

    @router.get("/metrics", response_class=Response, responses=error_responses(401, 403, 429))
    async def metrics(access: Annotated[Access, Depends(needs("read"))]) -> Response:
        """Return the counters of this process, in the text format of OpenMetrics. They are about all books."""
        if access.key.book is not None:
            raise ApiError(403, "The counters are about all books; the key is for one.")
        text = await anyio.to_thread.run_sync(_metrics_text, access.state)
        return Response(text, media_type=CONTENT_TYPE)

    return router


@final
class _NoRoute:
    """Rejects paths and methods of the API without a route, which would otherwise be answered as missing pages."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = [route for route in scope["app"].routes if route.matches(scope)[0] is Match.PARTIAL]
        if not known:
            raise HTTPException(404)
        tried = [(method, {**scope, "method": method}) for method in _METHODS]
        allowed = [
            method for method, as_sent in tried if any(route.matches(as_sent)[0] is Match.FULL for route in known)
        ]
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


def _metrics_text(state: ServerState) -> str:
    gauges: dict[str, float] = {
        "ace_server_in_flight": state.limits.in_flight,
        "ace_server_rows_lost": state.writer.lost,
        "ace_server_database_unreachable": float(state.inference.unreachable_since is not None),
    }
    table = tables.feedback
    try:
        with state.service.database.reading() as connection:
            counts = connection.execute(sa.select(table.c.state, sa.func.count()).group_by(table.c.state)).all()
    except DatabaseUnavailableError:  # the gauge above says so
        counts = []
    found = {str(name): int(count) for name, count in counts}
    gauges |= {f"ace_server_feedback_{name}": found.get(name, 0) for name in _FEEDBACK_STATES} if counts else {}
    return state.metrics.text(gauges)


def _stop(state: ServerState) -> None:
    state.inference.stop()
    state.maintenance.stop()
    state.writer.close()


@final
class _Recorded:
    """Gives each request an id, counts it, and writes a line into the log. No error of the app gets past it."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("http")
        scope.setdefault("state", {})["request_id"] = request_id
        began, status, is_replaced = time.perf_counter(), 500, False
        is_read = not _has_body(scope)

        async def receive_noting_end() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_with_id(message: Message) -> None:
            nonlocal status, is_replaced
            if is_replaced:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
                if not is_read:
                    # Otherwise, the server would receive the rest only to drop it, at the cost of all other clients.
                    message["headers"].append((b"connection", b"close"))
                if status == 413 and _is_plain_text(message) and scope["path"].startswith("/v1/"):
                    # FastAPI has not read the body, because of its length, and has no handler for that.
                    is_replaced = True
                    headers = {"X-Request-Id": request_id, "Connection": "close"}
                    await error_response(request_id, 413, "The body is too large.", headers=headers)(
                        scope, receive, send
                    )
                    return
            await send(message)

        app = _rejected_as_ambiguous if _has_two_lengths(scope) else self._app
        try:
            await app(scope, receive_noting_end, send_with_id)
        except Exception as error:
            # The response was sent. The text of an unexpected error may quote the request, so only its class and place
            # are logged; the server would log its traceback.
            _logger.error("%s unexpected %s", request_id, described(error))
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - began
            self._state.metrics.request(route, status, seconds)
            _logger.info("%s %s %s %d %.0f ms", request_id, scope["method"], route, status, seconds * 1000)


def _is_plain_text(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/plain") for name, value in message["headers"])


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _has_two_lengths(scope: Scope) -> bool:
    """Return whether the length of the body is given in two ways.

    A proxy in front may have taken the other one, and what one of them takes for the body is the next request for the
    other (request smuggling).
    """
    names = [name for name, _ in scope["headers"]]
    return b"transfer-encoding" in names and b"content-length" in names


async def _rejected_as_ambiguous(scope: Scope, receive: Receive, send: Send) -> None:
    message = "Content-Length and Transfer-Encoding must not both be given."
    await error_response(scope["state"]["request_id"], 400, message)(scope, receive, send)
