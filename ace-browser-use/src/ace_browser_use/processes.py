"""Ends the processes of a browser, found by the folder of its profile, even if our own process was killed.

A process that is killed has no time to close a browser: this is the case with SIGKILL, with SIGTERM unless the program
handles it, and with pressing Ctrl-C twice. So while a browser runs, a second process, the guard, waits for the end of
this one. Each profile and each folder is registered with the guard before anything is written to it, and unregistered
after it has been removed. When this process ends, the guard ends the processes and removes the folders that are still
registered.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple, final

__all__ = ["Remains", "end_processes", "guard_remains", "guarded", "remove_folder", "unguarded"]

OWN_FOLDER = "browser-use-user-data-dir-ace"
"""The folder of the profile in our folder of a run. Unless it has such a name, browser-use uses a copy of it."""

_logger = logging.getLogger(__name__)
_NAMES_FOLDER = ("--user-data-dir", "--database")
"""The options of Chromium, and of its crash handler, that name the folder of its profile."""
_BY_THEMSELVES = 3.0
_ON_REQUEST = 3.0
_TO_BE_REAPED = 0.5
_STILL_WRITING = 2.0
_LOOKING = 0.05
_LOOKING_FOR_PARENT = 1.0
_STARTING = 0.5
"""The time until a new browser process has its command line, by which it is found, in seconds."""


class Remains(NamedTuple):
    """The processes and folders that a run would leave behind if its process ended now."""

    profile: str
    """The folder of the profile of its browser."""
    folders: tuple[str, ...]
    """The folders to remove."""


def end_processes(folder: str, *, by_themselves: float = _BY_THEMSELVES) -> bool:
    """Wait for the processes of a browser to end, and end those that do not.

    Args:
        folder: The folder of the browser's profile.
        by_themselves: The time to wait before they are terminated, in seconds.

    Returns:
        Whether there were any processes.
    """
    processes = _processes_of(folder)
    for process in _left_after(processes, by_themselves, _is_alive):
        _tell(process, "terminate")
    for process in _left_after(processes, _ON_REQUEST, _is_alive):
        _tell(process, "kill")
    _left_after(processes, _ON_REQUEST, _is_alive)  # on a busy machine, a killed process takes a moment to end
    # asyncio, which started the browser, must reap it before its loop is closed.
    _left_after(processes, _TO_BE_REAPED, _is_unseen_child)
    return bool(processes)


def remove_folder(folder: Path) -> None:
    """Remove a folder that a browser wrote, and the folder of Chromium's socket.

    Helpers of Chromium that do not name their profile may write to it a little longer than the browser runs, so a
    folder that could not be removed, or is there again, is removed again, for two seconds.

    Args:
        folder: Our folder of a run, or another one, such as that of the screenshots.
    """
    for profile in (folder, folder / OWN_FOLDER):
        link = profile / "SingletonSocket"
        if link.is_symlink():
            # Chromium keeps its socket in a separate folder, which a killed browser leaves behind.
            shutil.rmtree(link.readlink().parent, ignore_errors=True)
    end = time.monotonic() + _STILL_WRITING
    while True:
        is_last = time.monotonic() > end  # before it is removed, or a slow machine would have no other attempt
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_LOOKING)  # a helper that has not ended yet may create it again
        if not folder.exists():
            return
        if is_last:
            _logger.warning("The folder of a browser cannot be removed: %s", folder)
            return


@final
class _Guard:
    """The guard of this process, which runs as long as something is registered.

    Thread-safe. The lock is held while a message is sent to the guard, so that messages arrive in order.
    """

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Unregister everything. A forked child calls this, because what is registered belongs to its parent."""
        self._lock = threading.Lock()
        self._guarded: dict[str, Remains] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, key: str, remains: Remains) -> None:
        with self._lock:
            self._guarded[key] = remains
            if self._process is None or not self._was_told({key: remains}):
                self._start()

    def remove(self, key: str) -> None:
        with self._lock:
            if self._guarded.pop(key, None) is None or self._process is None:
                return
            if self._guarded:
                self._was_told({key: None})
                return
            process, self._process = self._process, None
            _say(process, {key: None})
            process.communicate()

    def _start(self) -> None:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from ace_browser_use.processes import guard_remains; guard_remains({os.getpid()})"
        )
        try:
            # In a separate session, so that signals of a terminal or a supervisor to our group do not reach it.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _logger.warning("If this process is killed, its browser keeps running: no guard could start (%s)", error)
            return
        self._was_told(self._guarded)

    def _was_told(self, changes: dict[str, Remains] | dict[str, None]) -> bool:
        return self._process is not None and _say(self._process, changes)


_guard = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_guard.forget_all)


def guarded(key: str, remains: Remains) -> None:
    """Register processes and folders to end and remove if this process ends before `unguarded` is called.

    Args:
        key: The name of the run; an earlier registration of it is replaced.
        remains: What to end and remove.
    """
    _guard.add(key, remains)


def unguarded(key: str) -> None:
    """Unregister a run, which has cleaned up."""
    _guard.remove(key)


def _say(process: subprocess.Popen[bytes], changes: dict[str, Remains] | dict[str, None]) -> bool:
    """Send changes to a guard; return whether it received them."""
    pipe = process.stdin
    if pipe is None or process.poll() is not None:
        return False
    try:
        pipe.write(json.dumps(changes).encode() + b"\n")
        pipe.flush()
    except OSError:
        return False
    return True


def guard_remains(parent: int) -> None:
    """Wait until a process ends, then end and remove what it left behind. This is the main function of the guard.

    Args:
        parent: The id of the process, which writes its registrations to standard input.
    """
    # A supervisor may terminate all processes at the same time; this one ends as soon as its work is done.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    left: dict[str, Remains] = {}
    for changes in _told_until_end_of(parent):
        for key, remains in changes.items():
            left.pop(key, None)
            if remains is not None:
                left[key] = Remains(remains[0], tuple(remains[1]))
    for browser in left.values():
        end_processes(browser.profile, by_themselves=0)
    if left:
        time.sleep(_STARTING)
    for browser in left.values():
        while end_processes(browser.profile, by_themselves=0):
            time.sleep(_LOOKING)
        for folder in browser.folders:
            remove_folder(Path(folder))


def _told_until_end_of(parent: int) -> Iterable[dict[str, list[Any] | None]]:
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(sys.stdin.buffer, lines), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_LOOKING_FOR_PARENT)
        except queue.Empty:
            # A forked child of the parent may hold the pipe open.
            if os.name == "posix" and os.getppid() != parent:
                return
            continue
        if line is None:
            return
        if line.endswith(b"\n"):  # otherwise the parent ended while writing
            yield json.loads(line)


def _read_lines(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    for line in pipe:
        lines.put(line)
    lines.put(None)


def _processes_of(folder: str) -> list[Any]:
    found: list[Any] = []
    for process in _psutil().process_iter(["cmdline"]):
        if any(_names(folder, argument) for argument in process.info["cmdline"] or ()):
            found.append(process)
            try:
                found += process.children(recursive=True)
            except _psutil().Error:
                continue  # it has just ended
    return list(dict.fromkeys(found))


def _names(folder: str, argument: str) -> bool:
    option, _, value = argument.partition("=")
    return option in _NAMES_FOLDER and (value == folder or value.startswith(folder + os.sep))


def _left_after(processes: list[Any], seconds: float, is_left: Callable[[Any], bool]) -> list[Any]:
    """Poll until no process is left or the time is up."""
    end = time.monotonic() + seconds
    while (left := list(filter(is_left, processes))) and time.monotonic() < end:
        time.sleep(_LOOKING)
    return left


def _is_alive(process: Any) -> bool:
    try:
        return bool(process.is_running() and process.status() != _psutil().STATUS_ZOMBIE)
    except _psutil().Error:
        return False


def _is_unseen_child(process: Any) -> bool:
    try:
        return bool(process.is_running() and process.ppid() == os.getpid())
    except _psutil().Error:
        return False


def _tell(process: Any, what: str) -> None:
    try:
        getattr(process, what)()
    except _psutil().Error:
        return  # it has ended


def _psutil() -> Any:
    # It is a dependency of browser-use, and has no types.
    return importlib.import_module("psutil")
