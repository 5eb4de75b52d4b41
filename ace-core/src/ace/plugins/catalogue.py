"""The plugins of this process, installed and temporary: found by name, and listed with their problems."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, final

from ace.plugins.discovery import RESERVED, Discovery, discover, normalised, read_entry_points
from ace.plugins.errors import (
    MissingFrameworkError,
    PluginApiError,
    PluginConflictError,
    PluginError,
    UnknownPluginError,
)
from ace.plugins.loading import Plugin
from ace.plugins.specs import Spec

__all__ = ["Catalogue", "PluginInfo", "catalogue", "described", "list_plugins"]


@final
class Catalogue:
    """All installed plugins, and those of `temporary`.

    Args:
        discovery: The installed plugins.
    """

    def __init__(self, discovery: Discovery) -> None:
        self.warnings = discovery.warnings
        self._installed = [Plugin(plugin) for plugin in discovery.plugins]
        self._temporary: list[Plugin] = []

    def plugins(self) -> list[Plugin]:
        """Return all plugins; a temporary plugin hides earlier ones of the same name."""
        newest: dict[str, Plugin] = {}
        for plugin in self._temporary:
            newest.setdefault(plugin.name, plugin)
        return [*newest.values(), *(plugin for plugin in self._installed if plugin.name not in newest)]

    def usable(self) -> Iterator[Plugin]:
        """Yield the plugins that are enabled and have no known problem; they are not loaded yet."""
        return (plugin for plugin in self.plugins() if plugin.is_usable)

    def providing(self, kind: type[Spec]) -> list[Plugin]:
        """Load all plugins that can be loaded, and return those with specs of a class."""
        found = []
        for plugin in self.usable():
            with suppress(PluginError):  # `ace plugins` shows it
                if plugin.load().specs_of(kind):
                    found.append(plugin)
        return found

    def named(self, name: str | None) -> list[Plugin]:
        """Return the plugins of a name; all plugins if the name is None.

        Args:
            name: The name, with hyphens or underscores.

        Raises:
            UnknownPluginError: No plugin has this name.
        """
        if name is None:
            return self.plugins()
        wanted = normalised(name)
        found = [plugin for plugin in self.plugins() if normalised(plugin.name) == wanted]
        if not found:
            raise UnknownPluginError(self._unknown(name))
        return found

    def find(self, name: str) -> Plugin:
        """Return the plugin of a name, written with hyphens or underscores. It is not loaded yet.

        Raises:
            UnknownPluginError: No plugin has this name, or it is disabled.
            PluginConflictError: Several distributions provide a plugin of this name.
        """
        found = self.named(name)
        enabled = [plugin for plugin in found if plugin.installed.is_enabled]
        if not enabled:
            raise UnknownPluginError(
                f"{found[0].owner} is disabled by ACE_PLUGINS or ACE_PLUGINS_DISABLED; change them to use it"
            )
        usable = next((plugin for plugin in enabled if plugin.installed.problem is None), None)
        if usable is None:
            assert enabled[0].installed.problem is not None
            raise enabled[0].installed.problem.with_traceback(None)
        return usable

    @contextmanager
    def including(self, plugin: Plugin) -> Iterator[None]:
        """Add a plugin during a `with` block."""
        self._temporary.insert(0, plugin)
        try:
            yield
        finally:
            self._temporary.remove(plugin)

    def _unknown(self, name: str) -> str:
        wanted = normalised(name).replace("-", "_")
        if wanted in RESERVED:
            return f"plugin {wanted!r} is not installed; it comes with {RESERVED[wanted]!r}"
        known = sorted({plugin.name for plugin in self.plugins()})
        from ace._internal.arguments import closest_name  # only needed for an error

        near = closest_name(wanted, known)
        if near:
            return f"no such plugin: {name!r}; did you mean {near!r}?"
        listed = ", ".join(map(repr, known)) or "none"
        return f"no such plugin: {name!r}; installed are: {listed}"


_lock = threading.Lock()
_catalogue: Catalogue | None = None


def catalogue() -> Catalogue:
    """Return the plugins of this process. The environment is read on the first call."""
    global _catalogue  # one for the process, created on the first call
    with _lock:
        if _catalogue is None:
            _catalogue = Catalogue(discover(read_entry_points(), os.environ))
            if _catalogue.warnings:
                from logging import getLogger  # slow to import, and seldom needed here

                for warning in _catalogue.warnings:
                    getLogger(__name__).warning("%s", warning)
        return _catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A description of a plugin."""

    name: str
    """The name of its entry point."""
    kinds: tuple[str, ...]
    """The kinds of what it provides, such as `runners`; empty if it is not loaded."""
    distribution: str
    """The distribution that contains it."""
    version: str
    """The version of that distribution."""
    api: int | None
    """Its `ACE_API`; None if it is not known."""
    status: str
    """`ok`, `disabled`, `conflict`, `incompatible`, `missing framework` or `error`."""
    summary: str
    """A description of one line."""
    problem: str = ""
    """The problem that prevents its use; empty if there is none."""


_STATUSES: Final[Sequence[tuple[type[PluginError], str]]] = (
    (PluginConflictError, "conflict"),
    (PluginApiError, "incompatible"),
    (MissingFrameworkError, "missing framework"),
    (PluginError, "error"),
)


def list_plugins(name: str | None = None) -> list[PluginInfo]:
    """Return the installed plugins, sorted by name. Their hooks are called, but no target is imported.

    Args:
        name: Only return plugins of this name; there are several if they conflict.

    Raises:
        UnknownPluginError: No plugin has this name.

    Example:
        >>> isinstance(list_plugins(), list)
        True
    """
    return [described(plugin) for plugin in catalogue().named(name)]


def described(plugin: Plugin, error: PluginError | None = None) -> PluginInfo:
    """Describe one plugin. It is loaded if it is enabled.

    Args:
        plugin: The plugin to describe.
        error: A problem that was found by other means.
    """
    installed = plugin.installed
    status = "ok" if installed.is_enabled else "disabled"
    found = None
    if installed.is_enabled:
        found = error or _problem(plugin)
    if found is not None:
        status = next(status for kind, status in _STATUSES if isinstance(found, kind))
    return PluginInfo(
        name=plugin.name,
        kinds=tuple(plugin.specs),
        distribution=installed.distribution,
        version=installed.version,
        api=plugin.api,
        status=status,
        summary=" ".join(installed.summary.split()),
        problem="" if found is None else str(found),
    )


def _problem(plugin: Plugin) -> PluginError | None:
    """Load a plugin, compare the requirements of all its specs with what is installed, and return the first problem."""
    try:
        for spec in plugin.load().specs_of(Spec):
            plugin.check_requirements(spec.requires)
    except PluginError as error:
        return error
    return None
