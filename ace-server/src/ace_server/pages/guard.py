"""Protects every page: the headers of each response, and which host names are answered."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK_NAMES", "SECURITY_HEADERS", "PageGuard"]

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The host names under which a browser on this machine reaches a loopback address."""

_LONGEST_PATH: Final = 2_000
"""The maximum length of a path, in characters. Python does not convert numbers of more than 4,300 digits."""

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Set on every response. Nothing inline is executed, whatever a skill or a question contains."""


@final
class PageGuard:
    """Answers only requests for known host names, and sets `SECURITY_HEADERS` on every response.

    A web page could otherwise make its own host name point to 127.0.0.1 (DNS rebinding), and read the book. Addresses
    with U+0000, which Postgres cannot compare with a text, and those with a very long path are rejected.

    Args:
        app: The application.
        hosts: The host names without ports, in lower case.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it with status 400."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        app = self._app
        if _host_of(Headers(scope=scope)) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            app = PlainTextResponse(f"This server does not answer for this host name, only for {names}.\n", 400)
        elif len(scope["path"]) > _LONGEST_PATH or "\0" in scope["path"] or b"%00" in scope["query_string"]:
            app = PlainTextResponse("This address is too long, or contains the character U+0000.\n", 400)
        await app(scope, receive, send_with_headers)


def _host_of(headers: Headers) -> str:
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
