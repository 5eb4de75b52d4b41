"""Requests as bytes on a connection: lengths that contradict each other, bodies and headers without an end."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

import pytest

from ace.integrations import listening_socket
from ace_server import keys
from ace_server.database import Database
from tests.server.service_process import service_process
from tests.server.service_world import SEAL_KEY, add_book, service_on

NOWHERE = "http://127.0.0.1:9/v1"
FEEDBACK = json.dumps({"request_id": f"req_{'0' * 32}", "thumb": "up"}).encode()
SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Server(NamedTuple):
    """A service in a process of its own, as `ace server run` serves it."""

    port: int
    key: str

    def send(self, *lines: str | bytes, body: bytes = b"", path: str = "/v1/feedback") -> tuple[list[int], bytes]:
        """Send a request, and return the statuses of all responses until the server closes, and the last body."""
        head = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines)
        given = [line.encode() if isinstance(line, str) else line for line in head]
        return self.exchange(b"\r\n".join([*given, f"Authorization: Bearer {self.key}".encode(), b"", body]))

    def exchange(self, data: bytes) -> tuple[list[int], bytes]:
        received = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with suppress(ConnectionError):  # it closes without reading the rest; its response can be received anyway
                connection.sendall(data)
            with suppress(ConnectionError):
                while part := connection.recv(65_536):
                    received += part
        heads = received.split(b"HTTP/1.1 ")[1:]
        return [int(head[:3]) for head in heads], received.rpartition(b"\r\n\r\n")[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("raw")
    location = folder / "server.db"
    with closing(Database(location)) as database:
        database.migrate()
        add_book(service_on(database, folder, NOWHERE))
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["feedback"])[1]
    settings = {"feedback_wait": 0.0, "max_body_kb": 100}
    with service_process(folder, location, NOWHERE, SEAL_KEY, settings, has_worker=False) as process:
        process.start()
        yield Server(process.port, key)
        process.signal(signal.SIGTERM)
        assert process.status() == 0


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def code_of(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


def test_a_request_with_two_lengths_is_rejected_and_nothing_after_it_is_read(server: Server) -> None:
    # A proxy that goes by the other length takes the second request for a part of the first one.
    both = ("Transfer-Encoding: chunked", f"Content-Length: {len(FEEDBACK)}")
    for order in (both, both[::-1]):
        statuses, body = server.send(*order, body=chunked(FEEDBACK) + SECOND)
        assert (statuses, code_of(body)) == ([400], "invalid_request")
    for lines in (
        ("Content-Length: 5", f"Content-Length: {len(FEEDBACK)}"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        (f"Content-Length : {len(FEEDBACK)}",),
        (f"Content-Length: +{len(FEEDBACK)}",),
    ):
        statuses, _ = server.send(*lines, body=FEEDBACK + SECOND)
        assert statuses == [400], lines


def test_requests_with_one_length_are_answered_one_after_the_other(server: Server) -> None:
    for line, body in (
        ("Transfer-Encoding: chunked", chunked(FEEDBACK)),
        (f"Content-Length: {len(FEEDBACK)}", FEEDBACK),
    ):
        assert server.send(line, body=body + SECOND)[0] == [404, 200]


def test_a_large_body_is_rejected_while_it_is_read_or_before(server: Server) -> None:
    endless = [b"x" * 65_536] * 128
    for lines, body in (
        (["Transfer-Encoding: chunked"], chunked(*endless)),
        (["Content-Length: 100000000"], b"{"),
        (["Content-Length: 200000"], b"x" * 200_000),
    ):
        statuses, answer = server.send(*lines, "Connection: close", body=body)
        assert (statuses, code_of(answer)) == ([413], "too_large"), lines


def test_headers_without_an_end_are_not_read_to_the_end(server: Server) -> None:
    for lines in (["X-Long: " + "a" * 1_000_000], [f"X-{number}: a" for number in range(100_000)]):
        assert server.send(*lines)[0] in ([400], [])


@pytest.mark.parametrize(
    "body",
    [
        b'{"request_id": "\xff\xfe"}',
        b"[" * 90_000,
        b'{"comment":' * 8_000,
        b'{"score": ' + b"9" * 10_000 + b"}",
        b"\0",
        b"",
    ],
    ids=["not UTF-8", "deep array", "deep object", "long number", "NUL", "empty"],
)
def test_a_body_that_is_not_json_is_rejected(server: Server, body: bytes) -> None:
    for path in ("/v1/feedback", "/v1/traces"):
        statuses, answer = server.send(f"Content-Length: {len(body)}", "Connection: close", body=body, path=path)
        assert (statuses, code_of(answer)) == ([400], "invalid_request")


def test_a_header_with_nul_or_two_keys_is_rejected(server: Server) -> None:
    length = f"Content-Length: {len(FEEDBACK)}"
    assert server.send(length, b"X-A: a\0b", body=FEEDBACK)[0] == [400]
    statuses, _ = server.send(length, "Connection: close", "Authorization: Bearer x", body=FEEDBACK)
    assert statuses == [401]


def test_connections_do_not_wait_for_more_to_send() -> None:
    with (
        listening_socket("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_rejected_trace_is_not_received_to_its_end(server: Server) -> None:
    trace = json.dumps({"question": "Why?", "answer": "x" * 10_000_000}).encode()
    request = [f"POST /v1/traces?book=other HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"]
    head = "".join([*request, f"Content-Length: {len(trace)}\r\n\r\n"]).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head)
        status, _, headers = connection.recv(65_536).partition(b"\r\n")
        assert status.split()[1] == b"404"
        assert b"connection: close" in headers.lower()
        with pytest.raises(OSError, match=r"reset|pipe|abort"):
            connection.sendall(trace)
