"""A middleware that adds the skills to the prompt of an agent of `create_agent`, and may record its runs."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace.integrations import checked_arguments, open_private
from ace.protocols import SkillbookReader
from ace_langchain.framework import load
from ace_langchain.injection import restored
from ace_langchain.offer import offered_skills, skills_text

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

__all__ = ["skillbook_middleware"]

Record = Callable[[dict[str, object]], object]


@checked_arguments()
def skillbook_middleware(
    skillbook: SkillbookReader | Callable[[], str] | None = None,
    *,
    agent: str = "",
    record: str | Path | Record | None = None,
) -> AgentMiddleware[Any, Any]:
    """Return a middleware that adds the skills to the system prompt of every model call, and may record the runs.

    The skills are not stored in the state of the agent, so a continued conversation sees the current ones, once. In a
    run of `LangChainExecuteStep`, the agent sees the skills of that run.

    Args:
        skillbook: The skillbook, or a function that returns the text to show; None for an agent that runs only in the
            runner, with `inject="middleware"`.
        agent: The name of the agent or sub-agent. Only that agent gets the skills in the section `agent:NAME`.
        record: Where to record the runs of the agent, so that ACE can learn from them without the runner: a file, to
            which each run appends a line for `ace learn FILE` or `records_in`; or a function that receives each record.
            A run that fails, reaches a limit, is cancelled or is not streamed to its end is recorded with its error. Of
            several records of a thread, the newest is used.

    Raises:
        ImportError: `langchain` is not installed; the message says how to install it.

    Example:
        >>> from ace import Skillbook
        >>> type(skillbook_middleware(Skillbook())).__name__
        'SkillbookMiddleware'
    """
    made = _middleware_class() if record is None else _recording_class()
    middleware: AgentMiddleware[Any, Any] = made(_text_of(skillbook, agent), agent, _recorder(record))
    return middleware


def _text_of(skillbook: SkillbookReader | Callable[[], str] | None, agent: str) -> Callable[[], str]:
    """Return the source of the skills outside our runner."""
    if isinstance(skillbook, SkillbookReader):
        return lambda: skills_text(skillbook, agent)
    return skillbook or (lambda: "")


def _recorder(record: str | Path | Record | None) -> Record:
    if callable(record):
        return record
    path = "" if record is None else os.fspath(record)

    def append(line: dict[str, object]) -> None:
        # Each line is written at once, so that lines of concurrent agents are not mixed.
        data = json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        file = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

    return append


@lru_cache(maxsize=1)
def _middleware_class() -> Any:
    """Create the class on first use: its base class is in `langchain`, which other runnables do not need."""
    base = load("langchain.agents.middleware", needed_by="skillbook_middleware").AgentMiddleware
    system_message = load("langchain_core.messages", needed_by="skillbook_middleware").SystemMessage

    class SkillbookMiddleware(base):  # type: ignore[misc, valid-type]  # a class that is loaded on first use
        """Adds the skills to the system prompt of every model call."""

        def __init__(self, skills: Callable[[], str], agent: str, record: Record) -> None:
            super().__init__()
            self._skills = skills
            self._agent = agent
            self._record = record

        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(self._with_skills(request))

        async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return await handler(self._with_skills(request))

        def _with_skills(self, request: Any) -> Any:
            offered = offered_skills(self._agent)
            skills = self._skills() if offered is None else offered
            if not skills:
                return request
            # Earlier turns of the thread may contain skills that were added to the input.
            if offered is None or self._agent == "":
                request = request.override(messages=[restored(message) for message in request.messages])
            first = request.messages[0] if request.messages else None
            if request.system_message is None and isinstance(first, system_message):
                # It was part of the input; some models reject a second system message.
                merged = first.model_copy(update={"content": _joined(first.content, skills)})
                return request.override(messages=[merged, *request.messages[1:]])
            own = None if request.system_message is None else request.system_message.content
            return request.override(system_message=system_message(content=_joined(own, skills)))

    return SkillbookMiddleware


@lru_cache(maxsize=1)
def _recording_class() -> Any:
    """Create the class that also records."""
    base = _middleware_class()
    get_config = load("langgraph.config", needed_by="skillbook_middleware").get_config
    from ace_langchain.messages import plain_json
    from ace_langchain.run_ends import run_ends

    ends = run_ends()
    messages_to_dict = load("langchain_core.messages", needed_by="skillbook_middleware").messages_to_dict

    class RecordingSkillbookMiddleware(base):  # type: ignore[misc, valid-type]  # a class that is made on first use
        """Records each run of the agent, too."""

        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            self._watch(request.state)
            return super().wrap_model_call(request, handler)

        async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            self._watch(request.state)
            return await super().awrap_model_call(request, handler)

        def _watch(self, state: Any) -> None:
            config = get_config()
            thread = str(config.get("configurable", {}).get("thread_id") or uuid.uuid4())
            ends.watch(config["callbacks"].parent_run_id, state["messages"], partial(self._keep, thread))

        def _keep(
            self, thread: str, messages: Sequence[Any], state: Mapping[str, Any], task: Mapping[str, str] | None
        ) -> None:
            plain = messages_to_dict([restored(message) for message in messages])
            values: dict[str, object] = {"messages": plain}
            if state.get("structured_response") is not None:
                values["structured_response"] = plain_json(state["structured_response"])
            self._record(_snapshot(values, thread, self._agent, [] if task is None else [task]))

    return RecordingSkillbookMiddleware


def _snapshot(
    values: Mapping[str, Any], thread: str, agent: str, tasks: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    """Return what `StateSnapshot._asdict()` would give: the newest one of a thread is learned from."""
    messages = values["messages"]
    # Sub-agents may run in the thread of the agent that calls them, with messages of their own.
    first = messages[0].get("data") if messages else None
    begun = first.get("id") if isinstance(first, Mapping) else None
    return {
        "values": dict(values),
        "next": [str(task["name"]) for task in tasks],
        "config": {"configurable": {"thread_id": f"{thread} {agent} {begun or ''}".rstrip()}},
        "metadata": {"step": len(messages), **({"agent": agent} if agent else {})},
        "created_at": f"{time.time():.6f}",
        "tasks": [dict(task) for task in tasks],
    }


def _joined(own: str | list[Any] | None, skills: str) -> str | list[Any]:
    if own is None or isinstance(own, str):
        return f"{own}\n\n{skills}" if own else skills
    return [*own, {"type": "text", "text": skills}]
