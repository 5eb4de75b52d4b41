"""`/audit` and `/keys`: who did what, and who may do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import quote

import sqlalchemy as sa
from starlette.responses import RedirectResponse, Response

from ace_server import audit, keys, tables
from ace_server.database import now
from ace_server.keys import SCOPES
from ace_server.pages.exporting import iso_time, table_response, wants_file
from ace_server.pages.service_site import RefusedError, ServiceSite, origin_of
from ace_server.pages.skill_table import SkillQuery

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace_server.pages.sessions import Visitor

__all__ = ["AdminPages"]

_AUDIT: Final = tables.audit
_MOST: Final = 200
_DAY: Final = 86_400.0


@final
class AdminPages:
    """The routes of the audit log and of the keys.

    Args:
        site: The service.
    """

    def __init__(self, site: ServiceSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        site = self._site
        return [
            site.get("/audit", self.show_audit, "admin"),
            site.get("/audit/check", self.check_audit, "admin"),
            site.get("/keys", self.show_keys, "admin"),
            site.post("/keys", self.add_key, "admin"),
            site.get("/keys/{key}/revoke", self.confirm_revoking, "admin"),
            site.post("/keys/{key}/revoke", self.revoke_key, "admin"),
        ]

    def show_audit(self, request: Request, visitor: Visitor) -> Response:
        """List the rows of the audit log, newest first."""
        return self._audit(request, visitor, None)

    def check_audit(self, request: Request, visitor: Visitor) -> Response:
        """Check the chain of the audit log, and list its rows."""
        return self._audit(request, visitor, audit.check(self._site.service.database))

    def _audit(self, request: Request, visitor: Visitor, checked: audit.AuditCheck | None) -> Response:
        _all_books_only(visitor)
        what, who = request.query_params.get("what", ""), request.query_params.get("who", "")
        before = SkillQuery.read({"version": request.query_params.get("before", "")}).version
        query = sa.select(_AUDIT).order_by(_AUDIT.c.number.desc()).limit(_MOST + 1)
        if what:
            query = query.where(_AUDIT.c.what == what)
        if who:
            query = query.where(_AUDIT.c.who == who)
        if before is not None:
            query = query.where(_AUDIT.c.number < before)
        if wants_file(request):
            rows = self._site.rows(query.limit(None))
            return table_response(request, "audit", _AUDIT_COLUMNS, map(_audit_cells, rows))
        rows = self._site.rows(query)
        return self._site.page(
            request,
            visitor,
            "audit.html",
            rows=rows[:_MOST],
            older=rows[_MOST - 1].number if len(rows) > _MOST else None,
            kinds=[row.what for row in self._site.rows(sa.select(_AUDIT.c.what).distinct().order_by(_AUDIT.c.what))],
            what=what,
            who=who,
            names=self._site.names(),
            objects_by_name=self._site.names() | self._releases(),
            path_of=_path_of,
            checked=checked,
        )

    def _releases(self) -> dict[str, str]:
        """Return what each release is called, by its id."""
        release = tables.release
        rows = self._site.rows(sa.select(release.c.id, release.c.book, release.c.version))
        return {row.id: f"version {row.version} of {row.book}" for row in rows}

    def show_keys(self, request: Request, visitor: Visitor) -> Response:
        """List the keys."""
        _all_books_only(visitor)
        return self._keys(request, visitor, None)

    def _keys(self, request: Request, visitor: Visitor, secret: str | None) -> Response:
        with self._site.service.database.reading() as connection:
            found = keys.list_keys(connection)
        if secret is None and wants_file(request):
            return table_response(request, "keys", _KEY_COLUMNS, map(_key_cells, found[::-1]))
        return self._site.page(
            request,
            visitor,
            "keys.html",
            keys=found[::-1],
            secret=secret,
            scopes=SCOPES,
            book_names=self._site.books(visitor),
            now=now(),
        )

    def add_key(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Add a key, and show it once."""
        _all_books_only(visitor)
        name = form.get("name", "").strip()
        if not name:
            raise RefusedError(400, "A key needs a name, so that the list shows who owns it.")
        scopes = [scope for scope in SCOPES if form.get(scope)]
        book = form.get("book") or None
        try:
            if book is not None and book not in self._site.books(visitor):
                raise ValueError("the book does not exist")
            budget, days = (_number(form, field) for field in ("budget", "days"))
            if days is not None and days <= 0:
                raise ValueError("the days must be greater than 0")
            with self._site.service.database.writing() as connection:
                identifier, secret = keys.add_key(
                    connection,
                    name,
                    scopes,
                    book=book,
                    rate=form.get("rate", "").strip() or None,
                    budget=budget,
                    expires_at=None if days is None else now() + days * _DAY,
                )
                origin = origin_of(request)
                audit.record(connection, who=visitor.id, what="key.add", target=identifier, origin=origin)
        except ValueError as error:
            raise RefusedError(400, f"The key was not added: {error}.") from None
        return self._keys(request, visitor, secret)

    def confirm_revoking(self, request: Request, visitor: Visitor) -> Response:
        """Ask whether a key should be revoked."""
        return self._site.page(request, visitor, "key_revoke.html", key=self._key(request, visitor))

    def revoke_key(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Revoke a key."""
        key = self._key(request, visitor)

        def make(connection: sa.Connection) -> bool:
            return keys.revoke_key(connection, key.id) is not None

        if not self._site.change(request, visitor, "key.revoke", key.id, make):
            raise RefusedError(409, "This key was revoked already.")
        self._site.state(request).keys.forget()
        return RedirectResponse("/keys", 303)

    def _key(self, request: Request, visitor: Visitor) -> keys.Key:
        _all_books_only(visitor)
        with self._site.service.database.reading() as connection:
            found = keys.list_keys(connection)
        key = next((row for row in found if row.id == request.path_params["key"]), None)
        if key is None:
            raise RefusedError(404, "There is no key with this id.")
        return key


def _number(form: Mapping[str, str], name: str) -> float | None:
    text = form.get(name, "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f"the {name} must be a number") from None


_PATHS: Final = {
    "rev": "/review/{}",
    "bat": "/runs/{}",
    "rel": "/releases#{}",
    "exp": "/experiments#{}",
    "key": "/keys#{}",
}
"""Where the object with an id is shown, by how the id begins."""


def _path_of(identifier: str) -> str:
    """Return the address of an object of the audit log; empty if no page shows it."""
    kind, _, rest = identifier.partition("_")
    return _PATHS[kind].format(quote(identifier, safe="")) if rest and kind in _PATHS else ""


_AUDIT_COLUMNS: Final = ("row", "at", "who", "what", "object", "origin", "hash")
_KEY_COLUMNS: Final = (
    "id", "name", "prefix", "scopes", "book", "rate", "budget_usd_a_day", "added", "expires", "revoked",
)  # fmt: skip


def _audit_cells(row: sa.Row[Any]) -> Sequence[str | int | None]:
    return (row.number, iso_time(row.at), row.who, row.what, row.object, row.origin, row.hash)


def _key_cells(key: keys.Key) -> Sequence[str | float | None]:
    times = (iso_time(key.created_at), iso_time(key.expires_at), iso_time(key.revoked_at))
    scopes = " ".join(sorted(key.scopes))
    return (key.id, key.name, key.prefix, scopes, key.book, key.rate, key.budget, *times)


def _all_books_only(visitor: Visitor) -> None:
    if visitor.book is not None:
        raise RefusedError(403, "Your key is for one book; this page is about all of them.")
