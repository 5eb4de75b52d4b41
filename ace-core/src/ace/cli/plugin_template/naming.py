"""The names that a new plugin goes by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ace import __version__
from ace.plugins.discovery import BUILT_IN_NAMES, RESERVED

__all__ = ["PluginNames", "names_of_plugin"]

_LONGEST = 50


@dataclass(frozen=True, slots=True)
class PluginNames:
    """All names of one plugin."""

    name: str
    """That of the entry point."""
    distribution: str
    """That of the distribution."""
    package: str
    """That of the import package."""
    class_name: str
    """The beginning of the names of its classes."""
    core_range: str
    """The releases of ace-core that it is made for."""


def names_of_plugin(name: str) -> PluginNames:
    """Derive all names from the one that an author chose.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        ValueError: It cannot be the name of a plugin; the text says why.

    Example:
        >>> names = names_of_plugin("night-owl")
        >>> names.name, names.distribution, names.package, names.class_name
        ('night_owl', 'ace-night-owl', 'ace_night_owl', 'NightOwl')
        >>> names_of_plugin("Night Owl")
        Traceback (most recent call last):
        ...
        ValueError: 'Night Owl' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'night_owl'
    """
    written = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", written) or len(written) > _LONGEST:
        suggested = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:_LONGEST] or "acme"
        raise ValueError(f"{name!r} cannot name a plugin: use a-z, 0-9 and single hyphens, such as {suggested!r}")
    if written.startswith("ace_"):
        raise ValueError(f"{name!r} gets 'ace-' in front by itself; write {written.removeprefix('ace_')!r}")
    if written in (*RESERVED, *BUILT_IN_NAMES, "core"):
        raise ValueError(f"the name {name!r} belongs to ACE itself; choose another one")
    major, minor = map(int, __version__.split(".")[:2])
    return PluginNames(
        name=written,
        distribution=f"ace-{written.replace('_', '-')}",
        package=f"ace_{written}",
        class_name=written.title().replace("_", ""),
        core_range=f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}",
    )
