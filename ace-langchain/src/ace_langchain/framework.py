"""Imports LangChain on first use; the error says what to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from ace.plugins import MissingFrameworkError

__all__ = ["REQUIREMENT", "load"]

REQUIREMENT = "langchain-core>=1.6,<2"

_REQUIREMENTS = {"langchain_core": REQUIREMENT, "langchain": "langchain>=1.4,<2", "langgraph": "langgraph>=1.1,<2"}


def load(module: str, *, needed_by: str) -> ModuleType:
    """Import a module of LangChain.

    Args:
        module: The name of the module, such as `langchain_core.messages`.
        needed_by: The name of the object that requires it, for the error.

    Raises:
        MissingFrameworkError: The module cannot be imported. The message says what to install; the error is an
            `ImportError`.

    Example:
        >>> load("langchain_core.messages", needed_by="this example").__name__
        'langchain_core.messages'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        requirement = _REQUIREMENTS[module.partition(".")[0]]
        raise MissingFrameworkError(
            f"{needed_by} needs {module!r}, which cannot be imported ({error}); "
            f"install it with: python -m pip install {requirement!r}"
        ) from error
