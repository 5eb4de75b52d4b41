"""The hook of the plugin `postgres`. The target is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import StoreSpec, hookimpl

__all__ = ["ACE_API", "ace_stores"]

ACE_API = 1


@hookimpl
def ace_stores() -> Iterator[StoreSpec]:
    """Yield the store of `postgresql://` locations."""
    yield StoreSpec(
        name="postgres",
        target="ace_postgres.store:PostgresStore",
        schemes=("postgresql",),
        summary="Keep skillbooks in PostgreSQL, shared by many processes and hosts",
    )
