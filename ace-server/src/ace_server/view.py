"""`ace view`: read-only pages for one skillbook, on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from ace.cli import CommandContext
from ace.integrations import DONE, UsageError, print_text

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ace_server.pages.book_reader import BookReader

__all__ = ["command", "view_app"]

_HOST: Final = "127.0.0.1"
_PORT: Final = 8766


def command(
    skillbook: str | None = None,
    /,
    *,
    port: int | None = None,
    open_browser: Annotated[bool, Parameter(name="--open", negative="--no-open")] = True,
    context: CommandContext,
) -> int:
    """Show a skillbook in the browser: its skills, their history, the traces that taught them, and their proofs.

    The pages are read-only, need no set-up, and follow the skillbook while others learn into it. They are served on
    127.0.0.1 until you press Ctrl-C, and load nothing from the network.

    For example:

        ace view
        ace view team.db --port 8800
        ace view 'postgresql://ann@db.internal/ace?book=support' --no-open

    Args:
        skillbook: A .db or .json file, or the location of a store. [env: ACE_SKILLBOOK] [default: skills.db]
        port: The port to listen on. [default: 8766, or a free one if it is in use]
        open_browser: Open the first page in the browser.
        context: The settings of the user.
    """
    settings = context.settings(skillbook=skillbook)
    location = settings.skillbook
    from ace import Skillbook
    from ace.skillbook import has_scheme

    with context.skillbook(settings):
        pass  # reports what is wrong with it as every command does
    from ace_server.pages.book_reader import BookReader

    name = "skills" if has_scheme(location) else Path(location).stem
    with contextlib.closing(BookReader(name or "skills", location, lambda: Skillbook.open(location))) as reader:
        listening = _listening(port)
        url = f"http://{_HOST}:{listening.getsockname()[1]}/"
        print_text(f"{reader.shown_location} is shown at {url} until you press Ctrl-C")
        if open_browser:
            # In a thread, since a browser in the terminal does not return before it is closed.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        _serve(view_app(reader), listening)
    return DONE


def view_app(reader: BookReader) -> Starlette:
    """Return the application with the read-only pages of one book.

    Args:
        reader: The book.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware

    from ace.skillbook import SkillbookError, has_scheme
    from ace_server.pages.book_pages import BookPages, NotFoundError, book_tabs, error_page
    from ace_server.pages.guard import LOOPBACK_NAMES, PageGuard

    title = reader.shown_location if has_scheme(reader.location) else Path(reader.location).name

    def site(request: Request) -> dict[str, object]:
        path = request.url.path
        tabs = [{"label": "Overview", "href": "/", "current": path == "/"}, *book_tabs(reader.name, path)]
        return {"title": title, "tabs": tabs}

    def error(request: Request, problem: Exception) -> Response:
        return error_page(request, problem, site(request))

    pages = BookPages(lambda name: reader if name == reader.name else None, lambda: [reader], site)
    return Starlette(
        routes=pages.routes(),
        middleware=[Middleware(PageGuard, hosts=LOOPBACK_NAMES)],
        exception_handlers=dict.fromkeys((NotFoundError, SkillbookError, OSError, HTTPException), error),
    )


def _listening(port: int | None) -> socket.socket:
    """Return a socket on the port, or else on the default port if it is free.

    Raises:
        UsageError: The port that the user wants is in use, or out of range.
    """
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"--port must be a number from 0 to 65535, got {port}")
    for wanted in (_PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in `ace_server.running`
        try:
            listening.bind((_HOST, wanted))
            listening.listen(64)
        except OSError as error:
            listening.close()
            reason = error.strerror
        else:
            return listening
    raise UsageError(f"--port {port}: {_HOST}:{port} cannot be opened ({reason}); choose another port, or omit --port")


def _serve(app: Starlette, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
