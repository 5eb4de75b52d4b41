"""Imports the `litellm` package on the first call, because that takes seconds, and quietly."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ace.collection_pause import paused_collection

__all__ = ["load_litellm", "loaded_litellm", "quieten_logger"]

_lock = threading.Lock()
_litellm: ModuleType | None = None
_IMPORT_SETTINGS = {
    # Prices come from the file in the package: an import must not fetch one from the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise the import reads a .env file of the current folder into this process.
    "LITELLM_MODE": "PRODUCTION",
}


def load_litellm() -> ModuleType:
    """Import litellm once, without the requests, files and log messages that come with its import.

    An import of its own fetches a list of prices from the network, and reads a `.env` file of the current folder.
    A framework that imports litellm itself finds it imported after a call of this.

    Returns:
        The package `litellm`.

    Raises:
        ImportError: litellm is not installed.

    Example:
        >>> load_litellm().__name__
        'litellm'
    """
    global _litellm
    with _lock:
        if _litellm is None:
            with _import_settings(), paused_collection():  # all that it makes stays
                litellm = importlib.import_module("litellm")
            _quieten(litellm)
            _litellm = litellm
        return _litellm


def loaded_litellm() -> ModuleType | None:
    """Return litellm if `load_litellm` has imported it; else None, at once."""
    return _litellm


def _quieten(litellm: Any) -> None:
    """Silence what litellm says by itself; errors reach the caller anyway."""
    # Otherwise every failed call prints an advertisement to standard output.
    litellm.suppress_debug_info = True
    # Also keeps whole requests, with their keys, out of the logs of programs that log at DEBUG.
    if "LITELLM_LOG" not in os.environ:
        quieten_logger("LiteLLM", logging.ERROR)
    quieten_logger("openai", logging.INFO)


def quieten_logger(name: str, level: int) -> None:
    """Let a library log from a level on, unless the program has chosen one.

    Args:
        name: The name of its logger.
        level: The lowest level that is logged.
    """
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)


@contextmanager
def _import_settings() -> Iterator[None]:
    """Set what only an import can be told, and take it back; what the user has set stays."""
    added = [name for name in _IMPORT_SETTINGS if name not in os.environ]
    os.environ.update({name: _IMPORT_SETTINGS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
