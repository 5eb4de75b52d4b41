"""Imports browser-use on first use, without its log messages; the error says what to install."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ace.plugins import MissingFrameworkError

__all__ = ["REQUIREMENT", "load"]

REQUIREMENT = "browser-use>=0.13.10,<0.14"

_BEFORE_IMPORT = {"BROWSER_USE_SETUP_LOGGING": "false"}
"""Otherwise the import configures the root logger."""
_AFTER_IMPORT = {
    "ANONYMIZED_TELEMETRY": "false",
    "BROWSER_USE_VERSION_CHECK": "false",
    "BROWSER_USE_CLOUD_HINTS": "false",
}
"""Set after the import has read the user's `.env`, so that the values in it take precedence."""


def load(module: str, *, needed_by: str) -> Any:
    """Import a module of browser-use, with telemetry and version checks off unless the user turned them on.

    Args:
        module: The name of the module, such as `browser_use.agent.views`.
        needed_by: The name of the object that requires it, for the error.

    Raises:
        MissingFrameworkError: The module cannot be imported. The message says what to install; the error is an
            `ImportError`.

    Example:
        >>> load("browser_use.exceptions", needed_by="this example").__name__
        'browser_use.exceptions'
    """
    _set_where_unset(_BEFORE_IMPORT)
    try:
        importlib.import_module("browser_use.config")
        importlib.import_module("browser_use.utils")
        _set_where_unset(_AFTER_IMPORT)
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingFrameworkError(
            f"{needed_by} needs {module.partition('.')[0]!r}, which cannot be imported ({error}); "
            f"install it with: python -m pip install {REQUIREMENT!r}"
        ) from error


def _set_where_unset(settings: dict[str, str]) -> None:
    for name, value in settings.items():
        os.environ.setdefault(name, value)
