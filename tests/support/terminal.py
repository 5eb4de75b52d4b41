"""A real terminal on which a command runs: what is typed reaches it as from a keyboard."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.command_line import ACE, command_environment

ON_ITS_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"  # so that what is typed becomes a signal
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal with a command that runs on it."""

    def __init__(
        self, folder: Path, *arguments: str, columns: int = 80, environ: Mapping[str, str] | None = None
    ) -> None:
        self.main, self.other = pty.openpty()
        fcntl.ioctl(self.other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.settings = termios.tcgetattr(self.other)
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, str(ACE), *arguments],
            cwd=folder,
            env={**command_environment(folder), "TERM": "xterm", **(environ or {})},
            stdin=self.other,
            stdout=self.other,
            stderr=self.other,
            start_new_session=True,
        )
        self.shown = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, what: str) -> None:
        """Type Ctrl-C, or send SIGTERM."""
        if what == "C":
            os.write(self.main, b"\x03")
        else:
            self.process.send_signal(signal.SIGTERM)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self.main, text.encode("utf-8"))

    @property
    def text(self) -> str:
        """What was shown, without colours."""
        return _CODES.sub("", self.shown.decode("utf-8", "replace")).replace("\r\n", "\n")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until a text was shown so many times; the command must not end before."""
        while self.text.count(text) < times:
            assert self.process.poll() is None, self.text
            time.sleep(0.005)

    def wait(self) -> int:
        """Wait for the command, and return its exit code."""
        code = self.process.wait()
        assert termios.tcgetattr(self.other) == self.settings
        os.close(self.other)
        self._reader.join()
        os.close(self.main)
        return code

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.main, 65536)
            except OSError:
                return  # the other end was closed
            if not data:
                return
            self.shown.extend(data)
