"""The registries by which plugins, and callers, make things known to the lower layers by a name."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Generic, TypeVar, final

from ace.lazy_plugins import fill

__all__ = ["Registry"]

T = TypeVar("T")


@final
class Registry(Generic[T]):
    """Values by unique names. What plugins give is registered when the registry is first looked into.

    Invariant: the mapping of the values is replaced and never changed, so it is read without the lock.

    Args:
        kind: What `ace.plugins` calls the values, such as `embedders`.
        what: What one of them is called in errors, with its article, such as `an embedder`.

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
        """Make a value known. To do so twice with equal values has no effect.

        Args:
            name: The unique name.
            value: The value.

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
        """Forget a value; an unknown name is ignored.

        Args:
            name: Its name.
        """
        with self._lock:
            self._values = {known: value for known, value in self._values.items() if known != name}

    @property
    def known(self) -> Mapping[str, T]:
        """The values that are registered so far, by their names, in the order of their registration."""
        return self._values

    def all(self) -> Mapping[str, T]:
        """Return the values by their names, those of plugins included."""
        fill(self._kind)
        return self._values

    def sorted(self) -> list[T]:
        """Return the values, sorted by their names."""
        values = self.all()
        return [values[name] for name in sorted(values)]

    def get(self, name: str, *, built_in: bool = False) -> T | None:
        """Return the value of a name, or None.

        Args:
            name: The name.
            built_in: Whether to look among what comes with ace first, so that no plugin is loaded for it.

        Raises:
            PluginError: There is a plugin of this name, and it cannot be loaded.
        """
        if built_in:
            fill(self._kind, built_in=True)
        if not built_in or name not in self._values:
            fill(self._kind, name=name)
        return self._values.get(name)
