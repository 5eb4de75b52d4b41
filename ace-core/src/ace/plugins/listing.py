"""`list_plugins`: what is installed, as far as that can be known without importing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ace.plugins.catalogue import catalogue
from ace.plugins.errors import MissingFrameworkError, PluginApiError, PluginConflictError, PluginError

if TYPE_CHECKING:
    from ace.plugins.catalogue import CataloguedPlugin

__all__ = ["PluginInfo", "described", "list_plugins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What is known of a plugin."""

    name: str
    """The name of its entry point."""
    kinds: tuple[str, ...]
    """What it gives, such as `runners`; empty if that cannot be known without importing it."""
    distribution: str
    """The distribution that it comes with."""
    version: str
    """The version of that distribution."""
    api: int | None
    """Its `ACE_API`; None if that is not known."""
    status: str
    """`ok`, `not loaded`, `disabled`, `conflict`, `incompatible`, `missing framework` or `error`."""
    summary: str
    """One line on it."""
    problem: str = ""
    """What is wrong with it."""


_STATUSES: Sequence[tuple[type[PluginError], str]] = (
    (PluginConflictError, "conflict"),
    (PluginApiError, "incompatible"),
    (MissingFrameworkError, "missing framework"),
)


def list_plugins(name: str | None = None) -> list[PluginInfo]:
    """Return what is installed, by name. Metadata and source are read, nothing is imported.

    Args:
        name: Only the plugins of this name; several have it where they conflict.

    Raises:
        UnknownPluginError: There is no plugin of this name.

    Example:
        >>> isinstance(list_plugins(), list)
        True
    """
    return [described(plugin) for plugin in catalogue().named(name)]


def described(plugin: CataloguedPlugin, error: PluginError | None = None) -> PluginInfo:
    """Return what is known of one plugin.

    Args:
        plugin: The plugin.
        error: What has been found to be wrong with it.
    """
    installed = plugin.installed
    source = plugin.source
    found = error if error is not None else plugin.known_problem()
    if not installed.is_enabled:
        found = None
    return PluginInfo(
        name=installed.name,
        kinds=plugin.kinds or (),
        distribution=installed.distribution,
        version=installed.version,
        api=None if source is None else source.api,
        status=_status(plugin, found),
        summary=" ".join(installed.summary.split()),
        problem="" if found is None else str(found),
    )


def _status(plugin: CataloguedPlugin, error: PluginError | None) -> str:
    if not plugin.installed.is_enabled:
        return "disabled"
    if error is None:
        return "ok" if plugin.is_loaded else "not loaded"
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), "error")
