"""Models that do not answer some requests, or none."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any, Self

from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

__all__ = ["HangingModel", "SilentModel"]


class HangingModel:
    """A scripted model that does not answer a request with the word HANG until the test ends."""

    def __init__(self) -> None:
        self._answered = learning_script()
        self._over = threading.Event()
        self.asked = threading.Event()
        self.server = ScriptedServer(self._script)

    def _script(self, request: ScriptedRequest) -> Any:
        if "HANG" in request.text:
            self.asked.set()
            self._over.wait()
        return self._answered(request)

    def let_go(self) -> None:
        self._over.set()


class SilentModel:
    """A model that reads one request, does not answer it, and waits until its client closes the connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.asked = threading.Event()
        self.abandoned = threading.Event()

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the end of the test closes the socket
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(1)
                self.asked.set()
                while connection.recv(65536):
                    pass
        self.abandoned.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # it is not connected
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
