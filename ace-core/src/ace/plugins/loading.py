"""Loads one plugin: imports its hook module, calls its hooks, and checks what they yield."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from ace.plugins import hooks, specs
from ace.plugins.api_version import check_api
from ace.plugins.errors import PluginLoadError
from ace.plugins.hooks import HOOKS, hook_names, undecorated_hook, unknown_hook
from ace.plugins.plugin_code import plugin_code
from ace.plugins.specs import Spec
from ace.plugins.targets import Targets

if TYPE_CHECKING:
    from ace.plugins.discovery import InstalledPlugin

__all__ = ["LoadedPlugin", "import_hooks", "load", "load_hooks"]

SomeSpec = TypeVar("SomeSpec", bound=Spec)


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin whose hooks have been called. None of its targets has to be imported."""

    name: str
    specs: Mapping[str, tuple[Spec, ...]]
    """What it gives, by kind."""
    targets: Targets

    def specs_of(self, kind: type[SomeSpec]) -> list[SomeSpec]:
        """Return its specs of one class."""
        return [spec for found in self.specs.values() for spec in found if isinstance(spec, kind)]

    def resolve(self, spec: Spec) -> Any:
        """Return what a spec of this plugin names, see `Targets.resolve`."""
        return self.targets.resolve(spec.target, spec.requires)


def load(plugin: InstalledPlugin) -> LoadedPlugin:
    """Import the hook module of a plugin, and load what it gives.

    Args:
        plugin: An installed plugin.

    Raises:
        PluginError: It cannot be loaded; the text says why.
    """
    return load_hooks(import_hooks(plugin), plugin.name, _owner(plugin))


def import_hooks(plugin: InstalledPlugin) -> object:
    """Import the hook module of a plugin; none of its hooks is called.

    Args:
        plugin: An installed plugin.

    Raises:
        PluginError: It cannot be imported; the text says why.
    """
    module, _, attributes = plugin.module.partition(":")
    owner = _owner(plugin)
    with plugin_code(
        f"{owner}: its hook module {plugin.module!r} cannot be imported",
        f"importing the hook module of {owner}",
        f"; uninstall or update it, or switch it off: ACE_PLUGINS_DISABLED={plugin.name}",
    ):
        hook_module: object = import_module(module)
        for attribute in filter(None, attributes.split(".")):
            hook_module = getattr(hook_module, attribute)
    return hook_module


def _owner(plugin: InstalledPlugin) -> str:
    return f"plugin {plugin.name!r} of {plugin.origin}"


def load_hooks(hook_module: object, name: str, owner: str, *, own_names: bool = True) -> LoadedPlugin:
    """Call the hooks of a module or another object that has them, in a plugin manager of its own.

    Args:
        hook_module: The object.
        name: The name of the plugin.
        owner: The plugin and its distribution, for errors.
        own_names: Whether all specs must have the name of the plugin.

    Raises:
        PluginError: A hook or a spec is wrong.
    """
    check_api(getattr(hook_module, "ACE_API", None), owner)
    _check_decorators(hook_module, owner)
    manager = pluggy.PluginManager("ace")
    manager.add_hookspecs(hooks)
    _register(manager, hook_module, name, owner)
    found = {kind: _yielded(manager, kind, owner) for kind in HOOKS}
    given = {kind: specs for kind, specs in found.items() if specs}
    if not given:
        raise PluginLoadError(f"{owner}: it provides nothing; the hooks are {hook_names()}, each under @hookimpl")
    if own_names:
        _check_names(given, name, owner)
    return LoadedPlugin(name, given, Targets(owner))


def _register(manager: pluggy.PluginManager, hook_module: object, name: str, owner: str) -> None:
    try:
        manager.register(hook_module, name)
    except pluggy.PluginValidationError as error:
        said = " ".join(str(error).split())
        raise PluginLoadError(f"{owner}: a hook takes no arguments: {said}") from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        callers = manager.get_hookcallers(hook_module) or []
        unknown = next(caller.name for caller in callers if caller.name.removeprefix("ace_") not in HOOKS)
        raise PluginLoadError(f"{owner}: {unknown_hook(unknown)}") from error


def _check_decorators(hook_module: object, owner: str) -> None:
    for kind in HOOKS:
        hook = getattr(hook_module, f"ace_{kind}", None)
        if callable(hook) and not hasattr(hook, "ace_impl"):
            raise PluginLoadError(f"{owner}: {undecorated_hook(f'ace_{kind}')}")


def _yielded(manager: pluggy.PluginManager, kind: str, owner: str) -> tuple[Spec, ...]:
    """Call one hook and check what it yields."""
    wanted: type[Spec] = getattr(specs, HOOKS[kind])
    with plugin_code(f"{owner}: ace_{kind} failed", f"calling ace_{kind} of {owner}"):
        found = [spec for result in getattr(manager.hook, f"ace_{kind}")() for spec in _iterable(result, kind, wanted)]
    for spec in found:
        if type(spec) is not wanted:
            raise PluginLoadError(f"{owner}: ace_{kind} must yield {wanted.__name__}, and yielded {spec!r}")
    return tuple(found)


def _iterable(result: object, kind: str, wanted: type[Spec]) -> Iterable[Any]:
    if not isinstance(result, Iterable):
        raise TypeError(f"it returns a {type(result).__name__}; yield {wanted.__name__}(...)")
    return result


def _check_names(given: Mapping[str, tuple[Spec, ...]], name: str, owner: str) -> None:
    for kind, found in given.items():
        wrong = next((spec for spec in found if spec.name != name), None)
        if wrong is not None:
            raise PluginLoadError(
                f"{owner}: ace_{kind} yields the name {wrong.name!r}; it must be that of the entry point, {name!r}"
            )
        if len(found) > 1:
            raise PluginLoadError(f"{owner}: ace_{kind} yields {name!r} {len(found)} times; one is enough")
