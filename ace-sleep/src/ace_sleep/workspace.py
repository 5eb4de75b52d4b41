"""The folder of ACE for what it learns at night, and the temporary folders in it, which do not outlive a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

__all__ = ["Workspace", "state_folder"]

_LOCK: Final = ".lock"


def state_folder() -> Path:
    """Return the folder with everything that `ace sleep` remembers: `ace/sleep` among the user's state."""
    named = os.environ.get("XDG_STATE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return base / "ace" / "sleep"


class Workspace:
    """A temporary folder. What a killed process left is removed when the next one begins.

    Args:
        base: The folder that contains the temporary ones.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._handle: int | None = None
        self.folder = base

    def __enter__(self) -> Workspace:
        self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self._base / _LOCK):  # so that no folder is seen before it is locked
            _remove_leftovers(self._base)
            self.folder = Path(tempfile.mkdtemp(dir=self._base))
            self._handle = os.open(self._lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._handle is not None
        remove_tree(self.folder)
        self._lock_file.unlink()
        os.close(self._handle)

    @property
    def _lock_file(self) -> Path:
        return self.folder.with_name(self.folder.name + _LOCK)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_leftovers(base: Path) -> None:
    """Remove the folders whose process is gone; one that was killed before it had a lock has none."""
    for folder in [entry for entry in base.iterdir() if entry.is_dir() and not entry.is_symlink()]:
        lock = folder.with_name(folder.name + _LOCK)
        handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            remove_tree(folder)
            lock.unlink()
        finally:
            os.close(handle)


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it, also what a command made unreadable. Links are not followed.

    Args:
        folder: What to remove.
    """

    def allow(function: Callable[..., Any], path: str, error: Any) -> None:
        parent = os.path.dirname(path)
        for name in (parent, path):
            if not stat.S_ISLNK(os.lstat(name).st_mode) and os.path.isdir(name):
                os.chmod(name, 0o700)
        function(path) if function is not os.open else shutil.rmtree(path, onerror=allow)

    shutil.rmtree(folder, onerror=allow)
