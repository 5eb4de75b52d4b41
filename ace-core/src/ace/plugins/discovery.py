"""Finds the plugins that are installed. Nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from ace.plugins.errors import PluginConflictError, PluginError, PluginLoadError
from ace.plugins.selection import Selection, normalised

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BUILT_IN_NAMES", "RESERVED", "Discovery", "EntryPointLike", "InstalledPlugin", "discover"]

BUILT_IN_NAMES: Final = ("ace", "litellm", "local", "sqlite")
"""What ace itself gives under these names, no plugin can give."""
RESERVED: Final = {
    "browser_use": "ace-browser-use",
    "claude_code": "ace-claude-code",
    "langchain": "ace-langchain",
    "openclaw": "ace-openclaw",
}
"""Names of integrations, each with the one distribution that may use it."""
_OWNERS: Final = {normalised(name): owner for name, owner in RESERVED.items()} | dict.fromkeys(
    BUILT_IN_NAMES, "ace-core"
)


class _Metadata(Protocol):
    def get(self, name: str, default: str, /) -> str | None: ...


class _Distribution(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def metadata(self) -> _Metadata: ...


class EntryPointLike(Protocol):
    """What is read of an entry point; those of `importlib_metadata` have it."""

    @property
    def name(self) -> str:
        """The name of the plugin."""

    @property
    def value(self) -> str:
        """The hook module."""

    @property
    def dist(self) -> _Distribution | None:
        """The distribution that it comes with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plugin as its metadata describes it."""

    name: str
    """The name of its entry point."""
    module: str
    """Its hook module."""
    distribution: str
    """The distribution that it comes with."""
    version: str
    """The version of that distribution."""
    summary: str = ""
    """What the distribution says of itself."""
    is_enabled: bool = True
    """Whether it may be imported."""
    problem: PluginError | None = None
    """Why it cannot be imported, as far as the metadata tell."""

    @property
    def origin(self) -> str:
        """The distribution with its version, for errors."""
        return f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Discovery:
    """All plugins that are installed."""

    plugins: tuple[InstalledPlugin, ...]
    """By name, then by distribution. Several have one name where they conflict."""
    warnings: tuple[str, ...]
    """Sentences for the user."""


def discover(entry_points: Iterable[EntryPointLike], environ: Mapping[str, str]) -> Discovery:
    """Find out what is installed, what of it is wanted, and what claims each other's names.

    Args:
        entry_points: Those of the group `ace.plugins`.
        environ: Environment variables.

    Example:
        >>> discover([], {"ACE_PLUGINS": "acme"}).warnings
        ("ACE_PLUGINS names 'acme', and there is no plugin or distribution of that name",)
    """
    selection = Selection.of(environ)
    found = [
        replace(plugin, is_enabled=selection.allows(plugin.name, plugin.distribution))
        for plugin in _each_once(entry_points)
    ]
    found.sort(key=lambda plugin: (plugin.name, plugin.distribution))
    unmatched = selection.unmatched((plugin.name, plugin.distribution) for plugin in found)
    return Discovery(
        tuple(replace(plugin, problem=_problem(plugin, found)) for plugin in found),
        tuple(
            f"{variable} names {name!r}, and there is no plugin or distribution of that name"
            for variable, name in unmatched
        ),
    )


def _each_once(entry_points: Iterable[EntryPointLike]) -> Iterator[InstalledPlugin]:
    """Skip entry points that repeat because a distribution is on the path twice; the first one is imported."""
    seen: set[tuple[str, str]] = set()
    for entry_point in entry_points:
        distribution = entry_point.dist
        plugin = InstalledPlugin(
            name=entry_point.name.strip(),
            module=entry_point.value.strip(),
            distribution="" if distribution is None else distribution.name,
            version="" if distribution is None else distribution.version,
            summary="" if distribution is None else distribution.metadata.get("Summary", "") or "",
        )
        key = (plugin.name, normalised(plugin.distribution))
        if key not in seen:
            seen.add(key)
            yield plugin


def _problem(plugin: InstalledPlugin, plugins: Sequence[InstalledPlugin]) -> PluginError | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", plugin.name):
        return PluginLoadError(
            f"plugin {plugin.name!r} of {plugin.origin}: the name of the entry point must be written [a-z][a-z0-9_]*"
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
        f"plugin {name!r} is claimed by {who}, so neither is imported; "
        f"uninstall one of them, or switch one off: ACE_PLUGINS_DISABLED={disabled}"
    )
