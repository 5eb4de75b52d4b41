"""Finds what a module exports and a caller can misspell an argument of."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, is_typeddict

import pytest

_NEVER = "qqzzq"


def callables_of(module: ModuleType) -> list[str]:
    """Return the exported names of functions, and of classes that callers make and whose arguments are declared.

    Errors, protocols and abstract classes are not made by callers, and Python names a class without arguments itself.
    """
    return [name for name in sorted(module.__all__) if _takes_arguments(getattr(module, name))]


def check_refusal(module: ModuleType, name: str) -> None:
    """Check that a wrong keyword is refused in the name of what was called, with a look at the right ones."""
    refuses(getattr(module, name), rf"{name}\(\) got an unexpected keyword argument '{_NEVER}'; (it takes|did you)")


def check_plain_refusal(module: ModuleType, name: str) -> None:
    """Check that Python's own refusal of a wrong keyword names what was called."""
    refuses(getattr(module, name), rf"{name}(\.__init__)?\(\) (got an unexpected keyword argument|missing)")


def refuses(function: Any, pattern: str) -> None:
    with pytest.raises(TypeError, match=rf"^{pattern}"):
        function(**{_NEVER: None})


def _takes_arguments(value: Any) -> bool:
    if inspect.isfunction(value):
        return bool(inspect.signature(value).parameters)
    if not inspect.isclass(value) or issubclass(value, BaseException) or inspect.isabstract(value):
        return False
    if is_typeddict(value):
        return False
    return value.__init__ is not object.__init__ and not getattr(value, "_is_protocol", False)
