"""What can be wrong with a plugin. Each error says who it is about, and what to do next."""

from __future__ import annotations

__all__ = [
    "MissingFrameworkError",
    "PluginApiError",
    "PluginConflictError",
    "PluginError",
    "PluginLoadError",
    "UnknownPluginError",
]


class PluginError(Exception):
    """Something is wrong with a plugin."""


class UnknownPluginError(PluginError, LookupError):
    """No plugin has this name, or the one that has it does not give what is wanted."""


class PluginConflictError(PluginError):
    """Two distributions claim one name, or one claims a name that is reserved for another."""


class PluginLoadError(PluginError):
    """A plugin could not be loaded, what it declares is wrong, or what it names does not exist."""


class PluginApiError(PluginLoadError):
    """A plugin is written for another version of the plugin API."""


class MissingFrameworkError(PluginError, ImportError):
    """A plugin needs a distribution that is not installed, or another version of it."""
