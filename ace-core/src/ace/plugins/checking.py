"""Loads plugins, and imports everything that they name, to find out what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ace.plugins.catalogue import catalogue
from ace.plugins.errors import PluginError
from ace.plugins.listing import PluginInfo, described
from ace.plugins.specs import ExecuteStepSpec, Spec, TraceConverterSpec

if TYPE_CHECKING:
    from ace.plugins.catalogue import CataloguedPlugin

__all__ = ["check_plugins", "foreign_providers_of_ace", "problems_of"]


def check_plugins(name: str | None = None) -> list[tuple[PluginInfo, list[PluginError]]]:
    """Load plugins and import every target.

    Args:
        name: Only the plugins of this name.

    Returns:
        What is known of each, and what is wrong with it. One that is switched off is not imported.

    Raises:
        UnknownPluginError: There is no plugin of this name.
    """
    found = []
    for plugin in catalogue().named(name):
        errors = list(problems_of(plugin)) if plugin.installed.is_enabled else []
        found.append((described(plugin, errors[0] if errors else None), errors))
    return found


def foreign_providers_of_ace() -> list[str]:
    """Return the distributions, other than ace-core, that bring an import package `ace` too."""
    from importlib_metadata import packages_distributions

    return sorted(set(packages_distributions().get("ace", ())) - {"ace-core"})


def problems_of(plugin: CataloguedPlugin) -> Iterator[PluginError]:
    """Load one plugin and import every target of it.

    Args:
        plugin: The plugin.

    Returns:
        What is wrong with it.
    """
    try:
        loaded = plugin.load()
    except PluginError as error:
        yield error
        return
    for specs in loaded.specs.values():
        for spec in specs:
            for reference in _references(spec):
                try:
                    loaded.targets.resolve(reference, spec.requires)
                except PluginError as error:
                    yield error


def _references(spec: Spec) -> Iterator[str]:
    yield spec.target
    if isinstance(spec, ExecuteStepSpec) and spec.produces is not None:
        yield spec.produces
    if isinstance(spec, TraceConverterSpec):
        yield from (reference for reference in (spec.accepts, spec.recognises) if reference is not None)
