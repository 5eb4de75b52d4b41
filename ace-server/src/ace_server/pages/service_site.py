"""What the pages of the service share: who may see them, the database, the books, and the check of every form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ace_server import audit, tables
from ace_server.candidates import Origin, said_in_traces
from ace_server.pages.book_pages import NotFoundError, book_tabs
from ace_server.pages.book_reader import BookReader
from ace_server.pages.rendering import address, response
from ace_server.pages.sessions import COOKIE, TOKEN_VISITOR, Sessions, Visitor, is_ended
from ace_server.proxy import USER

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request

    from ace_server.api.state import ServerState
    from ace_server.keys import Scope
    from ace_server.service import Service

__all__ = ["PARENT", "RefusedError", "ServiceSite", "is_same_origin", "origin_of"]

PARENT: Final = "ace_server.app"
"""The key of the whole app in the scope of a request to a page."""

Result = TypeVar("Result")
Row = sa.Row[Any]
Handler = Callable[["Request", Visitor], Response]
FormHandler = Callable[["Request", Visitor, Mapping[str, str]], Response]

_TABS: Final[tuple[tuple[str, str, Scope], ...]] = (
    ("Books", "/", "read"),
    ("Review", "/review", "review"),
    ("Releases", "/releases", "read"),
    ("Runs", "/runs", "read"),
    ("Experiments", "/experiments", "admin"),
    ("Audit", "/audit", "admin"),
    ("Keys", "/keys", "admin"),
)


class RefusedError(Exception):
    """The request is not allowed.

    Args:
        status: The HTTP status.
        message: Why, and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def origin_of(request: Request) -> str:
    """Return the address of the client."""
    return request.client.host if request.client is not None else "-"


def is_same_origin(request: Request) -> bool:
    """Return whether a form was sent by one of our own pages, as far as the browser says."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return site in ("same-origin", "none") and origin in (None, own)


@final
class ServiceSite:
    """The service, as its pages see it. Its methods are called in threads."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.sessions = Sessions(service.seal)
        self._lock = threading.Lock()
        self._readers: dict[str, BookReader] = {}

    # Routes

    def get(self, path: str, handler: Handler, scope: Scope) -> Route:
        """Return a route for a page.

        Args:
            path: Its path.
            handler: Returns the page.
            scope: What the visitor must be allowed to do.
        """

        async def endpoint(request: Request) -> Response:
            def handled() -> Response:
                visitor = self.visitor(request)
                if visitor is None:
                    return RedirectResponse(address("login"), 303)
                self._check(request, visitor, scope)
                return handler(request, visitor)

            return await run_in_threadpool(handled)

        return Route(path, endpoint, methods=["GET"])

    def post(self, path: str, handler: FormHandler, scope: Scope | None) -> Route:
        """Return a route for a form. Its token is checked before the handler is called.

        Args:
            path: Its path.
            handler: Makes the change.
            scope: What the visitor must be allowed to do; None for every visitor who has logged in.
        """

        async def endpoint(request: Request) -> Response:
            form = _texts(await request.form())

            def handled() -> Response:
                visitor = self.visitor(request)
                if visitor is None:
                    raise RefusedError(403, "You are not logged in, or your login has expired.")
                self._check(request, visitor, scope)
                self.check_form(request, form, visitor.session)
                return handler(request, visitor, form)

            return await run_in_threadpool(handled)

        return Route(path, endpoint, methods=["POST"])

    def check_form(self, request: Request, form: Mapping[str, str], session: str) -> None:
        """Check that a form comes from one of our own pages, and was not sent before.

        Args:
            form: What was sent.
            session: The name of the login.

        Raises:
            RefusedError: It does not.
        """
        action = request.url.path
        if not is_same_origin(request) or not self.sessions.use_form_token(form.get("csrf", ""), session, action):
            raise RefusedError(
                403, "This form has expired, or was sent before. Go back, reload the page and try again."
            )

    def _check(self, request: Request, visitor: Visitor, scope: Scope | None) -> None:
        if scope is not None and not visitor.allows(scope):
            self.record(request, visitor, "access.rejected", scope)
            raise RefusedError(403, f"Your key does not have the scope {scope}.")
        book = request.path_params.get("book") or request.query_params.get("book")
        if book and not visitor.is_for(book):
            self.record(request, visitor, "access.rejected", book)
            raise RefusedError(403, "Your key is for another book.")

    # Who, and what they do

    def visitor(self, request: Request) -> Visitor | None:
        """Return the user who is logged in, here or at the proxy; None if the request has no valid session."""
        found = self.sessions.read_cookie(request.cookies.get(COOKIE, ""))
        if found is None:
            user = request.scope.get(USER)
            return None if user is None else Visitor.with_proxy(user, self.service.settings.proxy_user_scopes)
        with self.service.database.reading() as connection:
            if is_ended(connection, found):
                return None
        if found.visitor == TOKEN_VISITOR:
            return Visitor.with_token(found.session)
        key = self.state(request).keys.with_id(found.visitor)
        return None if key is None else Visitor.with_key(key, found.session)

    def state(self, request: Request) -> ServerState:
        """Return what the routes of the process share."""
        state: ServerState = request.scope[PARENT].state.server
        return state

    def record(self, request: Request, visitor: Visitor, what: str, target: str | None = None) -> None:
        """Add a row to the audit log.

        Args:
            visitor: Who has done it.
            what: What was done.
            target: The id of the object.
        """
        with self.service.database.writing() as connection:
            audit.record(connection, who=visitor.id, what=what, target=target, origin=origin_of(request))

    def change(
        self, request: Request, visitor: Visitor, what: str, target: str, make: Callable[[sa.Connection], Result]
    ) -> Result:
        """Make a change, with its row in the audit log in the same transaction.

        If the result is False, nothing has changed, and no row is added.

        Args:
            visitor: Who makes it.
            what: What is done.
            target: The id of the object.
            make: Makes the change.
        """
        with self.service.database.writing() as connection:
            result = make(connection)
            if result is not False:
                audit.record(connection, who=visitor.id, what=what, target=target, origin=origin_of(request))
        return result

    # Reading

    def said(
        self, request: Request, visitor: Visitor, book: str, traces: Sequence[str]
    ) -> Mapping[str, Sequence[Origin]]:
        """Return what users said in traces, if the visitor may read that. It is noted in the audit log.

        Args:
            visitor: Who wants to see it.
            book: The book that users said it about.
            traces: The names of traces, or the ids of feedback.
        """
        if not visitor.allows("review"):
            return {}
        found = said_in_traces(self.service.database, self.service.seal, book, traces)
        if found:
            ids = " ".join(dict.fromkeys(origin.feedback for origins in found.values() for origin in origins))
            self.record(request, visitor, "text.read", ids)
        return found

    def rows(self, query: sa.Select[Any]) -> Sequence[Row]:
        """Return the rows of a query."""
        with self.service.database.reading() as connection:
            return connection.execute(query).all()

    def one(self, table: sa.Table, identifier: str, visitor: Visitor) -> Row:
        """Return the row with an id.

        Args:
            identifier: The id.
            visitor: Who wants to see it.

        Raises:
            NotFoundError: It does not exist, or belongs to another book.
        """
        found = self.rows(sa.select(table).where(table.c.id == identifier))
        if not found or not visitor.is_for(found[0].book):
            raise NotFoundError(f"no such {table.name}: {identifier!r}")
        return found[0]

    def names(self) -> dict[str, str]:
        """Return the names of all keys by their ids, for people."""
        rows = self.rows(sa.select(tables.key.c.id, tables.key.c.name))
        known = {"worker": "the worker", "command": "the command line"}
        return known | {row.id: row.name for row in rows}

    def books(self, visitor: Visitor) -> list[str]:
        """Return the names of the books that a visitor may see.

        Args:
            visitor: Who wants to see them.
        """
        rows = self.rows(sa.select(tables.book.c.name).order_by(tables.book.c.name))
        return [row.name for row in rows if visitor.is_for(row.name)]

    def reader(self, name: str) -> BookReader | None:
        """Return the reader of a book; None if there is no such book.

        Args:
            name: The name of the book.
        """
        if not self.rows(sa.select(tables.book.c.name).where(tables.book.c.name == name)):
            return None
        location = self.service.book_location(name)
        with self._lock:
            found = self._readers.get(name)
            if found is None or found.location != location:
                found = self._readers[name] = BookReader(name, location, lambda: self.service.open_book(name))
        return found

    # Pages

    def page(
        self, request: Request, visitor: Visitor, template: str, *, status: int = 200, **values: object
    ) -> Response:
        """Return a page.

        Args:
            visitor: Who sees it.
            template: Its template.
            status: The HTTP status.
            **values: What it shows.
        """
        frame = {"site": self.frame(request, visitor), "visitor": visitor, "form_token": self._tokens(visitor)}
        return response(template, {"book": None, **frame, **values}, status=status)

    def frame(self, request: Request, visitor: Visitor) -> dict[str, object]:
        """Return what the frame of a page shows.

        Args:
            visitor: Who sees it.
        """
        path = request.url.path
        tabs = [
            {"label": label, "href": href, "current": path.startswith(href) if href != "/" else path == "/"}
            for label, href, scope in _TABS
            if visitor.allows(scope)
        ]
        book = request.path_params.get("book")
        return {
            "title": "server",
            "tabs": tabs,
            "minor": book_tabs(book, path) if book else [],
            "book": book,
            "logout": self.sessions.form_token(visitor.session, "/logout"),
            "visitor": visitor.name,
            "can_restore": visitor.allows("review"),
        }

    def _tokens(self, visitor: Visitor) -> Callable[[str], str]:
        return lambda action: self.sessions.form_token(visitor.session, action)


def _texts(form: FormData) -> dict[str, str]:
    texts = {name: value for name, value in form.items() if isinstance(value, str)}
    if any("\0" in value for value in texts.values()):
        raise RefusedError(400, "A field contains the character U+0000, which cannot be stored.")
    return texts
