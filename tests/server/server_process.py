"""`ace server run` in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from tests.support.command_line import ACE, command_environment

Found = TypeVar("Found")

FAST = {
    "ACE_SERVER_BATCH_SIZE": "1",
    "ACE_SERVER_SCHEDULE_SECONDS": "0.2",
    "ACE_SERVER_HEARTBEAT_SECONDS": "0.5",
    "ACE_SERVER_RETRY_SECONDS": "0.1",
}
"""Settings with which a test does not wait."""

_MOST_LOOKS = 4_000


class ServerProcess:
    """A service that runs while the block does.

    Args:
        folder: The folder in which it is started.
        api_base: The address of its model.
        *arguments: Further arguments of `ace server run`.
        environ: Further variables.
    """

    def __init__(self, folder: Path, api_base: str, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._errors = folder / "stderr.txt"
        model = ["--model", "openai/scripted", "--api-base", api_base]
        self._command = [str(ACE), "server", "run", "--port", "0", *model, *arguments]
        self._environ = command_environment(folder, {"OPENAI_API_KEY": "none", **FAST, **(environ or {})})
        del self._environ["SOURCE_DATE_EPOCH"]

    def __enter__(self) -> Self:
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                self._command, cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL, stderr=errors
            )
        self.address = wait_for(self._address)
        key = (self.folder / "ace-server" / "admin.key").read_text(encoding="ascii").strip()
        self.client = httpx2.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        """What it has written to standard error."""
        return self._errors.read_text(encoding="utf-8")

    def get(self, path: str) -> Any:
        """Return what a GET request is answered with."""
        response = self.client.get(path)
        assert response.is_success, response.text
        return response.json()

    def post(self, path: str, body: object = None) -> Any:
        """Return what a POST request is answered with."""
        response = self.client.post(path, json=body)
        assert response.is_success, response.text
        return response.json()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        wait_for(lambda: self.process.poll() is not None)
        return self.process.returncode

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.said
        found = re.search(r"serving .* at (http://\S+)", self.said)
        return found[1] if found and "(works once)" in self.said else None


def wait_for(look: Callable[[], Found | None]) -> Found:
    """Return what a function finds, as soon as it finds something. It fails after thousands of looks."""
    for _ in range(_MOST_LOOKS):
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("what is waited for does not happen")
