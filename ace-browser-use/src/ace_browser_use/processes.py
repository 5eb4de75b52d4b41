"""Ends the processes of a browser, by the folder that stands in their command lines."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any

__all__ = ["end_processes"]

_BY_THEMSELVES = 3.0
_ON_REQUEST = 3.0
_TO_BE_REAPED = 0.5
_LOOKING = 0.05


def end_processes(folder: str) -> None:
    """Wait for the processes of a browser to end, and end those that do not.

    Args:
        folder: The folder of its profile.
    """
    processes = _processes_of(folder)
    for process in _left_after(processes, _BY_THEMSELVES, _is_alive):
        _tell(process, "terminate")
    for process in _left_after(processes, _ON_REQUEST, _is_alive):
        _tell(process, "kill")
    # asyncio, which started the browser, has to see it end before its loop is closed.
    _left_after(processes, _TO_BE_REAPED, _is_unseen_child)


def _processes_of(folder: str) -> list[Any]:
    found: list[Any] = []
    for process in _psutil().process_iter(["cmdline"]):
        if any(folder in argument for argument in process.info["cmdline"] or ()):
            found.append(process)
            try:
                found += process.children(recursive=True)
            except _psutil().Error:
                continue  # it ended just now
    return list(dict.fromkeys(found))


def _left_after(processes: list[Any], seconds: float, is_left: Callable[[Any], bool]) -> list[Any]:
    """Look until none is left or the time is up."""
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
    # It comes with browser-use, and has no types.
    return importlib.import_module("psutil")
