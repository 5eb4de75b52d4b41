"""How direct requests use connections: kept, not shared, not left open, through a proxy, and ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ace.providers import direct_requests
from ace.providers.request_outcomes import Answered, Failed
from tests.support.subprocesses import run_python

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}
BODY = json.dumps({"model": "m", "choices": [CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()


class Server(ThreadingHTTPServer):
    """Answers every request alike and keeps connections open, as model servers do."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.ports: list[int] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.pause = 0.0
        """The time before the headers of a reply, and before its body, in seconds."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.ports.append(self.client_address[1])
        self.server.paths.append(self.path)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        body = gzip.compress(BODY)
        time.sleep(self.server.pause)
        self.send_response(200)
        self.send_header("Set-Cookie", "session=1; Path=/")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        time.sleep(self.server.pause)
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield server
        finally:
            server.shutdown()


def asked(api_base: str, timeout: float = 60.0) -> dict[str, Any]:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    return {"model": "openai/m", "messages": messages, "api_base": api_base, "api_key": "sk-1", "timeout": timeout}


def answer(api_base: str) -> str:
    outcome = direct_requests.send(asked(api_base))
    assert isinstance(outcome, Answered)
    return outcome.response.text


def async_answer(api_base: str) -> str:
    outcome = asyncio.run(direct_requests.asend(asked(api_base)))
    assert isinstance(outcome, Answered)
    return outcome.response.text


def test_a_connection_is_used_again(server: Server) -> None:
    assert {answer(server.url) for _ in range(5)} == {"Paris"}
    assert len(server.ports) == 5
    assert len(set(server.ports)) == 1


def test_event_loops_share_no_connection(server: Server) -> None:
    assert {async_answer(server.url) for _ in range(3)} == {"Paris"}
    assert len(set(server.ports)) == 3


def test_cookies_are_not_kept(server: Server) -> None:
    for ask in (answer, async_answer):
        ask(server.url)
        ask(server.url)
    assert not any("cookie" in headers for headers in server.headers)


PREAMBLE = """
import os, threading, warnings
from ace.providers import direct_requests

request = {"model": "openai/m", "messages": [{"role": "user", "content": "x"}], "api_base": URL, "api_key": "sk-1"}
request["timeout"] = 60.0
warnings.simplefilter("always", ResourceWarning)
"""


def run(program: str, server: Server) -> str:
    done = run_python(PREAMBLE.replace("URL", repr(server.url)) + program)
    assert "ResourceWarning" not in done.stderr
    return done.stdout


def test_a_forked_process_does_not_use_the_connections_of_its_parent(server: Server) -> None:
    program = """
direct_requests.send(request)
child = os.fork()
if not child:
    direct_requests.send(request)
    os._exit(0)
os.waitpid(child, 0)
direct_requests.send(request)
print("answered")
"""
    assert run(program, server) == "answered\n"
    first, of_child, second = server.ports
    assert first == second != of_child


def test_connections_are_closed_at_the_end_of_the_process(server: Server) -> None:
    program = """
threads = [threading.Thread(target=direct_requests.send, args=(request,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    assert run(program, server) == ""
    assert len(server.ports) == 8


def test_ctrl_c_ends_a_waiting_request_and_its_connection() -> None:
    program = """
import faulthandler, signal, socket, threading
from ace.providers import direct_requests

listener = socket.create_server(("127.0.0.1", 0))
request = {"model": "openai/m", "messages": [{"role": "user", "content": "x"}], "api_key": "sk-1", "timeout": 600.0}
request["api_base"] = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
signal.signal(signal.SIGINT, signal.default_int_handler)
faulthandler.dump_traceback_later(60, exit=True)  # otherwise, the request is waited for

def serve():
    connection, _ = listener.accept()
    connection.recv(65_536)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    while connection.recv(65_536):
        pass
    print("closed")

server = threading.Thread(target=serve)
server.start()
try:
    direct_requests.send(request)
except KeyboardInterrupt:
    server.join()
    print("interrupted")
"""
    assert run_python(program).stdout == "closed\ninterrupted\n"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("ask", [answer, async_answer])
def test_a_proxy_of_the_environment_is_used(
    ask: Any, name: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, server.url.removesuffix("/v1"))
    assert ask("http://models.example:8080/v1") == "Paris"
    assert server.paths == ["http://models.example:8080/v1/chat/completions"]
    monkeypatch.setenv("NO_PROXY", "example.com, 127.0.0.1")
    assert ask(server.url) == "Paris"
    assert server.paths[1:] == ["/v1/chat/completions"]


@pytest.mark.parametrize("send", [direct_requests.send, lambda asked: asyncio.run(direct_requests.asend(asked))])
def test_the_timeout_bounds_all_phases_together(send: Any, server: Server) -> None:
    answer(server.url)
    server.pause = 0.6
    outcome = send(asked(server.url, timeout=1.0))
    assert isinstance(outcome, Failed)
    assert outcome.status_code == 408
