"""Stored histories: recognises them, and reads their files. Works without the framework."""

from __future__ import annotations

import json
from pathlib import Path

from ace_browser_use.history import is_history
from ace_browser_use.result import BrowserResult

__all__ = ["load_history", "recognise"]


def recognise(record: object) -> float:
    """Return the probability that an object, or the beginning of a file, is a record of browser-use, from 0 to 1.

    Args:
        record: Any object; for a file, its first characters or bytes.

    Example:
        >>> recognise(b'{"history": [{"model_output": null, "result": []'), recognise({"question": "2+2?"})
        (0.9, 0.0)
    """
    if isinstance(record, BrowserResult):
        return 1.0
    if isinstance(record, str):
        record = record.encode("utf-8", "replace")
    if isinstance(record, bytes):
        is_head = record.lstrip().startswith(b"{") and b'"history"' in record and b'"model_output"' in record
        return 0.9 if is_head else 0.0
    return 0.95 if is_history(record) else 0.0


def load_history(record: object) -> object:
    """Return a history for `read_history`, from an object, a file or a text.

    Args:
        record: A history, or the path or the contents of its JSON file.

    Raises:
        ValueError: The file or the text is not JSON.
        OSError: The file cannot be read.
    """
    if isinstance(record, str) and not record.lstrip().startswith("{"):
        record = Path(record)
    if isinstance(record, Path):
        return _parsed(record.read_bytes(), str(record))
    return _parsed(record, "the text") if isinstance(record, str | bytes) else record


def _parsed(text: str | bytes, origin: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{origin} is not a history of browser-use: it is not JSON ({error})") from None
