"""A middleware with which an agent of `create_agent` sees the skills."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ace import wrap_skillbook_for_external_agent
from ace.arguments import checked_arguments
from ace.protocols import SkillbookReader
from ace_langchain.framework import load
from ace_langchain.injection import restored
from ace_langchain.offer import offered_skills

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

__all__ = ["skillbook_middleware"]


@checked_arguments()
def skillbook_middleware(skillbook: SkillbookReader | Callable[[], str] | None = None) -> AgentMiddleware[Any, Any]:
    """Return a middleware that puts the skills into the system prompt of every model call.

    The skills are not stored in the state of the agent, so a conversation that goes on sees them once, and as they
    are now. In a run of `LangChainExecuteStep` the agent sees the skills of that run.

    Args:
        skillbook: The book, or a function that returns the text to show; None for an agent that learns in our runner
            only, with `inject="middleware"`.

    Raises:
        ImportError: `langchain` is not installed; the text says how to.

    Example:
        >>> from ace import Skillbook
        >>> type(skillbook_middleware(Skillbook())).__name__
        'SkillbookMiddleware'
    """
    if isinstance(skillbook, SkillbookReader):
        reader = skillbook
        return _middleware_class()(lambda: wrap_skillbook_for_external_agent(reader))
    return _middleware_class()(skillbook or (lambda: ""))


@lru_cache(maxsize=1)
def _middleware_class() -> Callable[[Callable[[], str]], AgentMiddleware[Any, Any]]:
    """Make the class on first use: its base comes from `langchain`, which other runnables do without."""
    base = load("langchain.agents.middleware", needed_by="skillbook_middleware").AgentMiddleware
    system_message = load("langchain_core.messages", needed_by="skillbook_middleware").SystemMessage

    class SkillbookMiddleware(base):  # type: ignore[misc, valid-type]  # a class that is loaded on first use
        """Puts the skills into the system prompt of every model call."""

        def __init__(self, skills: Callable[[], str]) -> None:
            super().__init__()
            self._skills = skills

        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(self._with_skills(request))

        async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return await handler(self._with_skills(request))

        def _with_skills(self, request: Any) -> Any:
            offered = offered_skills()
            skills = self._skills() if offered is None else offered
            if not skills:
                return request
            # Earlier turns of the thread may hold skills of runs that put them into the input.
            request = request.override(messages=[restored(message) for message in request.messages])
            first = request.messages[0] if request.messages else None
            if request.system_message is None and isinstance(first, system_message):
                # The caller gave it with the input; a second one would be refused by some models.
                merged = first.model_copy(update={"content": joined(first.content, skills)})
                return request.override(messages=[merged, *request.messages[1:]])
            own = None if request.system_message is None else request.system_message.content
            return request.override(system_message=system_message(content=joined(own, skills)))

    def joined(own: str | list[Any] | None, skills: str) -> str | list[Any]:
        if own is None or isinstance(own, str):
            return f"{own}\n\n{skills}" if own else skills
        return [*own, {"type": "text", "text": skills}]

    made: Callable[[Callable[[], str]], AgentMiddleware[Any, Any]] = SkillbookMiddleware
    return made
