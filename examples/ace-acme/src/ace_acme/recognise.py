"""Recognises logs of Acme."""

from __future__ import annotations

__all__ = ["recognise"]


def recognise(record: object) -> float:
    """Return the confidence, from 0 to 1, that a record or the first bytes of a file are a log of Acme."""
    if isinstance(record, bytes):
        return 0.9 if record.lstrip().startswith(b'{"acme_log":') else 0.0
    return 0.9 if isinstance(record, dict) and "acme_log" in record else 0.0
