"""Tells what a runnable is, without importing the packages that it may come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

__all__ = ["Kind", "class_names", "kind_of", "may_add_system_message", "prompt_variables", "state_fields", "unwrapped"]

Kind = Literal["simple", "agent", "langgraph"]

_DEEPEST_WRAPPING = 20
_AGENT_EXECUTORS = frozenset({"langchain_classic:AgentExecutor", "langchain:AgentExecutor"})


def kind_of(runnable: object) -> Kind:
    """Tell what a runnable is: a graph, a legacy AgentExecutor, or any other Runnable.

    Args:
        runnable: The runnable, wrapped by `bind` or `with_config` or not.

    Example:
        >>> kind_of(object())
        'simple'
    """
    names = class_names(unwrapped(runnable))
    if "langgraph:Pregel" in names:
        return "langgraph"
    return "agent" if names & _AGENT_EXECUTORS else "simple"


def unwrapped(runnable: object) -> object:
    """Return the runnable inside of what `bind`, `with_config` and the like made.

    Args:
        runnable: The runnable.
    """
    for _ in range(_DEEPEST_WRAPPING):
        if not any(base.__name__ == "RunnableBindingBase" for base in type(runnable).__mro__):
            break
        runnable = getattr(runnable, "bound", runnable)
    return runnable


def state_fields(runnable: object) -> frozenset[str] | None:
    """Return the fields of a graph's state; None if it takes any input.

    Args:
        runnable: A graph.
    """
    graph = unwrapped(runnable)
    if "langgraph:CompiledStateGraph" not in class_names(graph):
        return None
    # Channels with other names are the graph's own.
    channels: Sequence[str] = list(getattr(graph, "channels", ()))
    return frozenset(name for name in channels if not name.startswith("__") and ":" not in name)


def prompt_variables(runnable: object) -> tuple[str, ...]:
    """Return the variables of the prompt with which a chain begins; empty if it does not begin with one.

    Args:
        runnable: A chain.
    """
    first = unwrapped(getattr(unwrapped(runnable), "first", unwrapped(runnable)))
    if "langchain_core:BasePromptTemplate" not in class_names(first):
        return ()
    filled = set(getattr(first, "partial_variables", ()))
    return tuple(name for name in getattr(first, "input_variables", ()) if name not in filled)


def may_add_system_message(runnable: object) -> bool:
    """Tell whether a system message in front of an input is the only one that its model gets.

    Graphs and functions may have one of their own, which cannot be seen.

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
    """Return the names of the classes of a value, each with the package that it comes from.

    Args:
        value: Anything.

    Example:
        >>> sorted(class_names("text"))
        ['builtins:object', 'builtins:str']
    """
    return {f"{base.__module__.partition('.')[0]}:{base.__name__}" for base in type(value).__mro__}
