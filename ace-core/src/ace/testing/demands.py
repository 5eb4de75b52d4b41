"""How a check fails, and when it cannot be made."""

from __future__ import annotations

from typing import TypeVar

import pytest

from ace.plugins import PluginError
from ace.plugins.catalogue import CataloguedPlugin, catalogue
from ace.plugins.loading import LoadedPlugin
from ace.plugins.specs import Spec

__all__ = ["demand", "installed_plugins", "loaded_plugin", "resolved", "spec_of"]

SomeSpec = TypeVar("SomeSpec", bound=Spec)


def demand(condition: object, said: str) -> None:
    """Fail the check with a sentence, unless the condition holds.

    Args:
        condition: What must be true.
        said: What is wrong, and what to do.
    """
    if not condition:
        pytest.fail(said, pytrace=False)


def installed_plugins(name: str) -> list[CataloguedPlugin]:
    """Return what is installed under a name: one plugin, none, or several that claim it.

    Args:
        name: The name, exactly as the entry point has it.
    """
    return [plugin for plugin in catalogue().plugins() if plugin.installed.name == name]


def loaded_plugin(name: str) -> LoadedPlugin:
    """Return a plugin; skip the check if it cannot be loaded, which is for `PluginConformance` to tell.

    Args:
        name: Its name.
    """
    try:
        return catalogue().find(name).load()
    except PluginError as error:
        pytest.skip(f"cannot be checked before PluginConformance holds: {error}")


def spec_of(name: str, kind: type[SomeSpec]) -> SomeSpec:
    """Return the spec of one class of a plugin; fail if it gives none.

    Args:
        name: The name of the plugin.
        kind: The class of the spec.
    """
    specs = loaded_plugin(name).specs_of(kind)
    demand(specs, f"the plugin {name!r} yields no {kind.__name__}; leave this suite out, or add the hook")
    return specs[0]


def resolved(name: str, reference: str, requires: tuple[str, ...] = ()) -> object:
    """Return what a spec names; skip the check if it is not there, which is for `PluginConformance` to tell.

    Args:
        name: The name of the plugin.
        reference: `package.module:attribute`.
        requires: What it needs.
    """
    try:
        return loaded_plugin(name).targets.resolve(reference, requires)
    except PluginError as error:
        pytest.skip(f"cannot be checked before test_targets of PluginConformance holds: {error}")
