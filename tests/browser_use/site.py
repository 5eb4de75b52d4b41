"""A harbour office on loopback: a form, a cookie banner that hides it, and pages that fail."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

_FORM = """<html><head><title>Harbour office</title></head><body><h1>Berths</h1>
<form action="/booked"><label>Ship <input name="ship" placeholder="Name of the ship"></label>
<button type="submit">Book a berth</button></form>{more}</body></html>"""
_MOVED = """<div id="cookies" style="position:fixed;inset:0;background:#fff;z-index:9"><p>This site uses cookies.</p>
<button onclick="document.body.innerHTML = '<p>The office has moved.</p>'">Accept</button></div>"""
_BANNER = """<div id="cookies" style="position:fixed;inset:0;background:#fff;z-index:9"><p>This site uses cookies.</p>
<button onclick="document.getElementById('cookies').remove()">Accept</button></div>"""


class Site:
    """Serves the office until the `with` block ends.

    `/` has the form behind the banner, `/plain` has it without, `/broken` answers with status 500, `/slow` answers
    only when the site closes, `/files` leads to a file to download. With a TLS context, it is served by HTTPS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self.is_rebuilt = False
        """Whether who accepts the cookies at `/` sees that the office has moved, instead of the form."""
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def booked(self) -> list[str]:
        """The ships that got a berth."""
        return [parse_qs(urlsplit(path).query)["ship"][0] for path in self.asked if path.startswith("/booked")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()


def _handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            site.asked.append(self.path)
            path = urlsplit(self.path)
            if path.path == "/slow":
                site.closing.wait()
            pages = {
                "/": (200, _FORM.format(more=_MOVED if site.is_rebuilt else _BANNER)),
                "/plain": (200, _FORM.format(more="")),
                "/broken": (500, "<html><body>The office is on fire.</body></html>"),
            }
            status, page = pages.get(path.path, (404, ""))
            if path.path == "/files":
                status, page = 200, '<html><body><a href="/berths of 2026.csv">The list of berths</a></body></html>'
            if path.path == "/booked":
                ship = parse_qs(path.query)["ship"][0]
                status, page = 200, f"<html><title>Booked</title><body><h1>Berth 7 is for {ship}.</h1></body></html>"
            if path.path.endswith(".csv"):
                status, page = 200, "berth,ship\n7,Ada\n"
            body = page.encode()
            self.send_response(status)
            if path.path.endswith(".csv"):
                self.send_header("content-disposition", 'attachment; filename="berths of 2026.csv"')
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
