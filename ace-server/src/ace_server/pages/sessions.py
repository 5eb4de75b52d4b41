"""The visitors of the pages: the signed cookie of a login, and the tokens of forms."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import sqlalchemy as sa
from itsdangerous import BadSignature, URLSafeTimedSerializer

from ace_server.keys import Rights
from ace_server.tables import logout

if TYPE_CHECKING:
    from ace_server.keys import Key
    from ace_server.seal import Seal

__all__ = [
    "COOKIE",
    "LIFETIME",
    "TOKEN_VISITOR",
    "Login",
    "Sessions",
    "Visitor",
    "cookie_options",
    "end_login",
    "is_ended",
]

COOKIE: Final = "ace_session"
LIFETIME: Final = 12 * 3600
"""How long a login is valid, in seconds."""
TOKEN_VISITOR: Final = "command"
"""Who has logged in with the token that `ace server run` printed: anyone who may run commands on the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor(Rights):
    """Who has logged in."""

    id: str
    """The id of the key, `command` for the one-time token, or `proxy:USER` for a user of the proxy."""
    name: str
    """The name of the key or of the user."""
    session: str
    """A random name of this login, which forms are bound to."""

    @classmethod
    def with_key(cls, key: Key, session: str) -> Visitor:
        """Return the visitor with a key.

        Args:
            session: The name of the login.
        """
        return cls(id=key.id, name=key.name, scopes=key.scopes, book=key.book, session=session)

    @classmethod
    def with_token(cls, session: str) -> Visitor:
        """Return the visitor with the one-time token, who may do everything.

        Args:
            session: The name of the login.
        """
        return cls(id=TOKEN_VISITOR, name="one-time token", scopes=frozenset({"admin"}), book=None, session=session)

    @classmethod
    def with_proxy(cls, user: str, scopes: Collection[str]) -> Visitor:
        """Return the visitor that the proxy in front has named.

        Args:
            user: The name of the user there.
            scopes: What such users may do.
        """
        identifier = f"proxy:{user}"
        return cls(id=identifier, name=user, scopes=frozenset(scopes), book=None, session=identifier)


class Login(NamedTuple):
    """A login, as its cookie names it."""

    visitor: str
    """The id of the key, or `command`."""
    session: str
    """The random name of the login."""
    at: float
    """When it was made, in whole seconds since 1970."""


def end_login(connection: sa.Connection, session: str) -> None:
    """End a login in all processes, although its cookie is still signed.

    Args:
        connection: A transaction that writes.
        session: The name of the login, or `command` for all logins by one-time tokens.
    """
    moment = time.time()
    connection.execute(sa.delete(logout).where(sa.or_(logout.c.session == session, logout.c.at < moment - LIFETIME)))
    connection.execute(sa.insert(logout).values(session=session, at=moment))


def is_ended(connection: sa.Connection, login: Login) -> bool:
    """Return whether the user has logged out, or all logins of this kind were ended.

    Args:
        connection: A transaction that reads.
        login: What a cookie names.
    """
    is_its = logout.c.session == login.session
    if login.visitor == TOKEN_VISITOR:
        is_its = sa.or_(is_its, sa.and_(logout.c.session == TOKEN_VISITOR, logout.c.at >= login.at))
    return connection.execute(sa.select(logout.c.at).where(is_its)).first() is not None


@final
class Sessions:
    """Signs cookies and form tokens with keys that belong to those of the seal, so that all processes accept them."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        """The form tokens that were used, and when they would have expired."""

    def cookie(self, visitor: str) -> str:
        """Return the value of a cookie for a new login.

        Args:
            visitor: The id of the key, or `command`.
        """
        return self._signer("cookie").dumps([visitor, secrets.token_urlsafe(12)])

    def read_cookie(self, value: str) -> Login | None:
        """Return the login that a cookie belongs to, or None if the cookie is forged or too old.

        Args:
            value: The value of the cookie.
        """
        try:
            found, at = self._signer("cookie").loads(value, max_age=LIFETIME, return_timestamp=True)
        except BadSignature:
            return None
        return Login(str(found[0]), str(found[1]), at.timestamp())

    def form_token(self, session: str, action: str) -> str:
        """Return a token for one form, which can be sent once.

        Args:
            session: The name of the login; empty before it.
            action: The path that the form is sent to.
        """
        return self._signer("form").dumps([session, action, secrets.token_urlsafe(9)])

    def use_form_token(self, token: str, session: str, action: str) -> bool:
        """Consume the token of a form, and return whether it was valid.

        Args:
            token: What was sent.
            session: The name of the login.
            action: The path that it was sent to.
        """
        found = self._read("form", token)
        if found is None or found[:2] != [session, action]:
            return False
        moment = time.monotonic()
        with self._lock:
            self._used = {form: end for form, end in self._used.items() if end > moment}
            if found[2] in self._used:
                return False
            self._used[found[2]] = moment + LIFETIME
        return True

    def _signer(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._seal.signing_keys(f"ace-server page {purpose}"), salt=purpose)

    def _read(self, purpose: str, value: str) -> list[Any] | None:
        try:
            found: list[Any] = self._signer(purpose).loads(value, max_age=LIFETIME)
        except BadSignature:
            return None
        return found


def cookie_options(*, is_secure: bool) -> Mapping[str, Any]:
    """Return how the cookie is set.

    Args:
        is_secure: Whether the page is served with TLS.
    """
    return {"httponly": True, "samesite": "strict", "secure": is_secure, "max_age": LIFETIME, "path": "/"}
