"""Determines the kind of a runnable, without importing the packages that may define it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

__all__ = ["Kind", "class_names", "kind_of", "may_add_system_message", "prompt_variables", "state_fields", "unwrapped"]

Kind = Literal["simple", "agent", "langgraph"]

_DEEPEST_WRAPPING = 20
_AGENT_EXECUTORS = frozenset({"langchain_classic:AgentExecutor", "langchain:AgentExecutor"})


def kind_of(runnable: object) -> Kind:
    """Return the kind of a runnable: a graph, a legacy AgentExecutor, or any other Runnable.

    Args:
        runnable: The runnable, possibly wrapped by `bind` or `with_config`.

    Example:
        >>> kind_of(object())
        'simple'
    """
    names = class_names(unwrapped(runnable))
    if "langgraph:Pregel" in names:
        return "langgraph"
    return "agent" if names & _AGENT_EXECUTORS else "simple"


def unwrapped(runnable: object) -> object:
    """Return the runnable inside wrappers such as those of `bind` and `with_config`."""
    for _ in range(_DEEPEST_WRAPPING):
        if not any(base.__name__ == "RunnableBindingBase" for base in type(runnable).__mro__):
            break
        runnable = getattr(runnable, "bound", runnable)
    return runnable


def state_fields(runnable: object) -> frozenset[str] | None:
    """Return the fields of a graph's state; None if the graph accepts any input."""
    graph = unwrapped(runnable)
    if "langgraph:CompiledStateGraph" not in class_names(graph):
        return None
    # Channels with other names are the graph's own.
    channels: Sequence[str] = list(getattr(graph, "channels", ()))
    return frozenset(name for name in channels if not name.startswith("__") and ":" not in name)


def prompt_variables(runnable: object) -> tuple[str, ...]:
    """Return the variables of the prompt at the beginning of a chain; empty if it does not begin with one."""
    first = unwrapped(getattr(unwrapped(runnable), "first", unwrapped(runnable)))
    if "langchain_core:BasePromptTemplate" not in class_names(first):
        return ()
    filled = set(getattr(first, "partial_variables", ()))
    return tuple(name for name in getattr(first, "input_variables", ()) if name not in filled)


def may_add_system_message(runnable: object) -> bool:
    """Return whether a system message at the beginning of an input is the only one that the model gets.

    Graphs and functions may add their own, which is not visible here.

    Args:
        runnable: A chat model, or a chain that begins with one or with a prompt.
    """
    first = unwrapped(getattr(unwrapped(runnable), "first", unwrapped(runnable)))
    names = class_names(first)
    if "langchain_core:BaseChatModel" in names:
        return True
    if "langchain_core:BaseChatPromptTemplate" not in names:
        return False
    messages: Sequence[object] = getattr(first, "messages", ())
    systems = ("langchain_core:SystemMessagePromptTemplate", "langchain_core:SystemMessage")
    return not any(class_names(message) & set(systems) for message in messages)


def class_names(value: object) -> set[str]:
    """Return the names of the classes of a value, each with its top-level package.

    Example:
        >>> sorted(class_names("text"))
        ['builtins:object', 'builtins:str']
    """
    return {f"{base.__module__.partition('.')[0]}:{base.__name__}" for base in type(value).__mro__}
