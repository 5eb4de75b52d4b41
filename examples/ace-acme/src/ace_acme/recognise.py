"""Tells logs of Acme from other records."""

from __future__ import annotations

__all__ = ["recognise"]


def recognise(record: object) -> float:
    """Return how sure it is that a record, or a file that begins with these bytes, is a log of Acme."""
    if isinstance(record, bytes):
        return 0.9 if record.lstrip().startswith(b'{"acme_log":') else 0.0
    return 0.9 if isinstance(record, dict) and "acme_log" in record else 0.0
