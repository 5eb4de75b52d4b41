"""Reads single keys from the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from ace.cli.console import note
from ace.cli.signals import on_forced_exit

__all__ = ["Keyboard", "keyboard"]

END = ""
"""What `Keyboard.key` returns at the end of the input."""
_ESCAPE = b"\x1b"
_CTRL_D = b"\x04"
_MOST_BYTES = 4096
_SEQUENCE_DELAY = 0.05
"""How long the rest of an escape sequence may take after its first byte, in seconds."""


class Keyboard:
    """The keys of a terminal that is read key by key; see `keyboard`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._usual = termios.tcgetattr(descriptor)
        self._ahead = b""
        """What was read together with a line that was typed ahead: the terminal had not divided it into lines yet."""

    def key(self) -> str:
        """Wait for a key with a character, and return it in lower case; `END` at the end of the input.

        Cursor keys and other keys that send several bytes are ignored: the last byte of the sequence of a cursor key
        is a letter, which must not be taken for a decision.
        """
        while True:
            byte = self._read(1)
            if byte in (b"", _CTRL_D):
                return END
            if byte == _ESCAPE:
                self._skip_sequence()
            elif b" " <= byte < b"\x7f" or byte == b"\n":
                return byte.decode("ascii").lower()

    def line(self, question: str) -> str | None:
        """Ask for a line of text, which the terminal lets the user edit.

        Args:
            question: What is asked.

        Returns:
            The text without surrounding whitespace; None if the user typed Ctrl-D.
        """
        with self.usual():
            note(question)
            typed = self._read(_MOST_BYTES)
            while typed and b"\n" not in typed and (more := os.read(self._descriptor, _MOST_BYTES)):
                typed += more
            line, _, self._ahead = typed.partition(b"\n")
            return line.decode("utf-8", "replace").strip() if typed else None

    @contextmanager
    def usual(self) -> Iterator[None]:
        """Give the terminal its usual settings while the block runs, as an editor expects them."""
        self._set_usual()
        try:
            yield
        finally:
            self.take_keys()

    def take_keys(self) -> None:
        """Have each key reported at once, and not shown. Keys that were typed already are kept."""
        tty.setcbreak(self._descriptor, termios.TCSADRAIN)

    def _set_usual(self) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._usual)

    def _skip_sequence(self) -> None:
        introducer = self._next_byte()
        if introducer not in (b"[", b"O"):
            return
        while (byte := self._next_byte()) and not b"@" <= byte <= b"~":
            pass

    def _next_byte(self) -> bytes:
        """Return the next byte of a sequence; empty if none follows."""
        is_there = self._ahead or select.select([self._descriptor], [], [], _SEQUENCE_DELAY)[0]
        return self._read(1) if is_there else b""

    def _read(self, most: int) -> bytes:
        if not self._ahead:
            return os.read(self._descriptor, most)
        read, self._ahead = self._ahead[:most], self._ahead[most:]
        return read


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Read standard input, which is a terminal, key by key while the block runs.

    The terminal gets back its settings at the end, also if a second signal ends the process.
    """
    keys = Keyboard(sys.stdin.fileno())
    with on_forced_exit(keys._set_usual):
        keys.take_keys()
        try:
            yield keys
        finally:
            keys._set_usual()
