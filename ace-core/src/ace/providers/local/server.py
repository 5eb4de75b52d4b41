"""One server for each model in this process, shared by all clients and closed when the process exits.

`start_server` and `check_runtime` are the only code that uses the package `xllamacpp`, which contains the server of
llama.cpp.
"""

from __future__ import annotations

import atexit
import ctypes
import http.client
import importlib
import importlib.util
import io
import json
import os
import secrets
import socket
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from ace.pipeline.threads import Event
from ace.protocols.errors import ContextLimitError, LLMCallError
from ace.protocols.llm import LLMResponse, Usage
from ace.providers.local.errors import LocalModelError, RuntimeMissingError

__all__ = [
    "LocalServer",
    "NativeServer",
    "Reply",
    "ServerSettings",
    "answer_in",
    "check_runtime",
    "close_servers",
    "refusal_in",
    "shared_server",
    "start_server",
]

_OPENMP_LIBRARY = "libgomp.so.1"
_WAIT_WITHOUT_SPINNING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Otherwise, waiting threads occupy their cores, and generation becomes very slow as soon as anything else runs."""
_PROMPT_CACHE_MEBIBYTES = 512
_LOG_NOTHING = 0
_LONGEST_START = 900.0
"""The time within which a model must be loaded, in seconds; gigabytes from a slow disk take minutes."""


class NativeServer(Protocol):
    """A running server of the runtime. It stops when it is garbage-collected."""

    @property
    def listening_address(self) -> str:
        """The address, such as `http://127.0.0.1:40000`."""
        ...


def check_runtime() -> None:
    """Make sure that models can run here, without loading anything large.

    Raises:
        RuntimeMissingError: The package or a system library is missing. The message says what to install.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise RuntimeMissingError(
            "local models require the package 'xllamacpp'; install it with: pip install 'ace-core[local]'"
        )
    if sys.platform == "linux" and not _is_loadable(_OPENMP_LIBRARY):
        raise RuntimeMissingError(
            f"local models require the library {_OPENMP_LIBRARY}, which this system lacks; install it with "
            "your system's package manager (Debian and Ubuntu: apt-get install libgomp1; Fedora: dnf install libgomp; "
            "Alpine: apk add libgomp)"
        )


def start_server(
    path: Path, *, slots: int, context_tokens: int, threads: int, repeatable: bool, key: str
) -> NativeServer:
    """Load a model and serve it on a free port of the loopback interface.

    Args:
        path: The GGUF file.
        slots: The number of requests that are answered concurrently.
        context_tokens: The maximum size of a request and its answer, in tokens.
        threads: The number of threads that compute.
        repeatable: Whether to compute every prompt from scratch, so that equal requests get equal answers.
        key: The key that a request must contain.

    Raises:
        RuntimeMissingError: The runtime is not installed.
        LocalModelError: The file cannot be loaded.
    """
    check_runtime()

    def load() -> NativeServer:
        with _environment(_WAIT_WITHOUT_SPINNING):
            runtime: Any = importlib.import_module("xllamacpp")
        params = runtime.CommonParams()
        params.model.path = str(path)
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [key]
        params.ui = False
        params.endpoint_slots = True
        params.verbosity = _LOG_NOTHING
        params.n_parallel = slots
        params.n_ctx = context_tokens * slots
        params.cache_prompt = not repeatable
        params.cache_ram_mib = 0 if repeatable else _PROMPT_CACHE_MEBIBYTES
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        return _running(runtime.Server(params), key)

    return _loaded(load, path)


def _running(server: NativeServer, key: str) -> NativeServer:
    """Return the server once the thread that serves its requests is running.

    The runtime ignores a request to stop that arrives earlier; the code that stops the server would then wait
    indefinitely.
    """
    address = urlsplit(server.listening_address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_LONGEST_START)
    try:
        # This request is answered by that thread; a health check would be answered by the HTTP server.
        connection.request("GET", "/slots", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        if response.status != _OK:
            raise LocalModelError(f"the server of the model does not serve requests: it answered {response.read()!r}")
    finally:
        connection.close()
    return server


def _loaded(load: Callable[[], NativeServer], path: Path) -> NativeServer:
    """Load a model in a separate thread, and wait for it.

    On the main thread, a signal handler could raise while the runtime is imported, which crashes a module that it
    imports (orjson), or inside the constructor of the runtime, which would then wait indefinitely for a server that it
    has not told to stop. Here, it raises while this function waits.
    """
    outcome: Future[NativeServer] = Future()
    # A thread that is interrupted while it starts another one, or waits for a future, may keep a lock that the other
    # one needs. Neither of these does.
    ended = Event()
    has_begun = is_given_up = False

    def run() -> None:
        nonlocal has_begun
        has_begun = True
        try:
            if not is_given_up:
                outcome.set_result(load())
        except BaseException as error:  # raised by the code that waits for the server
            outcome.set_exception(error)
        finally:
            ended.set()

    try:
        start_new_thread(run, ())
        ended.wait_for(_LONGEST_START)
    except KeyboardInterrupt:
        is_given_up = True
        if has_begun:  # native code cannot be stopped, and must not run while the process ends; a second signal may
            ended.wait()
        raise
    try:
        return outcome.result(timeout=0)
    except RuntimeError as error:
        raise LocalModelError(
            f"the model file {str(path)!r} cannot be loaded; it is incomplete, not a GGUF file, or "
            "too large for the memory",
            model=str(path),
        ) from error
    except TimeoutError as error:
        raise LocalModelError(
            f"the model file {str(path)!r} was not loaded within {_LONGEST_START:g} s; choose a smaller model",
            model=str(path),
        ) from error


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set the variables that the runtime reads when it is loaded, unless the user has set them."""
    added = [name for name in settings if name not in os.environ]
    os.environ.update({name: settings[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _is_loadable(library: str) -> bool:
    try:
        # The library reads the settings only once, when it is first loaded.
        with _environment(_WAIT_WITHOUT_SPINNING):
            ctypes.CDLL(library)
    except OSError:
        return False
    return True


_OK = 200
_UNREADABLE_ANSWER = 500
_TOO_LONG = "exceed_context_size_error"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the server."""

    status: int
    """The HTTP status."""
    body: Mapping[str, Any]
    """The JSON object."""

    @property
    def is_answer(self) -> bool:
        """Whether the model has answered."""
        return self.status == _OK

    @property
    def is_unreadable(self) -> bool:
        """Whether the server could not parse an answer that it had constrained itself."""
        return self.status == _UNREADABLE_ANSWER


def answer_in(reply: Reply) -> LLMResponse:
    """Return the answer of the model.

    Args:
        reply: A reply that is an answer.
    """
    choice = reply.body["choices"][0]
    counted = reply.body["usage"]
    details = counted.get("prompt_tokens_details") or {}
    return LLMResponse(
        text=choice["message"].get("content") or "",
        raw=reply.body,
        usage=Usage(
            calls=1,
            input_tokens=counted["prompt_tokens"],
            output_tokens=counted["completion_tokens"],
            cached_input_tokens=int(details.get("cached_tokens", 0)),
        ),
        finish_reason=choice["finish_reason"],
    )


def refusal_in(reply: Reply, model: str) -> LLMCallError:
    """Return the error for a reply that is not an answer; if known, it says what to do.

    Args:
        model: The model, as the user named it.
    """
    error = reply.body.get("error", {})
    if error.get("type") == _TOO_LONG:
        reason = (
            f"the prompt has {error['n_prompt_tokens']} tokens, but prompt and answer together may have "
            f"{error['n_ctx']}; shorten the prompt, or raise context_tokens"
        )
        return ContextLimitError(f"local model {model!r}: {reason}", model=model, status_code=reply.status)
    reason = str(error.get("message", reply.body))
    return LLMCallError(f"local model {model!r}: {reason}", model=model, status_code=reply.status)


_PIECE = 65_536
"""The number of bytes to read at once."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server. Clients with equal settings share one."""

    path: Path
    """The GGUF file."""
    slots: int
    """The number of requests that are answered concurrently."""
    context_tokens: int
    """The maximum size of a request and its answer, in tokens."""
    threads: int
    """The number of threads that compute."""
    repeatable: bool
    """Whether equal requests get equal answers."""


class LocalServer:
    """A model that is loaded in this process.

    Requests go over a loopback port, so that Ctrl-C and a timeout can interrupt one; the port requires a key that only
    this process knows.

    Args:
        settings: The settings of the server.

    Raises:
        LocalModelError: The model cannot be loaded, or the runtime is missing.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._key = secrets.token_hex(16)
        self._native: NativeServer | None = start_server(
            settings.path,
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            threads=settings.threads,
            repeatable=settings.repeatable,
            key=self._key,
        )
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        """The connections of open requests. The lock protects them and the end of the server."""
        self._address = urlsplit(self._native.listening_address)
        self._host, self._port = self._address.hostname or "", self._address.port or 0

    def post(self, path: str, request: Mapping[str, Any], timeout: float) -> Reply:
        """Send one request.

        Args:
            path: Such as `/v1/chat/completions`.
            request: The JSON object.
            timeout: The time limit for the whole answer, in seconds.

        Raises:
            OSError: The answer was not complete; a `TimeoutError` after the time limit.
        """
        deadline = time.monotonic() + timeout
        received = bytearray()
        with (
            socket.create_connection((self._host, self._port), timeout) as connection,
            self._ended_with_server(connection),
        ):
            connection.sendall(self._head_and_body(path, request))
            # The timeout of a socket applies to each piece of data, not to the whole answer.
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                piece = connection.recv(_PIECE)
                if not piece:
                    return self._reply_in(received)
                received += piece
        raise TimeoutError(f"the answer was not complete within {timeout:g} s")

    async def apost(self, path: str, request: Mapping[str, Any], timeout: float) -> Reply:  # noqa: ASYNC109  # twin of `post`
        """Send one request from asynchronous code; otherwise like `post`.

        Args:
            path: Such as `/v1/chat/completions`.
            request: The JSON object.
            timeout: The time limit for the whole answer, in seconds.

        Raises:
            OSError: The answer was not complete; a `TimeoutError` after the time limit.
        """
        import asyncio

        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(self._host, self._port)
            try:
                with self._ended_with_server(writer.get_extra_info("socket")):
                    writer.write(self._head_and_body(path, request))
                    await writer.drain()
                    return self._reply_in(await reader.read())
            finally:
                # The server stops computing an answer when the connection is closed.
                writer.close()

    def _head_and_body(self, path: str, request: Mapping[str, Any]) -> bytes:
        body = json.dumps(request).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body

    def close(self) -> None:
        """Stop the server and free its memory. Open requests raise a `ConnectionError`."""
        with self._lock:
            native, self._native = self._native, None
            # The runtime waits for open requests before it stops, but no longer computes their answers.
            for connection in self._connections:
                with suppress(OSError):  # the other side has closed it
                    connection.shutdown(socket.SHUT_RDWR)
        del native

    @contextmanager
    def _ended_with_server(self, connection: _Connection) -> Iterator[None]:
        with self._lock:
            self._refuse_if_closed()
            self._connections.add(connection)
        try:
            yield
        except OSError:
            self._refuse_if_closed()
            raise
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _reply_in(self, received: bytes | bytearray) -> Reply:
        self._refuse_if_closed()
        return _reply_in(received)

    def _refuse_if_closed(self) -> None:
        if self._native is None:
            raise ConnectionError("the model has been closed")


class _Connection(Protocol):
    """The one method used of a socket, which event loops wrap."""

    def shutdown(self, how: int, /) -> None: ...


class _Received:
    """Received bytes as a socket, from which the standard library can read a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *args: object, **kwargs: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _reply_in(received: bytes | bytearray) -> Reply:
    """Read a whole HTTP response."""
    # Of a socket, this class only uses the method `makefile`.
    response = http.client.HTTPResponse(cast("socket.socket", _Received(bytes(received))))
    try:
        response.begin()
        return Reply(response.status, _object_in(response.read()))
    except http.client.HTTPException as error:
        raise ConnectionError(f"its answer was truncated ({error!r})") from error


def _object_in(body: bytes) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(body)
    except ValueError as error:
        raise ConnectionError(f"it did not send a JSON object, but {body[:60]!r}") from error
    return found


_lock = threading.Lock()
_servers: dict[tuple[int, ServerSettings], LocalServer] = {}


def shared_server(settings: ServerSettings) -> LocalServer:
    """Return the server of these settings; the first call loads the model.

    Args:
        settings: The settings of the server.
    """
    # A forked child inherits this dictionary, but not the threads of its parent's servers.
    key = (os.getpid(), settings)
    with _lock:
        if key not in _servers:
            _servers[key] = LocalServer(settings)
        return _servers[key]


def close_servers() -> None:
    """Stop all servers of this process and free their memory. A client that is used again starts its own."""
    with _lock:
        for (process, _), server in list(_servers.items()):
            if process == os.getpid():
                server.close()
        _servers.clear()


atexit.register(close_servers)
