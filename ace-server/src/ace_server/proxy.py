"""Which headers of a proxy in front are trusted: the client's address, the scheme, and who has logged in there.

A client can send the same headers itself. Therefore only the last entry of `X-Forwarded-For` counts, which the proxy
has appended; and if the proxy shares a secret with the service, no header is trusted without it. A user is never
trusted without the secret, because other clients on the network could otherwise call the service directly as anyone.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from starlette.datastructures import Headers

from ace.integrations import UsageError, is_loopback
from ace_server.keys import SCOPES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ace_server.settings import ServerSettings

__all__ = ["SECRET_HEADER", "SECRET_VARIABLE", "USER", "BehindProxy", "proxy_secret"]

SECRET_VARIABLE: Final = "ACE_SERVER_PROXY_SECRET"
"""The variable with the secret that the proxy sends."""
SECRET_HEADER: Final = "X-Ace-Proxy-Secret"
"""The header in which the proxy sends it."""
USER: Final = "ace_server.proxy_user"
"""The key of the user in the scope of a request; missing if the proxy has named none."""

_SHORTEST_SECRET: Final = 16
_LONGEST_USER: Final = 200


def proxy_secret(settings: ServerSettings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the secret that the proxy shares with the service, and check the settings that concern the proxy.

    Args:
        environ: The environment; by default that of the process.

    Returns:
        The secret; None if there is none.

    Raises:
        UsageError: A user would be trusted without the secret, the secret is short, or a scope is not known.
    """
    secret = (os.environ if environ is None else environ).get(SECRET_VARIABLE) or None
    if unknown := [scope for scope in settings.proxy_user_scopes if scope not in SCOPES]:
        raise UsageError(f"proxy_user_scopes: no such scope: {unknown[0]!r}; the scopes are {', '.join(SCOPES)}")
    if secret is not None and (len(secret) < _SHORTEST_SECRET or not secret.isascii()):
        raise UsageError(f"{SECRET_VARIABLE} must have at least {_SHORTEST_SECRET} characters, all of them ASCII")
    if settings.proxy_user_header and not settings.behind_proxy:
        raise UsageError("the setting proxy_user_header requires --behind-proxy")
    if settings.behind_proxy and secret is None and not is_loopback(settings.host):
        raise UsageError(
            f"--behind-proxy with --host {settings.host} requires a secret in {SECRET_VARIABLE}, which the proxy sends "
            f"as {SECRET_HEADER}; without it, any client could name an address of its own and evade the limits"
        )
    if settings.proxy_user_header and secret is None:
        raise UsageError(
            f"the setting proxy_user_header requires a secret in {SECRET_VARIABLE}, which the proxy sends as "
            f"{SECRET_HEADER}; without it, any client could name a user"
        )
    return secret


@final
class BehindProxy:
    """Sets the address of the client, the scheme and the user of a request to what the proxy says.

    Args:
        app: The application.
        secret: The secret of the proxy; None trusts every client, except for users.
        user_header: The header in which the proxy names the user; if empty, none is accepted.
    """

    def __init__(self, app: ASGIApp, secret: str | None, user_header: str) -> None:
        self._app = app
        self._secret = secret
        self._user_header = user_header if secret is not None else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if self._is_from_proxy(headers):
                scope.update(_forwarded(headers) | self._user(headers))
        await self._app(scope, receive, send)

    def _is_from_proxy(self, headers: Headers) -> bool:
        if self._secret is None:
            return True
        sent = headers.getlist(SECRET_HEADER)
        return len(sent) == 1 and hmac.compare_digest(sent[0].encode("latin-1"), self._secret.encode("ascii"))

    def _user(self, headers: Headers) -> dict[str, object]:
        if not self._user_header:
            return {}
        sent = headers.getlist(self._user_header)  # two of them: the proxy has not replaced that of the client
        user = sent[0].strip() if len(sent) == 1 else ""
        return {USER: user} if 0 < len(user) <= _LONGEST_USER and user.isprintable() else {}


def _forwarded(headers: Headers) -> dict[str, object]:
    found: dict[str, object] = {}
    address = _address(_last(headers, "x-forwarded-for"))
    if address is not None:
        found["client"] = (address, 0)
    scheme = _last(headers, "x-forwarded-proto")
    if scheme in ("http", "https"):
        found["scheme"] = scheme
    return found


def _last(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()


def _address(text: str) -> str | None:
    """Return the address in `1.2.3.4`, `1.2.3.4:80`, `::1` or `[::1]:80`; None if it is something else."""
    host = text.partition("]")[0].removeprefix("[") if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
