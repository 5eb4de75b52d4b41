"""Inspects chains: their retrievers, the prompts that they fill, and missing variables of these prompts.

A chain is composed with `|`, dicts, `assign`, `bind`, `with_fallbacks` and branches. Functions in it are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from ace_langchain.framework import load
from ace_langchain.inputs import SKILL_FIELDS
from ace_langchain.kinds import class_names, unwrapped

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

__all__ = [
    "has_later_place",
    "holds_retriever",
    "lacking",
    "with_clean_history",
    "with_skills_at_models",
    "with_skills_in_prompts",
]

_Change = Callable[[Any], Any]


def holds_retriever(runnable: object) -> bool:
    """Return whether a chain contains a retriever, which may search with the input of the chain."""
    return any("langchain_core:BaseRetriever" in class_names(part) for part in _parts(runnable))


def has_later_place(runnable: object) -> bool:
    """Return whether a prompt after the first step of a chain has a variable for the skills."""
    first = unwrapped(getattr(unwrapped(runnable), "first", None))
    return any(part is not first and _slots(part) for part in _parts(runnable))


def with_skills_in_prompts(runnable: Runnable[Any, Any], skills: str) -> Runnable[Any, Any]:
    """Return the chain with the variables for the skills filled in all of its prompts.

    Args:
        runnable: The chain. It is not changed.
        skills: The skills as text.
    """

    def fill(part: Any) -> Any:
        slots = _slots(part)
        return part.partial(**dict.fromkeys(slots, skills)) if slots else part

    filled: Runnable[Any, Any] = _changed(runnable, fill)
    return filled


def with_skills_at_models(runnable: Runnable[Any, Any], add: Callable[[Any], Any]) -> Runnable[Any, Any] | None:
    """Return the chain with the skills added to the inputs of its models; None if no model is found in it.

    Args:
        runnable: The chain. It is not changed.
        add: Adds the skills to the input of a model.
    """
    before = load("langchain_core.runnables", needed_by="ace-langchain").RunnableLambda(add, name="skills")
    has_model = any("langchain_core:BaseLanguageModel" in class_names(part) for part in _parts(runnable))

    def change(part: Any) -> Any:
        return before | part if "langchain_core:BaseLanguageModel" in class_names(unwrapped(part)) else part

    return _changed(runnable, change) if has_model else None


def with_clean_history(runnable: Any, clean: Callable[[Any], Any]) -> Any:
    """Return a runnable whose `RunnableWithMessageHistory`, if it is one, stores messages without the skills.

    Args:
        runnable: The runnable. It is not changed.
        clean: Returns a message without the skills.
    """
    names = class_names(runnable)
    if "langchain_core:RunnableWithMessageHistory" in names:
        return runnable.model_copy(update={"get_session_history": _cleaning(runnable.get_session_history, clean)})
    if "langchain_core:RunnableBindingBase" in names:
        inner = with_clean_history(runnable.bound, clean)
        return runnable if inner is runnable.bound else runnable.model_copy(update={"bound": inner})
    return runnable


def _cleaning(get_session_history: Callable[..., Any], clean: Callable[[Any], Any]) -> Callable[..., Any]:
    class CleanHistory:
        """Delegates to the user's history, and removes the skills from messages before they are stored."""

        def __init__(self, history: Any) -> None:
            self._history = history

        @property
        def messages(self) -> Any:
            return self._history.messages

        async def aget_messages(self) -> Any:
            return await self._history.aget_messages()

        def add_messages(self, messages: Sequence[Any]) -> None:
            self._history.add_messages([clean(message) for message in messages])

        async def aadd_messages(self, messages: Sequence[Any]) -> None:
            await self._history.aadd_messages([clean(message) for message in messages])

        def clear(self) -> None:
            self._history.clear()

        async def aclear(self) -> None:
            await self._history.aclear()

    @wraps(get_session_history)  # LangChain goes by the names of its arguments
    def get_clean_history(*args: Any, **kwargs: Any) -> Any:
        return CleanHistory(get_session_history(*args, **kwargs))

    return get_clean_history


def lacking(runnable: object, value: object) -> str | None:
    """Describe a missing prompt variable, or a step that cannot take its input; None if no problem is found.

    Fields are only known if they come from the input, from a dict of steps, or from `assign`.

    Args:
        runnable: The chain to check.
        value: Its input.
    """
    known: frozenset[object] | None = frozenset(value) if isinstance(value, Mapping) else None
    is_text = isinstance(value, str)
    for step in _sequence(unwrapped(runnable)):
        names = class_names(step)
        if "langchain_core:RunnableAssign" in names:
            if is_text:
                return "a text does not fit RunnablePassthrough.assign, with which the chain begins; give a dict"
            added: Mapping[str, object] = getattr(step.mapper, "steps__", {})
            known = None if known is None else known | frozenset(added)
        elif "langchain_core:RunnableParallel" in names:
            known = frozenset(step.steps__)
        elif "langchain_core:BasePromptTemplate" in names:
            missing = [] if known is None else sorted(set(step.input_variables) - set(step.partial_variables) - known)
            if missing:
                return (
                    f"a prompt of this chain needs {', '.join(map(repr, missing))}, and gets only "
                    f"{', '.join(sorted(map(repr, known or ())))}"
                )
            known = None
        elif "langchain_core:RunnablePassthrough" not in names:
            known = None
        is_text = is_text and "langchain_core:RunnablePassthrough" in names
    return None


def _sequence(runnable: Any) -> Iterator[Any]:
    """Yield the steps of a chain, without wrappers."""
    steps: Sequence[object] = getattr(runnable, "steps", ())
    if "langchain_core:RunnableSequence" not in class_names(runnable):
        steps = [runnable]
    for step in steps:
        inner = unwrapped(step)
        if inner is not runnable and "langchain_core:RunnableSequence" in class_names(inner):
            yield from _sequence(inner)
        else:
            yield inner


def _slots(part: object) -> list[str]:
    if "langchain_core:BasePromptTemplate" not in class_names(part):
        return []
    filled = set(getattr(part, "partial_variables", ()))
    return [name for name in SKILL_FIELDS if name in getattr(part, "input_variables", ()) and name not in filled]


def _parts(runnable: object) -> Iterator[object]:
    """Yield a chain and all of its parts."""
    waiting, seen = [runnable], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [inner for _, inner in _held(part)]


def _held(part: Any) -> Iterable[tuple[str, Any]]:
    """Yield the names and values of the fields in which a part of a chain holds others."""
    names = class_names(part)
    if "langchain_core:RunnableSequence" in names:
        return [("first", part.first), *(("middle", step) for step in part.middle), ("last", part.last)]
    if "langchain_core:RunnableParallel" in names:
        return [("steps__", step) for step in part.steps__.values()]
    if "langchain_core:RunnableAssign" in names:
        return [("mapper", part.mapper)]
    if "langchain_core:RunnableBindingBase" in names:
        return [("bound", part.bound)]
    if "langchain_core:RunnableWithFallbacks" in names:
        return [("runnable", part.runnable), *(("fallbacks", fallback) for fallback in part.fallbacks)]
    if "langchain_core:RunnableBranch" in names:
        return [*(("branches", then) for _, then in part.branches), ("default", part.default)]
    return []


def _changed(part: Any, change: _Change) -> Any:
    """Return a copy of a chain, with a function applied to each part that is not a composition itself."""
    names = class_names(part)
    is_model = "langchain_core:BaseLanguageModel" in class_names(unwrapped(part))
    held = [] if is_model else list(_held(part))
    if not held:
        return change(part)
    made = {id(inner): _changed(inner, change) for _, inner in held}
    if all(made[id(inner)] is inner for _, inner in held):
        return part
    if "langchain_core:RunnableSequence" in names:
        steps = [made[id(step)] for step in part.steps]
        sequence = load("langchain_core.runnables", needed_by="ace-langchain").RunnableSequence
        return sequence(*steps, name=part.name)
    if "langchain_core:RunnableParallel" in names:
        return part.model_copy(update={"steps__": {name: made[id(step)] for name, step in part.steps__.items()}})
    if "langchain_core:RunnableWithFallbacks" in names:
        fallbacks = [made[id(fallback)] for fallback in part.fallbacks]
        return part.model_copy(update={"runnable": made[id(part.runnable)], "fallbacks": fallbacks})
    if "langchain_core:RunnableBranch" in names:
        branches = [(condition, made[id(then)]) for condition, then in part.branches]
        return part.model_copy(update={"branches": branches, "default": made[id(part.default)]})
    [(name, inner)] = held
    return part.model_copy(update={name: made[id(inner)]})
