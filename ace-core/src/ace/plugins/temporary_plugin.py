"""`temporary`: a plugin that is there within a `with` block, for tests and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ace.plugins.catalogue import CataloguedPlugin, catalogue
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.loading import load_hooks
from ace.plugins.registering import forget

__all__ = ["temporary"]


@contextmanager
def temporary(plugin: object, *, name: str) -> Iterator[None]:
    """Have a plugin in this process within a `with` block. It hides an installed one of the same name.

    Args:
        plugin: A hook module, or another object with `ACE_API` and hooks.
        name: Its name, as its entry point would have it.

    Raises:
        PluginError: It is not right; the text says what is wrong.

    Example:
        >>> from ace.plugins import RunnerSpec, get_runner, hookimpl
        >>> class Hooks:
        ...     ACE_API = 1
        ...
        ...     @hookimpl
        ...     def ace_runners(self):
        ...         yield RunnerSpec(name="acme", target="ace.runners:TraceAnalyser")
        >>> with temporary(Hooks(), name="acme"):
        ...     get_runner("acme").__name__
        'TraceAnalyser'
    """
    module = str(getattr(plugin, "__name__", type(plugin).__qualname__))
    installed = InstalledPlugin(name=name, module=module, distribution="temporary", version="")
    loaded = load_hooks(plugin, name, f"plugin {name!r} of {module}")
    there = CataloguedPlugin(installed, loaded)
    for hidden in catalogue().plugins():
        if hidden.installed.name == name:
            forget(hidden)
    try:
        with catalogue().including(there):
            forget(there)
            yield
    finally:
        forget(there)
