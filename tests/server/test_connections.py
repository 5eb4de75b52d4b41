"""Connections on which nothing comes end, and do not keep others out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from ace.integrations import listening_socket
from ace_server.connections import TimedProtocol

UNFINISHED = {
    "nothing": b"",
    "half a header": b"POST /x HTTP/1.1\r\nHost: a\r\nX-A: ",
    "half a body": b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc",
    "half a chunk": b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc",
    "a second request": b"GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTT",
}


class Impatient(TimedProtocol):
    silent_seconds = 0.2
    interval = 0.05


class Drip(TimedProtocol):
    silent_seconds = 60.0
    request_seconds = 0.3
    interval = 0.05


class Crowded(TimedProtocol):
    most = 10


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, and says how long it is."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def served(protocol: type[TimedProtocol]) -> Iterator[tuple[str, int]]:
    listening = listening_socket("127.0.0.1", 0)
    config = uvicorn.Config(app, http=protocol, ws="none", log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()


def ended(connection: socket.socket) -> bool:
    """Read until the server closes the connection."""
    connection.settimeout(60)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def drip(connection: socket.socket) -> None:
    """Send another header again and again, until the server ends the connection."""
    while True:
        connection.sendall(b"X-A: b\r\n")
        threading.Event().wait(0.02)


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_a_request_that_does_not_go_on_ends(sent: bytes) -> None:
    with served(Impatient) as address, socket.create_connection(address) as connection:
        connection.sendall(sent)
        assert ended(connection)


def test_a_request_that_drips_ends() -> None:
    with served(Drip) as address, socket.create_connection(address) as connection:
        connection.sendall(b"POST /x HTTP/1.1\r\nHost: a\r\n")
        with pytest.raises(OSError, match=r"reset|pipe|abort"):
            drip(connection)


def test_many_unfinished_requests_do_not_keep_others_out() -> None:
    with served(Crowded) as address, ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(socket.create_connection(address))
            connection.sendall(UNFINISHED["half a body"])
        for _ in range(20):
            assert httpx.get(f"http://127.0.0.1:{address[1]}/").text == "ok"


def test_requests_that_arrive_are_answered_on_one_connection() -> None:
    with served(Impatient) as address, httpx.Client(base_url=f"http://127.0.0.1:{address[1]}") as client:
        for size in (0, 10, 1_000_000):
            assert client.post("/", content=b"x" * size).text == "ok"
