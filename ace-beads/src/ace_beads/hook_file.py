r"""Our section in the file `on_close`, which `bd` runs after it has closed an issue.

The section is below the first line, so that a script which ends early does not skip it, reads nothing from standard
input, so that the rest of the script finds the issue there, and is not waited for. All other bytes are kept, also when
the section is removed.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import Final

from ace.integrations import folder_lock, write_durably

__all__ = ["NOT_INSTALLED", "HookFileError", "install_section", "remove_section", "section_problem"]

NOT_INSTALLED: Final = "not installed"
"""What `section_problem` returns where there is no section."""
_BEGIN: Final = b"# ace beads begin (written by ace; changes inside are overwritten)\n"
_END: Final = b"# ace beads end"
_OWN_FILE: Final = b"# This file was created by ace, and is deleted with this section.\n"
_SECTION: Final = re.compile(rb"^# ace beads begin\b[^\n]*\n(?:.*\n)*?# ace beads end[^\n]*(?:\n|\Z)", re.MULTILINE)
_FIRST_LINE: Final = b"#!/bin/sh\n"
_SHELL: Final = re.compile(rb"#![^\n]*[/ \t](?:ba|da|k|mk|z|a)?sh(?:[ \t][^\n]*)?\r?(?:\n|\Z)")


class HookFileError(Exception):
    """Our section cannot be added to the file of the hook."""


def install_section(path: Path) -> None:
    """Write our section into the file, which is created if it does not exist.

    Args:
        path: The file.

    Raises:
        HookFileError: It is not a shell script, or not executable.
        OSError: It cannot be read or written.
    """
    with folder_lock(path):
        if not path.exists():
            write_durably(path, _FIRST_LINE + _section(is_own_file=True))
            path.chmod(0o755)
            return
        original = path.read_bytes()
        found = _SECTION.search(original)
        if found is not None:
            section = _section(is_own_file=_OWN_FILE in found[0])
            if not found[0].endswith(b"\n"):
                section = section[:-1]
            changed = original[: found.start()] + section + original[found.end() :]
        else:
            changed = _with_section(path, original)
        if changed != original:
            write_durably(path, changed)


def remove_section(path: Path) -> bool:
    """Remove our section from the file, and the file if it was created for it.

    Args:
        path: The file.

    Returns:
        Whether there was a section.

    Raises:
        OSError: The file cannot be read or written.
    """
    if not path.exists():
        return False
    with folder_lock(path):
        original = path.read_bytes()
        found = _SECTION.search(original)
        if found is None:
            return False
        start = found.start()
        if not found[0].endswith(b"\n"):
            start -= 1  # the line feed after a first line that had none
        rest = original[:start] + original[found.end() :]
        if _OWN_FILE in found[0] and rest == _FIRST_LINE:
            path.unlink()
        else:
            write_durably(path, rest)
    return True


def section_problem(path: Path) -> str | None:
    """Return why the hook does not work, or None; `NOT_INSTALLED` without a section.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        original = path.read_bytes()
    except FileNotFoundError:
        return NOT_INSTALLED
    found = _SECTION.search(original)
    if found is None:
        return NOT_INSTALLED
    if not _is_executable(path):
        return f"{path} is not executable, so bd does not call it; run: chmod +x {shlex.quote(str(path))}"
    if found[0].rstrip(b"\n") != _section(is_own_file=_OWN_FILE in found[0]).rstrip(b"\n"):
        return f"{path} was written by another installation of ACE; run 'ace beads install' again"
    return None


def _with_section(path: Path, original: bytes) -> bytes:
    first = _SHELL.match(original)
    if first is None:
        begin = original.split(b"\n", 1)[0].decode("utf-8", "replace")[:80]
        raise HookFileError(
            f"{path} is not a shell script (it begins with {begin!r}); call 'ace beads hook close ID' from it yourself"
        )
    if not _is_executable(path):
        raise HookFileError(
            f"{path} is not executable, so bd does not call it; make it executable or move it away, then install again"
        )
    section = _section(is_own_file=False)
    if not first[0].endswith(b"\n"):
        return original + b"\n" + section[:-1]
    return original[: first.end()] + section + original[first.end() :]


def _section(*, is_own_file: bool) -> bytes:
    """Return the section. It uses this installation where it exists, and else `ace` on PATH, since scripts are shared.

    `$0` is the file itself, so the project may be moved.
    """
    own = shlex.quote(str(Path(sys.executable).with_name("ace")))
    return (
        _BEGIN
        + (_OWN_FILE if is_own_file else b"")
        + os.fsencode(
            f'(ace={own}; [ -x "$ace" ] || ace=ace\n'
            ' "$ace" beads hook close "$1" --project "${0%/*}/../..") </dev/null >/dev/null 2>&1 &\n'
        )
        + _END
        + b"\n"
    )


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))
