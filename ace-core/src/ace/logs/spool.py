"""Keeps the traces of many runs out of memory until they are needed, independent of the logs that they came from."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["StoredTrace", "TraceSpool"]

_IN_MEMORY: Final = 32 * 1024 * 1024
"""The size in bytes up to which the traces stay in memory."""


class TraceSpool:
    """A temporary file with traces, which has no name and disappears with the process.

    Invariant: all use of the file is under the lock, because reading moves the position in the file.

    Example:
        >>> with TraceSpool() as spool:
        ...     stored = spool.add({"question": "2+2?"})
        ...     stored.load()
        {'question': '2+2?'}
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="ace-traces-")  # noqa: SIM115  # see __exit__
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the traces."""
        with self._lock:
            self._file.close()

    def add(self, trace: Mapping[str, Any]) -> StoredTrace:
        """Store a trace.

        Args:
            trace: A dict of JSON values, such as `Run.to_trace` returns.

        Raises:
            OSError: The disk is full.
        """
        data = json.dumps(trace, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
        with self._lock:
            start = self._file.seek(0, 2)
            self._file.write(data)
        return StoredTrace(self, start, len(data), hashlib.sha256(data).hexdigest())

    def read(self, start: int, length: int) -> bytes:
        """Return some bytes.

        Args:
            start: The offset of the first one.
            length: Their number.
        """
        with self._lock:
            self._file.seek(start)
            return self._file.read(length)


class StoredTrace(Mapping[str, str]):
    """A trace in a spool. Other code identifies it by its hash, the only field that it has.

    Args:
        spool: Where it is.
        start: The offset of its first byte.
        length: Its size in bytes.
        sha256: The hash of its bytes.
    """

    __slots__ = ("_length", "_sha256", "_spool", "_start")

    def __init__(self, spool: TraceSpool, start: int, length: int, sha256: str) -> None:
        self._spool = spool
        self._start = start
        self._length = length
        self._sha256 = sha256

    def __getitem__(self, name: str) -> str:
        if name != "sha256":
            raise KeyError(name)
        return self._sha256

    def __iter__(self) -> Iterator[str]:
        yield "sha256"

    def __len__(self) -> int:
        return 1

    def load(self) -> dict[str, Any]:
        """Return the trace."""
        data = self._spool.read(self._start, self._length)
        trace: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        return trace
