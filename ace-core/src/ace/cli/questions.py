"""Asks the person at the terminal: yes or no, or a text from their editor."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.cli.console import is_terminal, note, result_stream
from ace.cli.errors import UsageError

__all__ = ["ask", "can_ask", "edited", "says_yes", "why_not_asked"]


def can_ask() -> bool:
    """Tell whether a question can be seen (on standard error) and answered (on standard input)."""
    return not why_not_asked()


def why_not_asked() -> str:
    """Say why a question cannot be asked; empty if it can be."""
    for name, stream in (("input", sys.stdin), ("error", sys.stderr)):
        if not stream.isatty():  # a dumb terminal will do: nothing is drawn
            return f"standard {name} is not a terminal"
    return ""


def says_yes(question: str) -> bool:
    """Ask, and tell whether the answer was yes; anything else is a no."""
    note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def edited(text: str) -> Iterator[str]:
    """Open a text in the user's editor, and yield what they saved, without the line feeds at its end.

    The block does something with the new text. If that fails, the file stays, and a line says where it is.

    Args:
        text: The text to begin with.

    Raises:
        UsageError: No editor is set, it failed, or what it saved is empty or not text.
    """
    command = _editor()
    folder = Path(tempfile.mkdtemp(prefix="ace-edit-"))  # only the user can read it
    file = folder / "skill.md"
    try:
        file.write_bytes(f"{text}\n".encode())
        _run_editor(command, file)
        saved = _saved_text(file)
    except BaseException:
        shutil.rmtree(folder)
        raise
    try:
        yield saved
    except BaseException:
        note(f"ace: your text is kept in {str(file)!r}")
        raise
    shutil.rmtree(folder)


def _editor() -> list[str]:
    """Return the editor with its arguments, as a shell would read them."""
    for variable in ("VISUAL", "EDITOR"):
        if os.environ.get(variable, "").strip():
            try:
                return shlex.split(os.environ[variable])
            except ValueError as error:
                raise UsageError(f"the variable {variable} is not a command: {str(error).lower()}") from error
    raise UsageError("no editor is set: set the variable EDITOR, or give the new text as an argument")


def _run_editor(command: list[str], file: Path) -> None:
    # Ctrl-C goes to the editor too, which decides what it means. A handler, unlike SIG_IGN, is not inherited by it.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        # What an editor draws must not end up in a pipe that takes our result.
        done = subprocess.run([*command, str(file)], stdout=None if is_terminal(result_stream()) else 2, check=False)
    except OSError as error:
        raise UsageError(
            f"the editor {command[0]!r} cannot be started ({error.strerror}), so nothing was changed"
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode:
        raise UsageError(f"the editor {command[0]!r} failed (exit code {done.returncode}), so nothing was changed")


def _saved_text(file: Path) -> str:
    try:
        text = file.read_bytes().decode("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"what the editor saved cannot be read as UTF-8 text, so nothing was changed: {error}"
        ) from error
    if not text.strip():
        raise UsageError("the text is empty, so nothing was changed")
    return text


def ask(what: str, *, assume_yes: bool) -> None:
    """Ask for confirmation, and return if the user says yes.

    Args:
        what: What will be done, as a sentence without a capital letter or a full stop.
        assume_yes: Whether `--yes` was given, so that there is no question.

    Raises:
        UsageError: The user said no, or cannot be asked.
    """
    if assume_yes:
        return
    if reason := why_not_asked():
        raise UsageError(f"{what}, but {reason}, so nothing was changed; pass --yes")
    if not says_yes(f"{what}; continue?"):
        raise UsageError("nothing was changed")
