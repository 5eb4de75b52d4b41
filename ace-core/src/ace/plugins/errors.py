"""Errors about plugins. Each message names the plugin and its distribution, and says what to do."""

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
    """The base class of errors about plugins."""


class UnknownPluginError(PluginError, LookupError):
    """No plugin has this name, it is disabled, or it does not provide what was requested."""


class PluginConflictError(PluginError):
    """Several distributions provide a plugin of the same name, or the name is reserved for another distribution."""


class PluginLoadError(PluginError):
    """A plugin could not be loaded, or its specs are invalid or name a target that does not exist."""


class PluginApiError(PluginLoadError):
    """A plugin is written for another version of the plugin API."""


class MissingFrameworkError(PluginError, ImportError):
    """A plugin requires a distribution that is not installed, or another version of it."""
