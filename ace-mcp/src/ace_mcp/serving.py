"""Runs the server over standard input and output or HTTP, until the client or a signal ends it.

The first SIGTERM or Ctrl-C stops all calls, closes the skillbooks and ends the process within two seconds. The process
ends with `os._exit`, because threads that wait for standard input or for a model cannot be interrupted.
"""

from __future__ import annotations

import hmac
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn, final

import anyio

from ace.integrations import DONE, INTERRUPTED, UsageError, is_loopback, note

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ace_mcp.config import MCPServerConfig
    from ace_mcp.server import SkillbookServer

__all__ = ["check_address", "log_to_stderr", "serve_http", "serve_stdio"]

_GRACE: Final = 1.0
"""The time that calls have to end when the server stops, in seconds."""
_LONGEST_PAUSE: Final = 60.0
"""The maximum interval between checks for idle sessions, in seconds."""


def log_to_stderr(config: MCPServerConfig) -> None:
    """Log to standard error. Standard output is reserved for the protocol.

    Args:
        config: The settings.
    """
    logging.basicConfig(
        level=config.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for name in ("httpx", "httpx2", "LiteLLM", "mcp", "uvicorn.access"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(config.log_level)))


def serve_stdio(server: SkillbookServer) -> NoReturn:
    """Serve over standard input and output until the client closes them, then end the process."""

    async def serve() -> None:
        async with anyio.create_task_group() as others:
            others.start_soon(_end_at_signal, server)
            others.start_soon(_close_idle_sessions, server)
            await server.run_stdio_async()
            others.cancel_scope.cancel()

    anyio.run(serve)
    _end(server, DONE)


def serve_http(server: SkillbookServer, host: str, port: int) -> NoReturn:
    """Serve over streamable HTTP until a signal ends the process.

    Args:
        host: The address to listen on.
        port: The port; 0 for a free one.

    Raises:
        UsageError: The address is not a loopback address, and the settings have no token; or the port cannot be opened.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    is_local = check_address(server.config, host)
    # On other addresses, the server may have any host name; there, the token protects it.
    security = None if is_local else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = server.streamable_http_app(host="127.0.0.1" if is_local else host, transport_security=security)
    if server.config.http_token is not None:
        app = BearerToken(app, server.config.http_token.get_secret_value())
    config = uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, lifespan="on")

    listening = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    note(f"ace: serving the skillbook at http://{shown}:{listening.getsockname()[1]}/mcp")

    async def serve() -> None:
        async with anyio.create_task_group() as others:
            others.start_soon(_end_at_signal, server)
            others.start_soon(_close_idle_sessions, server)
            await _http_server(config).serve(sockets=[listening])
            others.cancel_scope.cancel()

    anyio.run(serve)
    _end(server, DONE)


def check_address(config: MCPServerConfig, host: str) -> bool:
    """Check that a server without a token listens only on a loopback address.

    Args:
        config: The settings.
        host: The address to listen on.

    Returns:
        Whether it is a loopback address.

    Raises:
        UsageError: It is not, and the settings have no token.
    """
    is_local = is_loopback(host)
    if not is_local and config.http_token is None:
        raise UsageError(
            f"--http {host}: other machines could use the server without a token; set the variable ACE_MCP_HTTP_TOKEN, "
            "or listen on 127.0.0.1"
        )
    return is_local


@final
class BearerToken:
    """Rejects HTTP requests that do not carry the token.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it with status 401."""
        if scope["type"] == "http":
            header = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(header, self._wanted):
                from starlette.responses import PlainTextResponse

                headers = {"WWW-Authenticate": "Bearer"}
                await PlainTextResponse("the token is missing or wrong", 401, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _end(server: SkillbookServer, code: int) -> NoReturn:
    server.sessions.shut_down(seconds=_GRACE)
    logging.shutdown()
    os._exit(code)


async def _end_at_signal(server: SkillbookServer) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            # On a thread, so that the loop can still send the answers to the stopped calls.
            await anyio.to_thread.run_sync(lambda: server.sessions.shut_down(seconds=_GRACE))
            await anyio.sleep(0.05)
            _end(server, INTERRUPTED)


async def _close_idle_sessions(server: SkillbookServer) -> None:
    pause = min(server.config.session_ttl_seconds / 2, _LONGEST_PAUSE)
    while True:
        await anyio.sleep(pause)
        await anyio.to_thread.run_sync(server.sessions.close_idle)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"--http {host}:{port}: cannot listen there: {error.strerror or error}") from error
    # Connections inherit it; without it, clients that keep theirs wait 40 ms for the body of each response.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _http_server(config: uvicorn.Config) -> uvicorn.Server:
    """Return a server that does not install signal handlers."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Server(config)
