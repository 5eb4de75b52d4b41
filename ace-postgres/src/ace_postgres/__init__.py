"""Skillbooks in PostgreSQL: many processes on many hosts learn into one book.

The plugin registers the store of locations such as `postgresql://ann@db.internal/ace?book=support`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_postgres.store import PostgresStore

__all__ = ["PostgresStore"]

__getattr__, __dir__ = lazy_exports(__name__, {"PostgresStore": "store"})
