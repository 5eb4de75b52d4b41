"""Finds the installed plugins, and those that the environment enables, without importing them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ace.plugins.errors import PluginConflictError, PluginError, PluginLoadError
from ace.plugins.hooks import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from importlib_metadata import Distribution, EntryPoint

__all__ = [
    "BUILT_IN_NAMES",
    "RESERVED",
    "Discovery",
    "EntryPointLike",
    "InstalledPlugin",
    "discover",
    "is_strict",
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


def is_strict(environ: Mapping[str, str]) -> bool:
    """Return whether the problems of any plugin are raised as errors (`ACE_PLUGINS_STRICT=1`)."""
    return environ.get("ACE_PLUGINS_STRICT", "").strip().lower() in ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class _Selection:
    """The enabled plugins, by names of plugins or distributions.

    Example:
        >>> chosen = _Selection.of({"ACE_PLUGINS_DISABLED": "ace-langchain, nonsense"})
        >>> chosen.allows("langchain", "ace-langchain"), chosen.allows("acme", "ace-acme")
        (False, True)
        >>> chosen.unmatched([("langchain", "ace-langchain")])
        [('ACE_PLUGINS_DISABLED', 'nonsense')]
    """

    only: tuple[str, ...] | None
    """`ACE_PLUGINS`: None enables all plugins, an empty value none."""
    disabled: tuple[str, ...]
    """`ACE_PLUGINS_DISABLED`."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> _Selection:
        """Read the selection from environment variables."""
        only = environ.get("ACE_PLUGINS")
        return cls(None if only is None else _names(only), _names(environ.get("ACE_PLUGINS_DISABLED", "")))

    def allows(self, name: str, distribution: str) -> bool:
        """Return whether a plugin may be imported.

        Args:
            name: The name of the plugin.
            distribution: The distribution that contains it.
        """
        own = {normalised(name), normalised(distribution)}
        if own & set(map(normalised, self.disabled)):
            return False
        return self.only is None or bool(own & set(map(normalised, self.only)))

    def unmatched(self, known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return pairs of a variable and a name in it that does not match any plugin or distribution.

        Args:
            known: The names of the plugins, each with its distribution.
        """
        names = {normalised(name) for pair in known for name in pair}
        wanted = [("ACE_PLUGINS", name) for name in self.only or ()]
        wanted += [("ACE_PLUGINS_DISABLED", name) for name in self.disabled]
        return [(variable, name) for variable, name in wanted if normalised(name) not in names]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
    "server": "ace-server",
}
"""The names of integrations, each with the only distribution that may use it."""
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
    """The attributes of an entry point that are used; those of `importlib_metadata` have them."""

    @property
    def name(self) -> str:
        """The name of the plugin."""

    @property
    def value(self) -> str:
        """The hook module."""

    @property
    def dist(self) -> _Distribution | None:
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
    selection = _Selection.of(environ)
    found = [
        replace(plugin, is_enabled=selection.allows(plugin.name, plugin.distribution))
        for plugin in _each_once(entry_points)
    ]
    found.sort(key=lambda plugin: (plugin.name, plugin.distribution))
    unmatched = selection.unmatched((plugin.name, plugin.distribution) for plugin in found)
    return Discovery(
        tuple(replace(plugin, problem=_problem(plugin, found)) for plugin in found),
        tuple(
            f"{variable} names {name!r}, but no plugin or distribution has that name" for variable, name in unmatched
        ),
    )


def _each_once(entry_points: Iterable[EntryPointLike]) -> Iterator[InstalledPlugin]:
    """Skip duplicate entry points of a distribution that is on the path twice; Python imports the first one."""
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


def read_entry_points() -> tuple[Sequence[EntryPointLike], Sequence[str]]:
    """Return the entry points of plugins, and a warning for each distribution whose metadata cannot be read."""
    from importlib_metadata import entry_points  # seldom needed by what else is read here, and slow to import

    try:
        return [_with_headers(entry_point) for entry_point in entry_points(group=ENTRY_POINT_GROUP)], ()
    except Exception:
        # Damaged metadata raise errors of many types, which do not name the distribution.
        return _read_one_by_one()


def _read_one_by_one() -> tuple[Sequence[EntryPointLike], Sequence[str]]:
    from importlib_metadata import distributions

    found: list[EntryPointLike] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for distribution in distributions():
        gives_plugins = ENTRY_POINT_GROUP in (distribution.read_text("entry_points.txt") or "")
        try:
            name = normalised(distribution.name)
            own = [
                _with_headers(entry_point) for entry_point in distribution.entry_points.select(group=ENTRY_POINT_GROUP)
            ]
            if name not in seen:  # Python imports the first one of a distribution that is on the path twice
                found += own
            seen.add(name)
        except Exception:
            if gives_plugins:
                warnings.append(_warning(distribution))
    return found, warnings


class _Headers(NamedTuple):
    """What is needed of a distribution."""

    name: str
    version: str
    metadata: Mapping[str, str]


class _EntryPoint(NamedTuple):
    name: str
    value: str
    dist: _Headers | None


def _with_headers(entry_point: EntryPoint) -> _EntryPoint:
    """Return the entry point with what is needed of its distribution."""
    distribution = entry_point.dist
    return _EntryPoint(entry_point.name, entry_point.value, None if distribution is None else _headers_of(distribution))


def _headers_of(distribution: Distribution) -> _Headers:
    """Read the headers of the metadata; the library parses all of it as an e-mail, which is slow to import.

    Raises:
        ValueError: The name or the version is missing.
    """
    files = map(distribution.read_text, ("METADATA", "PKG-INFO", ""))
    found: dict[str, str] = {}
    for line in next(filter(None, files), "").splitlines():
        if not line.strip():
            break  # the description follows
        name, _, value = line.partition(":")
        found.setdefault(name.title(), value.strip())
    if not (found.get("Name") and found.get("Version")):
        raise ValueError("the name or the version is missing")
    return _Headers(found["Name"], found["Version"], found)


def _warning(distribution: Distribution) -> str:
    try:
        who = distribution.name
    except Exception:  # the name itself may be unreadable
        who = f"a distribution in {str(distribution.locate_file(''))!r}"
    return f"the plugins of {who} are skipped, because its metadata is damaged; reinstall it"
