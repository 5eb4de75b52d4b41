"""Runs the proxy on a thread, beside the program that uses it or until the user ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final

from ace.integrations import UsageError

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

__all__ = ["environment_for", "run_program", "serving"]

_GRACE_SECONDS: Final = 5
_KEEP_ALIVE_SECONDS: Final = 3600
"""Longer than clients keep idle connections, so that none of them uses one that is just being closed."""


@contextlib.contextmanager
def serving(make_app: Callable[[httpx.AsyncClient], ASGIApp], listening: socket.socket) -> Iterator[None]:
    """Serve while the block runs. Connections wait from the beginning, so nothing has to wait for the server.

    Args:
        make_app: Makes the application from the client that it sends requests with.
        listening: The socket.
    """
    import httpx
    import uvicorn

    # The client decides how long it waits.
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None, max_keepalive_connections=100))
    config = uvicorn.Config(
        make_app(client),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="ace-proxy-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def environment_for(address: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program whose model calls go through the proxy.

    Args:
        address: The address of the proxy.
        environ: The environment of this process.
    """
    direct = {name: ",".join(filter(None, (environ.get(name, ""), "127.0.0.1"))) for name in ("NO_PROXY", "no_proxy")}
    return {
        **environ,
        **direct,
        "OPENAI_BASE_URL": f"{address}/v1",
        "ANTHROPIC_BASE_URL": address,
        "GOOGLE_GEMINI_BASE_URL": address,
    }


def run_program(command: Sequence[str], address: str) -> int:
    """Run a program whose model calls go through the proxy, and return its exit code.

    Ctrl-C reaches the program too, which decides how it ends.

    Args:
        command: The program and its arguments.
        address: The address of the proxy.

    Raises:
        UsageError: It cannot be started.
    """
    with _signals_for_program() as forward_to:
        try:
            process = subprocess.Popen(command, env=environment_for(address, os.environ))
        except OSError as error:
            raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from error
        forward_to.append(process)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals_for_program() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Leave signals to the program: Ctrl-C reaches it from the terminal, SIGTERM is forwarded.

    Yields:
        A list for the process, once there is one.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def terminate(_number: int, _frame: FrameType | None) -> None:
        for process in processes:
            process.terminate()

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """Do nothing. With `SIG_IGN` in its place, the program would inherit that."""

    # The command line watches for a second signal, at which it would end this process before the program.
    watcher = signal.set_wakeup_fd(-1)
    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGINT, ignore), (signal.SIGTERM, terminate))
    }
    try:
        yield processes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(watcher)
