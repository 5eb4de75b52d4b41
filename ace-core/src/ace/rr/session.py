"""The names that every session has, besides the trace: `FINAL`, `FINAL_VAR`, `SHOW_VARS` and the functions of the host.

The sandbox is fed the text of this file after that of `ace.rr.trace_context`; on the host, it is only read. All values
cross the boundary as JSON text, through the one function `_host` that the sandbox serves.
"""

from __future__ import annotations

import json as _json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ace.rr.trace_context import TraceContext, TraceSteps

    def _host(name: str, arguments: str) -> str: ...


__all__ = ["FINAL", "FINAL_VAR", "SHOW_VARS"]

LONGEST_EXCHANGE = 1_000_000
"""The maximum length of the JSON of one host call or submitted value, in characters."""

_builtin_len = len


class _HostFunction:
    """A host function, called with JSON values."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        text = _json.dumps([arguments, keywords])
        # The host checks it too, but only after it has received all of it.
        if len(text) > LONGEST_EXCHANGE:
            raise ValueError(
                f"{self._name} was given {len(text):,} characters as JSON; the limit is {LONGEST_EXCHANGE:,}"
            )
        return _json.loads(_host(self._name, text))

    def __repr__(self) -> str:
        return f"<function {self._name}>"


_submit = _HostFunction("FINAL")


def FINAL(value: Any) -> None:  # noqa: N802  # so that it stands out in the code of a model
    """Submit the findings.

    Args:
        value: A JSON value. The last call of a turn counts.
    """
    _submit(value)


def FINAL_VAR(name: Any) -> None:  # noqa: N802
    """Submit the value of a variable.

    Args:
        name: The name of the variable.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError("FINAL_VAR takes the name of a variable as a text; FINAL takes a value")
    try:
        value = eval(name)
    except NameError:
        raise NameError(f"no variable is named {name!r}; SHOW_VARS() lists the variables") from None
    _submit(value)


def SHOW_VARS(variables: Mapping[str, Any]) -> None:  # noqa: N802
    """Print the variables that the code has set, with their types and sizes.

    Args:
        variables: `locals()`, which the sandbox puts into a call without arguments: a function of this interpreter
            cannot see the variables of the session.
    """
    lines = []
    for name, value in variables.items():
        if name.startswith("_") or (name in _predefined and _predefined[name] is value):
            continue
        size = f", length {len(value)}" if isinstance(value, (str, list, tuple, dict, set)) else ""
        lines.append(f"{name}: {type(value).__name__}{size}")
    print("\n".join(lines) if lines else "no variables")  # noqa: T201  # in a session, this is the output of the code


def len(value: Any) -> int:  # noqa: A001  # the interpreter does not call `__len__` of a class
    """Return the length of a value."""
    return value.__len__() if isinstance(value, (TraceContext, TraceSteps)) else _builtin_len(value)


_predefined: dict[str, Any] = {}


class _ModuleFunction:
    """A function of a module, as an object: only objects of the session can be found again from outside."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(*arguments, **keywords)

    def __repr__(self) -> str:
        return f"<function {self._name}>"


def _module(source: str) -> dict[str, _ModuleFunction]:
    """Run the source of a module, and return its public functions and classes."""
    names: dict[str, Any] = {}
    exec(source, names)
    functions = {name: _ModuleFunction(name, names[name]) for name in names["__all__"]}
    _kept.append(functions)
    return functions


_kept: list[dict[str, _ModuleFunction]] = []
