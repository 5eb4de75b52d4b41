"""The plugins of this process: installed and temporary ones, whether they are loaded, and their problems."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, final

from ace.plugins.discovery import RESERVED, Discovery, InstalledPlugin, discover, normalised
from ace.plugins.errors import (
    MissingFrameworkError,
    PluginApiError,
    PluginConflictError,
    PluginError,
    PluginLoadError,
    UnknownPluginError,
)
from ace.plugins.hooks import check_api

if TYPE_CHECKING:
    from ace.plugins.hook_source import HookSource
    from ace.plugins.loading import LoadedPlugin

__all__ = [
    "Catalogue",
    "CataloguedPlugin",
    "PluginCommand",
    "PluginInfo",
    "catalogue",
    "described",
    "list_plugins",
    "loading_lock",
    "plugin_commands",
]

_logger = logging.getLogger(__name__)

loading_lock: Final = threading.RLock()
"""Held while plugins are loaded and registered. A single lock avoids deadlocks: a plugin that is being loaded may use a
registry, and using a registry loads plugins."""


@final
class CataloguedPlugin:
    """A plugin, loaded on first use. An error while loading is raised again on each later use.

    Args:
        installed: The metadata of the plugin.
        loaded: The loaded plugin, if it is loaded already.
    """

    def __init__(self, installed: InstalledPlugin, loaded: LoadedPlugin | None = None) -> None:
        self.installed = installed
        self.error: PluginError | None = installed.problem
        self.is_loading = False
        """Whether its hook module is currently being imported, or its hooks are being called."""
        self._loaded = loaded

    @property
    def is_loaded(self) -> bool:
        """Whether its hooks have been called."""
        return self._loaded is not None

    @cached_property
    def source(self) -> HookSource | None:
        """The contents of its hook module as far as they are known without importing it."""
        from ace.plugins.hook_source import read_hook_source

        return read_hook_source(self.installed.module)

    @property
    def owner(self) -> str:
        """The names of the plugin and its distribution, for errors."""
        return f"plugin {self.installed.name!r} of {self.installed.origin}"

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The kinds of what it provides; None if they are not known without importing it."""
        if self._loaded is not None:
            return tuple(self._loaded.specs)
        return None if self.source is None or self.source.problem else self.source.kinds

    def may_give(self, kind: str) -> bool:
        """Return whether it may provide something of a kind, without importing it."""
        if not self.installed.is_enabled or self.installed.problem is not None:
            return False
        return self.kinds is None or kind in self.kinds

    def loading_problem(self) -> PluginError | None:
        """Return the problem that prevents loading it, as far as its metadata and its source show one."""
        if self.error is not None or self.source is None or self._loaded is not None:
            return self.error
        if self.source.problem:
            return PluginLoadError(
                f"{self.owner}: {self.source.problem}; fix or update it, or disable it: "
                f"ACE_PLUGINS_DISABLED={self.installed.name}"
            )
        try:
            check_api(self.source.api, self.owner)
        except PluginError as error:
            return error
        return None

    def known_problem(self) -> PluginError | None:
        """Return the first problem that is found without importing it."""
        from ace.plugins.hook_source import is_there
        from ace.plugins.loading import check_requirements, wrong_name

        problem = self.loading_problem()
        if problem is not None or self.source is None:
            return problem
        for kind, name in self.source.names:
            if name != self.installed.name:
                return wrong_name(kind, name, self.installed.name, self.owner)
        try:
            check_requirements(self.source.requires, needed_by=self.owner)
        except PluginError as error:
            return error
        package = self.installed.module.partition(":")[0].partition(".")[0]
        lost = [
            target for target in self.source.targets if target.partition(".")[0] == package and not is_there(target)
        ]
        if lost:
            return PluginLoadError(f"{self.owner}: {lost[0]!r} does not exist; the spec or the module is wrong")
        return None

    def load(self) -> LoadedPlugin:
        """Return the loaded plugin.

        Raises:
            PluginError: The plugin cannot be loaded.
        """
        from ace.plugins.loading import load

        with loading_lock:
            if self._loaded is not None:
                return self._loaded
            if self.error is not None:
                raise self.error.with_traceback(None)  # otherwise its traceback would grow with each call
            if self.is_loading:
                raise PluginLoadError(f"{self.owner}: it uses itself while it is being loaded; do that later")
            self.is_loading = True
            try:
                problem = self.loading_problem()
                if problem is not None:  # do not import a plugin that cannot work
                    raise problem
                self._loaded = load(self.installed)
            except PluginError as error:
                self.error = error
                raise
            finally:
                self.is_loading = False
            return self._loaded


@final
class Catalogue:
    """All installed plugins, and those of `temporary`.

    Args:
        discovery: The installed plugins.
        damaged: Warnings about distributions whose metadata could not be read.
    """

    def __init__(self, discovery: Discovery, damaged: Sequence[str] = ()) -> None:
        self.warnings = (*damaged, *discovery.warnings)
        self._installed = [CataloguedPlugin(plugin) for plugin in discovery.plugins]
        self._temporary: list[CataloguedPlugin] = []

    def plugins(self) -> list[CataloguedPlugin]:
        """Return all plugins; a temporary plugin hides earlier ones of the same name."""
        newest: dict[str, CataloguedPlugin] = {}
        for plugin in self._temporary:
            newest.setdefault(plugin.installed.name, plugin)
        return [*newest.values(), *(plugin for plugin in self._installed if plugin.installed.name not in newest)]

    def giving(self, kind: str) -> list[CataloguedPlugin]:
        """Return the plugins that provide something of a kind, and those for which this is not known yet."""
        return [plugin for plugin in self.plugins() if plugin.may_give(kind)]

    def named(self, name: str | None) -> list[CataloguedPlugin]:
        """Return the plugins of a name; all plugins if the name is None.

        Args:
            name: The name, with hyphens or underscores.

        Raises:
            UnknownPluginError: No plugin has this name.
        """
        if name is None:
            return self.plugins()
        wanted = normalised(name)
        found = [plugin for plugin in self.plugins() if normalised(plugin.installed.name) == wanted]
        if not found:
            raise UnknownPluginError(self._unknown(name))
        return found

    def find(self, name: str) -> CataloguedPlugin:
        """Return the plugin of a name, written with hyphens or underscores.

        Raises:
            UnknownPluginError: No plugin has this name, or it is disabled.
            PluginConflictError: Several distributions provide a plugin of this name.
        """
        found = self.named(name)
        enabled = [plugin for plugin in found if plugin.installed.is_enabled]
        usable = next((plugin for plugin in enabled if plugin.installed.problem is None), None)
        if usable is not None:
            return usable
        if enabled:
            assert enabled[0].installed.problem is not None
            raise enabled[0].installed.problem.with_traceback(None)
        raise UnknownPluginError(_switched_off(found[0].installed))

    @contextmanager
    def including(self, plugin: CataloguedPlugin) -> Iterator[None]:
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
        known = sorted({plugin.installed.name for plugin in self.plugins()})
        from ace.arguments import closest_name  # only needed for an error

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
            from ace.plugins.discovery import read_entry_points

            entry_points, damaged = read_entry_points()
            _catalogue = Catalogue(discover(entry_points, os.environ), damaged)
            for warning in _catalogue.warnings:
                _logger.warning("%s", warning)
        return _catalogue


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A subcommand in the help of `ace`."""

    name: str
    """The name of the plugin."""
    summary: str
    """A description of one line."""


def plugin_commands() -> list[PluginCommand]:
    """Return the subcommands of all plugins, by name. Plugins are not imported; only their sources are read."""
    return [
        PluginCommand(plugin.installed.name, plugin.source.command_summary or plugin.installed.summary)
        for plugin in catalogue().giving("commands")
        if plugin.source is not None
    ]


def _switched_off(plugin: InstalledPlugin) -> str:
    return (
        f"plugin {plugin.name!r} of {plugin.origin} is disabled by ACE_PLUGINS or ACE_PLUGINS_DISABLED; "
        "change them to use it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A description of a plugin."""

    name: str
    """The name of its entry point."""
    kinds: tuple[str, ...]
    """The kinds of what it provides, such as `runners`; empty if they are not known without importing it."""
    distribution: str
    """The distribution that contains it."""
    version: str
    """The version of that distribution."""
    api: int | None
    """Its `ACE_API`; None if it is not known."""
    status: str
    """`ok`, `not loaded`, `disabled`, `conflict`, `incompatible`, `missing framework` or `error`."""
    summary: str
    """A description of one line."""
    problem: str = ""
    """The problem that prevents its use; empty if there is none."""


_STATUSES: Sequence[tuple[type[PluginError], str]] = (
    (PluginConflictError, "conflict"),
    (PluginApiError, "incompatible"),
    (MissingFrameworkError, "missing framework"),
)


def list_plugins(name: str | None = None) -> list[PluginInfo]:
    """Return the installed plugins, sorted by name. Only metadata and sources are read; plugins are not imported.

    Args:
        name: Only return plugins of this name; there are several if they conflict.

    Raises:
        UnknownPluginError: No plugin has this name.

    Example:
        >>> isinstance(list_plugins(), list)
        True
    """
    return [described(plugin) for plugin in catalogue().named(name)]


def described(plugin: CataloguedPlugin, error: PluginError | None = None) -> PluginInfo:
    """Describe one plugin.

    Args:
        plugin: The plugin to describe.
        error: A problem that was found by other means.
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
