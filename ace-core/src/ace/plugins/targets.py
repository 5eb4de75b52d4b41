"""Imports what a spec names, when it is first used, and once."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import final

from ace.plugins.errors import MissingFrameworkError, PluginError, PluginLoadError
from ace.plugins.plugin_code import plugin_code
from ace.plugins.requirements import check_requirements

__all__ = ["Targets"]


@final
class Targets:
    """What the specs of one plugin name, as far as it is imported.

    Args:
        owner: The plugin and its distribution, for errors.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._found: dict[str, object] = {}
        self._lock = threading.RLock()

    def resolve(self, reference: str, requires: tuple[str, ...] = ()) -> object:
        """Return what a reference names. One that failed is tried again: what was missing may be there by then.

        Args:
            reference: `package.module:attribute`.
            requires: What it needs.

        Raises:
            MissingFrameworkError: Something that it needs is not installed.
            PluginLoadError: It could not be imported, or is not there.
        """
        with self._lock:
            if reference not in self._found:
                check_requirements(requires, needed_by=self.owner)
                self._found[reference] = self._imported(reference)
            return self._found[reference]

    def _imported(self, reference: str) -> object:
        module, _, attributes = reference.partition(":")
        with plugin_code(
            f"{self.owner}: {reference!r} cannot be imported",
            f"importing {reference!r} of {self.owner}",
            "; `ace plugins --check` shows where",
        ):
            try:
                found: object = import_module(module)
            except ModuleNotFoundError as error:
                raise self._missing_module(reference, error) from error
            for attribute in attributes.split("."):
                try:
                    found = getattr(found, attribute)
                except AttributeError as error:
                    raise PluginLoadError(
                        f"{self.owner}: {reference!r} does not exist: the module {module!r} has no {attributes!r}; "
                        "the spec or the module is wrong"
                    ) from error
        return found

    def _missing_module(self, reference: str, error: ModuleNotFoundError) -> PluginError:
        own = reference.partition(".")[0].partition(":")[0]
        if error.name is None or error.name.partition(".")[0] == own:
            return PluginLoadError(
                f"{self.owner}: {reference!r} cannot be imported: {error}; the spec or the package is wrong"
            )
        missing = MissingFrameworkError(
            f"{self.owner}: {reference!r} needs the module {error.name!r}, which is not installed; "
            "the spec should name its distribution in requires"
        )
        missing.name = error.name
        return missing
