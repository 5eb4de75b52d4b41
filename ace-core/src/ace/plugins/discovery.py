"""Finds the installed plugins, and those that the environment enables, without importing them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ace.plugins.errors import PluginConflictError, PluginError, PluginLoadError
from ace.plugins.hooks import ENTRY_POINT_GROUP

__all__ = [
    "BUILT_IN_NAMES",
    "RESERVED",
    "Discovery",
    "EntryPointLike",
    "InstalledPlugin",
    "discover",
    "normalised",
    "read_entry_points",
]


def normalised(name: str) -> str:
    """Normalise the name of a plugin or a distribution for comparison.

    Example:
        >>> normalised(" Browser_Use ")
        'browser-use'
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


BUILT_IN_NAMES: Final = ("ace", "litellm", "local", "sqlite")
"""The names that ace uses itself; a plugin cannot use them."""
RESERVED: Final = {
    "beads": "ace-beads",
    "browser_use": "ace-browser-use",
    "claude_code": "ace-claude-code",
    "langchain": "ace-langchain",
    "mcp": "ace-mcp",
    "openclaw": "ace-openclaw",
    "opik": "ace-opik",
    "otel": "ace-otel",
    "postgres": "ace-postgres",
    "proxy": "ace-proxy",
    "server": "ace-server",
    "sleep": "ace-sleep",
}
"""The names of integrations, each with the only distribution that may use it."""
_OWNERS: Final = {normalised(name): owner for name, owner in RESERVED.items()} | dict.fromkeys(
    BUILT_IN_NAMES, "ace-core"
)


class DistributionLike(Protocol):
    """The part of a distribution that is used; those of `importlib_metadata` have it."""

    def read_text(self, filename: str, /) -> str | None:
        """Return the text of a file of its metadata; None if it does not have this file."""


class EntryPointLike(Protocol):
    """The attributes of an entry point that are used; those of `importlib_metadata` have them."""

    @property
    def name(self) -> str:
        """The name of the plugin."""

    @property
    def value(self) -> str:
        """The hook module."""

    @property
    def dist(self) -> DistributionLike | None:
        """The distribution that contains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """The metadata of a plugin."""

    name: str
    """The name of its entry point."""
    module: str
    """Its hook module."""
    distribution: str
    """The distribution that contains it."""
    version: str
    """The version of that distribution."""
    summary: str = ""
    """The summary of the distribution."""
    is_enabled: bool = True
    """Whether it may be imported."""
    problem: PluginError | None = None
    """Why it cannot be imported, as far as the metadata show it."""

    @property
    def origin(self) -> str:
        """The name and the version of the distribution, for errors."""
        return f"{self.distribution} {self.version}".strip()

    def is_one_of(self, names: Iterable[str]) -> bool:
        """Return whether one of the names is that of the plugin or of its distribution."""
        return not {normalised(self.name), normalised(self.distribution)}.isdisjoint(map(normalised, names))


@dataclass(frozen=True, slots=True)
class Discovery:
    """All installed plugins."""

    plugins: tuple[InstalledPlugin, ...]
    """The plugins, sorted by name and distribution. Conflicting plugins have the same name."""
    warnings: tuple[str, ...]
    """Warnings for the user."""


def discover(entry_points: Iterable[EntryPointLike], environ: Mapping[str, str]) -> Discovery:
    """Find the installed plugins, whether they are enabled, and whether their names conflict.

    Args:
        entry_points: The entry points of the group `ace.plugins`.
        environ: The environment variables.

    Example:
        >>> discover([], {"ACE_PLUGINS": "acme"}).warnings
        ("ACE_PLUGINS names 'acme', but no plugin or distribution has that name",)
    """
    found: dict[tuple[str, str], InstalledPlugin] = {}
    for entry_point in entry_points:
        plugin = _installed(entry_point)
        # A distribution may be on the path twice; Python imports the first one.
        found.setdefault((plugin.name, normalised(plugin.distribution)), plugin)
    only = _names(environ["ACE_PLUGINS"]) if "ACE_PLUGINS" in environ else None
    disabled = _names(environ.get("ACE_PLUGINS_DISABLED", ""))
    plugins = [
        replace(plugin, is_enabled=not plugin.is_one_of(disabled) and (only is None or plugin.is_one_of(only)))
        for plugin in sorted(found.values(), key=lambda plugin: (plugin.name, plugin.distribution))
    ]
    warnings = [
        f"{variable} names {name!r}, but no plugin or distribution has that name"
        for variable, names in (("ACE_PLUGINS", only or ()), ("ACE_PLUGINS_DISABLED", disabled))
        for name in names
        if not any(plugin.is_one_of([name]) for plugin in plugins)
    ]
    return Discovery(tuple(replace(plugin, problem=_problem(plugin, plugins)) for plugin in plugins), tuple(warnings))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _installed(entry_point: EntryPointLike) -> InstalledPlugin:
    headers = {} if entry_point.dist is None else _headers(entry_point.dist)
    return InstalledPlugin(
        name=entry_point.name.strip(),
        module=entry_point.value.strip(),
        distribution=headers.get("Name", ""),
        version=headers.get("Version", ""),
        summary=headers.get("Summary", ""),
    )


def _headers(distribution: DistributionLike) -> dict[str, str]:
    """Read the headers of the metadata. `importlib_metadata` parses all of it as an e-mail, which is slow to import."""
    files = map(distribution.read_text, ("METADATA", "PKG-INFO", ""))
    headers, _, _ = next(filter(None, files), "").partition("\n\n")  # the description follows
    lines = (line.partition(":") for line in headers.splitlines())
    return {name.title(): value.strip() for name, _, value in lines}


def _problem(plugin: InstalledPlugin, plugins: Sequence[InstalledPlugin]) -> PluginError | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", plugin.name):
        return PluginLoadError(
            f"plugin {plugin.name!r} of {plugin.origin}: the name of the entry point must match [a-z][a-z0-9_]*"
        )
    name = normalised(plugin.name)  # users write hyphens or underscores, so `a_b` and `a__b` are one name
    owner = _OWNERS.get(name)
    if owner is not None:
        return None if normalised(plugin.distribution) == owner else _reserved(plugin, owner)
    claimants = [other for other in plugins if normalised(other.name) == name and other.is_enabled]
    return _conflict(plugin.name, claimants) if plugin.is_enabled and len(claimants) > 1 else None


def _reserved(plugin: InstalledPlugin, owner: str) -> PluginConflictError:
    return PluginConflictError(
        f"plugin {plugin.name!r} of {plugin.origin}: the name is reserved for {owner!r}; "
        f"uninstall {plugin.distribution!r}, or ask its authors to choose another name"
    )


def _conflict(name: str, claimants: Sequence[InstalledPlugin]) -> PluginConflictError:
    who = " and ".join(plugin.origin for plugin in claimants)
    disabled = claimants[-1].distribution
    return PluginConflictError(
        f"plugin {name!r} is provided by {who}, so none of them is imported; "
        f"uninstall or disable one: ACE_PLUGINS_DISABLED={disabled}"
    )


def read_entry_points() -> Sequence[EntryPointLike]:
    """Return the entry points of plugins."""
    from importlib_metadata import entry_points  # slow to import, and seldom needed by those who import this module

    return list(entry_points(group=ENTRY_POINT_GROUP))
