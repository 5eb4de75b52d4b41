"""The registry of stores, which finds the store for a location such as `skills.db` or `acme://team/skills`.

Plugins register their stores through `ace.plugins`, and so does the built-in SQLite store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace._internal.arguments import file_path
from ace._internal.atomic_file import real_path
from ace._internal.registry import Registry, fill
from ace.skillbook.locations import has_scheme, shown_location

if TYPE_CHECKING:
    from ace.skillbook.store import SkillbookStore

__all__ = [
    "StoreKind",
    "find_store",
    "register_store",
    "store_kinds",
    "unregister_store",
]

FILE_SUFFIXES: Final = (".json", ".md", ".markdown", ".txt")
"""The suffixes of plain files, which no store can claim."""

_lock = threading.Lock()  # held while a kind is compared with the others and registered


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """A kind of store."""

    name: str
    """The unique name, which is that of the plugin."""
    open: Callable[[str], SkillbookStore]
    """Opens the store of a location, as the user gave it."""
    schemes: tuple[str, ...] = ()
    """The schemes, such as `acme` for locations that start with `acme://`."""
    suffixes: tuple[str, ...] = ()
    """The file suffixes, such as `.db`."""


_kinds = Registry[StoreKind]("stores", "a store")


def register_store(kind: StoreKind) -> None:
    """Register a kind of store.

    Raises:
        ValueError: If its name, a scheme or a suffix is taken, or a suffix is reserved for plain files.
    """
    with _lock:
        for known in _kinds.known.values():
            if known == kind:
                return
            taken = _taken(kind, known)
            if taken:
                raise ValueError(f"the stores {known.name!r} and {kind.name!r} both claim {taken!r}")
        if set(kind.suffixes) & set(FILE_SUFFIXES):
            raise ValueError(
                f"the store {kind.name!r} claims one of {', '.join(FILE_SUFFIXES)}, which are reserved for plain files"
            )
        _kinds.register(kind.name, kind)


def unregister_store(name: str) -> None:
    """Unregister a kind of store; an unknown name is ignored.

    Args:
        name: The name of the kind.
    """
    _kinds.unregister(name)


def store_kinds() -> list[StoreKind]:
    """Return the registered kinds of stores, sorted by name."""
    return _kinds.sorted()


def find_store(location: str | Path) -> StoreKind | None:
    """Return the kind of store for a location, or None for a plain file.

    Args:
        location: A file or `scheme://...`.

    Raises:
        ValueError: If no store supports this scheme.
        TypeError: If the location is not a path.

    Example:
        >>> find_store("skills.json") is None
        True
    """
    file_path("path", location)
    text = str(location)
    if not has_scheme(location) and Path(text).suffix.lower() in FILE_SUFFIXES:
        return None
    for built_in in (True, False):
        fill("stores", built_in=built_in)
        found = _fitting(text)
        if found is not None:
            return found
    if has_scheme(location):
        names = ", ".join(repr(kind.name) for kind in store_kinds())
        raise ValueError(f"no store is installed for {shown_location(text)!r}; available: {names}")
    return None


def _fitting(location: str) -> StoreKind | None:
    scheme = location.partition("://")[0] if has_scheme(location) else None
    suffix = Path(location).suffix.lower()
    for kind in _kinds.known.values():
        if scheme in kind.schemes if scheme is not None else suffix in kind.suffixes:
            return kind
    return None


def _taken(first: StoreKind, second: StoreKind) -> str:
    if first.name == second.name:
        return first.name
    both = {*first.schemes, *first.suffixes} & {*second.schemes, *second.suffixes}
    return min(both, default="")


def store_exists(location: str | Path) -> FileExistsError:
    """Return the error for a new store whose place is taken."""
    return FileExistsError(
        f"{shown_location(location)}: this store already exists; open it and use import_skills to add to it"
    )


def store_place(location: str | Path) -> str | Path:
    """Return the canonical location of a store, which does not depend on the working folder."""
    return location if has_scheme(location) else real_path(location)
