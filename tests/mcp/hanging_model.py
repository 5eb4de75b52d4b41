"""A scripted model that does not answer some requests."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

__all__ = ["HangingModel"]


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
