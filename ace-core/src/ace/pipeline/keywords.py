"""Suggests the right keyword where a caller has misspelt one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def suggesting_keywords(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method so that its error about an unknown keyword names the class of the object and the right keyword.

    Arguments are looked at only after a call has failed.

    Args:
        method: The method.

    Example:
        >>> class Greeter:
        ...     @suggesting_keywords
        ...     def greet(self, *, name: str) -> str:
        ...         return f"Hello {name}"
        >>> Greeter().greet(nmae="Ann")
        Traceback (most recent call last):
        ...
        TypeError: Greeter.greet() got an unexpected keyword argument 'nmae'; did you mean 'name'?
    """

    @functools.wraps(method)
    def suggesting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            # With a frame below this one, the method was entered, and the error is not about the call.
            traceback = error.__traceback__
            problem = None if traceback is None or traceback.tb_next else _problem(method, args, kwargs)
            if problem is None:
                raise
            raise TypeError(problem) from None

    return suggesting


def _problem(method: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str | None:
    import difflib
    import inspect  # both take longer to import than the rest of the engine, and are needed for an error only

    names = [
        each.name for each in inspect.signature(method).parameters.values() if each.kind is not each.VAR_POSITIONAL
    ]
    unknown = next((name for name in kwargs if name not in names), None)
    if unknown is None:
        return None
    owner = type(args[0]).__name__ if args else ""
    called = owner if method.__name__ == "__init__" else f"{owner}.{method.__name__}"
    near = difflib.get_close_matches(unknown, names[1:], 1)
    advice = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names[1:])}"
    return f"{called}() got an unexpected keyword argument {unknown!r}; {advice}"
