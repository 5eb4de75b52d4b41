"""Reads the entry points of what is installed; a distribution with damaged metadata harms no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from importlib_metadata import Distribution, distributions, entry_points

from ace.plugins.hooks import ENTRY_POINT_GROUP
from ace.plugins.selection import normalised

if TYPE_CHECKING:
    from ace.plugins.discovery import EntryPointLike

__all__ = ["read_entry_points"]


def read_entry_points() -> tuple[Sequence[EntryPointLike], Sequence[str]]:
    """Return the entry points of plugins, and a sentence on each distribution whose own cannot be read."""
    try:
        found: list[EntryPointLike] = list(entry_points(group=ENTRY_POINT_GROUP))
        for entry_point in found:
            _check(entry_point)
    except Exception:
        # Damaged metadata raise all kinds of errors, and do not say whose they are.
        return _read_one_by_one()
    return found, ()


def _read_one_by_one() -> tuple[Sequence[EntryPointLike], Sequence[str]]:
    found: list[EntryPointLike] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for distribution in distributions():
        gives_plugins = ENTRY_POINT_GROUP in (distribution.read_text("entry_points.txt") or "")
        try:
            name = normalised(distribution.name)
            own: list[EntryPointLike] = list(distribution.entry_points.select(group=ENTRY_POINT_GROUP))
            for entry_point in own:
                _check(entry_point)
            if name not in seen:  # of one that is on the path twice, the first is imported
                found += own
            seen.add(name)
        except Exception:
            if gives_plugins:
                warnings.append(_warning(distribution))
    return found, warnings


def _check(entry_point: EntryPointLike) -> None:
    if entry_point.dist is not None and not (entry_point.dist.name and entry_point.dist.version):
        raise ValueError("the name or the version is missing")


def _warning(distribution: Distribution) -> str:
    try:
        who = distribution.name
    except Exception:  # the name may be what cannot be read
        who = f"a distribution in {str(distribution.locate_file(''))!r}"
    return f"the plugins of {who} are skipped, since its metadata is damaged; install it again"
