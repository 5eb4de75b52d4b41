"""The pages of the service as one application, which the whole app mounts at `/`: login, and all routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ace.skillbook import SkillbookError
from ace_server import audit
from ace_server.candidates import Origin
from ace_server.database import DatabaseUnavailableError
from ace_server.keys import use_login_token
from ace_server.limits import OverLimitError
from ace_server.pages.admin_pages import AdminPages
from ace_server.pages.book_pages import BookPages, NotFoundError, error_page
from ace_server.pages.guard import LOOPBACK_NAMES, PageGuard
from ace_server.pages.lesson_pages import LessonPages
from ace_server.pages.release_pages import ReleasePages
from ace_server.pages.rendering import STATIC, response
from ace_server.pages.review_pages import ReviewPages
from ace_server.pages.run_pages import RunPages
from ace_server.pages.service_site import PARENT, RefusedError, ServiceSite, origin_of
from ace_server.pages.sessions import COOKIE, TOKEN_VISITOR, cookie_options, end_login

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ace_server.pages.sessions import Visitor
    from ace_server.service import Service

__all__ = ["routes"]

_NO_SESSION: Final = ""
"""What the form of the login is bound to, before there is a session."""


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the pages. They come after those of the API, since they answer everything else."""
    return [Mount("/", app=_Pages(service))]


@final
class _Pages:
    """The application with the pages. It remembers the whole app, whose state it shares."""

    def __init__(self, service: Service) -> None:
        self._site = ServiceSite(service)
        settings = service.settings
        hosts = {*LOOPBACK_NAMES, settings.host.lower(), *(host.lower() for host in settings.hosts)}
        errors = (NotFoundError, RefusedError, SkillbookError, DatabaseUnavailableError, OSError, HTTPException)
        self._app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(PageGuard, hosts=hosts)],
            exception_handlers=dict.fromkeys(errors, self._error),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app({**scope, PARENT: scope["app"]}, receive, send)

    def _routes(self) -> list[BaseRoute]:
        site = self._site
        books = BookPages(site.reader, list, lambda request: site.frame(request, self._visitor(request)), self._origins)
        return [
            Route("/login", self._show_login, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            site.post("/logout", self._log_out, None),
            *RunPages(site).routes(),
            *LessonPages(site).routes(),  # before those whose path ends with the id of a review
            *ReviewPages(site).routes(),
            *ReleasePages(site).routes(),
            *AdminPages(site).routes(),
            *(
                site.get(route.path, partial(_without_visitor, route), "read")
                for route in books.routes()
                if isinstance(route, Route) and route.path != "/"
            ),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _visitor(self, request: Request) -> Visitor:
        visitor = self._site.visitor(request)
        assert visitor is not None  # the route has checked it
        return visitor

    def _origins(self, request: Request, traces: Sequence[str]) -> Mapping[str, Sequence[Origin]]:
        return self._site.said(request, self._visitor(request), request.path_params["book"], traces)

    # Login

    async def _show_login(self, request: Request) -> Response:
        token = request.query_params.get("token")
        if token is None:
            return self._login_page()
        return await run_in_threadpool(self._log_in_with_token, request, token)

    def _log_in_with_token(self, request: Request, token: str) -> Response:
        with self._site.service.database.writing() as connection:
            is_valid = use_login_token(connection, token)
            if is_valid:
                audit.record(connection, who=TOKEN_VISITOR, what="login", origin=origin_of(request))
        if not is_valid:
            return self._rejected(request, "This link was used before, or has expired. Log in with a key.")
        # Not a redirect: after a link on another site, the browser would not send the cookie with it.
        return self._logged_in(request, TOKEN_VISITOR, response("logged_in.html", _frame()))

    async def _log_in(self, request: Request) -> Response:
        form = await request.form()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        return await run_in_threadpool(self._log_in_with_key, request, fields)

    def _log_in_with_key(self, request: Request, form: dict[str, str]) -> Response:
        self._site.check_form(request, form, _NO_SESSION)
        key = self._site.state(request).keys.find(form.get("key", "").strip())
        if key is None or (not key.allows("read") and not key.allows("review")):
            message = "This key is wrong, expired or revoked, or does not have the scope read or review."
            return self._rejected(request, message)
        with self._site.service.database.writing() as connection:
            audit.record(connection, who=key.id, what="login", origin=origin_of(request))
        first = "/" if key.allows("read") else "/review"
        return self._logged_in(request, key.id, RedirectResponse(first, 303))

    def _rejected(self, request: Request, message: str) -> Response:
        try:
            self._site.state(request).limits.check_wrong_login(origin_of(request))
        except OverLimitError:
            return self._login_page("Too many wrong logins. Wait a minute.", status=429)
        with self._site.service.database.writing() as connection:
            audit.record(connection, who="-", what="login.rejected", origin=origin_of(request))
        return self._login_page(message, status=401)

    def _logged_in(self, request: Request, identifier: str, answer: Response) -> Response:
        options = cookie_options(is_secure=request.url.scheme == "https")
        answer.set_cookie(COOKIE, self._site.sessions.cookie(identifier), **options)
        return answer

    def _log_out(self, request: Request, visitor: Visitor, form: object) -> Response:
        with self._site.service.database.writing() as connection:
            end_login(connection, visitor.session)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def _login_page(self, message: str = "", *, status: int = 200) -> HTMLResponse:
        token = self._site.sessions.form_token(_NO_SESSION, "/login")
        return response("login.html", {**_frame(), "message": message, "csrf": token}, status=status)

    # Errors

    def _error(self, request: Request, error: Exception) -> Response:
        if isinstance(error, RefusedError):
            error = HTTPException(error.status, str(error))
        is_lost = isinstance(error, NotFoundError | HTTPException)  # else nothing else can be read either
        visitor = self._site.visitor(request) if is_lost else None
        frame = _frame()["site"] if visitor is None else {**self._site.frame(request, visitor), "minor": []}
        return error_page(request, error, frame)


def _frame() -> dict[str, Any]:
    """Return the frame of a page for a visitor who has not logged in."""
    return {"site": {"title": "server", "tabs": []}, "book": None}


def _without_visitor(route: Route, request: Request, visitor: Visitor) -> Response:
    answer: Response = route.endpoint(request)
    return answer
