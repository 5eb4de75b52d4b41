"""The registries in which plugins and users register objects by name for the lower layers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Generic, TypeVar, final

__all__ = ["Registry", "fill", "filled"]

T = TypeVar("T")

filled: set[tuple[str, str | None, bool]] = set()
"""The arguments with which `fill` has nothing left to do. `ace.plugins` changes it, and clears it when plugins change.
"""


def fill(kind: str, *, name: str | None = None, built_in: bool = False) -> None:
    """Register what plugins provide of one kind, unless that has been done already.

    This is the only place where a lower layer calls `ace.plugins`. It names the module at run time, so that nothing
    below the plugins depends on them, and a program that searches no registry does not import them.

    Args:
        kind: The kind, such as `trace_converters`.
        name: Only register the plugin of this name, if it exists; its errors are raised.
        built_in: Only register what is part of ace, without searching for plugins.
    """
    if (kind, name, built_in) not in filled:
        import_module("ace.plugins.registering").fill(kind, name=name, built_in=built_in)


@final
class Registry(Generic[T]):
    """Values by unique names. Those of plugins are registered when the registry is first searched.

    Invariant: the mapping of the values is replaced and never modified, so it is read without the lock.

    Args:
        kind: The name of the kind of values in `ace.plugins`, such as `embedders`.
        what: The name of one of them in errors, with its article, such as `an embedder`.

    Example:
        >>> registry = Registry[int]("examples", "an example")
        >>> registry.register("one", 1)
        >>> registry.register("one", 2)
        Traceback (most recent call last):
        ...
        ValueError: an example named 'one' is already registered; unregister it first or choose another name
    """

    def __init__(self, kind: str, what: str) -> None:
        self._kind = kind
        self._what = what
        self._lock = threading.Lock()
        self._values: Mapping[str, T] = {}

    def register(self, name: str, value: T) -> None:
        """Register a value. Registering an equal value again has no effect.

        Args:
            name: The unique name.

        Raises:
            ValueError: Another value has the name.
        """
        with self._lock:
            if name in self._values:
                if self._values[name] == value:
                    return
                raise ValueError(
                    f"{self._what} named {name!r} is already registered; unregister it first or choose another name"
                )
            self._values = {**self._values, name: value}

    def unregister(self, name: str) -> None:
        """Remove a value; an unknown name is ignored."""
        with self._lock:
            self._values = {known: value for known, value in self._values.items() if known != name}

    @property
    def known(self) -> Mapping[str, T]:
        """The values registered so far, by name, in the order of their registration."""
        return self._values

    def all(self) -> Mapping[str, T]:
        """Return the values by name, including those of plugins."""
        fill(self._kind)
        return self._values

    def sorted(self) -> list[T]:
        """Return the values, sorted by their names."""
        values = self.all()
        return [values[name] for name in sorted(values)]

    def get(self, name: str, *, built_in: bool = False) -> T | None:
        """Return the value of a name, or None.

        Args:
            built_in: Whether to search the built-in values first, so that no plugin is loaded for one of them.

        Raises:
            PluginError: A plugin has this name, but cannot be loaded.
        """
        if built_in:
            fill(self._kind, built_in=True)
        if not built_in or name not in self._values:
            fill(self._kind, name=name)
        return self._values.get(name)
