"""Runs the service in this process until a signal ends it.

The first SIGTERM or Ctrl-C stops accepting requests, lets those in flight finish, and stops the worker at the end of
its samples; their batches stay queued. The second one ends the process at once.
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, final

from ace.integrations import DONE, UsageError, is_loopback, note

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from ace_server.service import RunningWorker, Service

__all__ = ["check_address", "log_to_file", "serve", "work_until_stopped"]

_logger = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 30
_NEW_OBJECTS: Final = 2_000
_LOG_BYTES: Final = 10_000_000
_LOG_FILES: Final = 4


def log_to_file(folder: Path, name: str) -> None:
    """Write the log of this process to a file in a folder, with at most five files of 10 MB.

    Args:
        name: The name of the file without its suffix.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{name}.log"
    path.touch(mode=0o600)
    handler = _PrivateFiles(path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for chatty in ("httpx", "httpcore", "LiteLLM", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


@final
class _PrivateFiles(RotatingFileHandler):
    """A log that only its owner can read, also after it was rotated."""

    def doRollover(self) -> None:  # noqa: N802  # the name of the library
        super().doRollover()
        Path(self.baseFilename).chmod(0o600)


def check_address(host: str, *, is_protected: bool) -> None:
    """Check that keys are not sent in the clear over a network.

    Args:
        host: The address to listen on.
        is_protected: Whether TLS is used, here or by a proxy in front.

    Raises:
        UsageError: They would be.
    """
    if not is_loopback(host) and not is_protected:
        raise UsageError(
            f"--host {host}: keys would be sent over the network without encryption; give --tls-cert and --tls-key, or "
            "--behind-proxy if a proxy in front does TLS"
        )


def serve(
    app: ASGIApp,
    listening: socket.socket,
    *,
    service: Service,
    start_worker: Callable[[], RunningWorker] | None,
    on_ready: Callable[[], None],
    certificate: Path | None = None,
    certificate_key: Path | None = None,
) -> int:
    """Serve until a signal ends it.

    Args:
        listening: The socket.
        start_worker: Starts the worker; None runs none. It is called in a thread once requests are answered, because it
            takes seconds.
        on_ready: Called once requests are answered.
        certificate: The certificate for TLS.
        certificate_key: Its key.

    Returns:
        The exit code.
    """
    import uvicorn

    from ace_server.connections import TimedProtocol

    _collect_often()
    config = uvicorn.Config(
        app,
        http=TimedProtocol,  # on h11, which limits the size of headers, not on whatever is installed
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        proxy_headers=False,  # the app does it, see `ace_server.proxy`
        ssl_certfile=certificate,
        ssl_keyfile=certificate_key,
    )
    worker = _WorkerThread(start_worker)

    def ready() -> None:
        on_ready()
        worker.start()

    server = _server(config, ready)

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
        server.should_exit = True
        worker.ask_to_stop()

    with _at_signals(stop):
        server.run(sockets=[listening])
        worker.ask_to_stop()
        worker.join()
    if not server.started:
        raise UsageError("the service could not be started; the log says why")
    if worker.failure is not None:
        raise worker.failure
    return DONE


def work_until_stopped(start_worker: Callable[[], RunningWorker]) -> int:
    """Run a worker until a signal ends it.

    Args:
        start_worker: Starts the worker.

    Returns:
        The exit code.
    """
    request = _StopRequest()
    with _at_signals(request.make):
        worker = start_worker()
        _collect_often()
        note("ace: the worker is running")
        request.wait()
        worker.stop()
    return DONE


def _collect_often() -> None:
    """Let the garbage collector run as often as a process needs that does not end.

    The command line lets it run rarely, which suits short commands. Here, releases and batches that are unused
    would stay for minutes, and memory that was in use once is not returned. What was imported until now is never
    garbage: without it, a full collection takes a tenth of the time, in which no request is answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 10, 10)


@final
class _StopRequest:
    """Something that a thread waits for, and that a signal handler may do at any moment, also on that thread.

    With `threading.Event`, a handler that interrupts `wait` or `set` would wait for a lock that its own thread holds.
    """

    def __init__(self) -> None:
        self._requests: SimpleQueue[None] = SimpleQueue()

    def make(self) -> None:
        self._requests.put(None)

    def wait(self) -> None:
        while True:
            with suppress(Empty):
                self._requests.get(timeout=3600)  # a wait without an end would not see the signal on every platform
                return


@final
class _WorkerThread:
    """Starts and stops the worker beside the server."""

    def __init__(self, start: Callable[[], RunningWorker] | None) -> None:
        self._start = start
        self._request = _StopRequest()
        self._thread = threading.Thread(target=self._work, name="ace-server-worker-start", daemon=True)
        self.failure: Exception | None = None

    def start(self) -> None:
        if self._start is not None:
            self._thread.start()

    def ask_to_stop(self) -> None:
        self._request.make()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        assert self._start is not None
        try:
            worker = self._start()
        except Exception as error:
            self.failure = error
            _logger.error("the worker could not be started: %s", type(error).__name__)
            note(f"ace: the worker could not be started: {error}")
            return
        self._request.wait()
        worker.stop()


def _server(config: uvicorn.Config, ready: Callable[[], None]) -> uvicorn.Server:
    """Return a server that leaves signals alone, and says when it is ready."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    return Server(config)


@contextmanager
def _at_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at SIGTERM and Ctrl-C while the block runs."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {signum: signal.signal(signum, handle) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
