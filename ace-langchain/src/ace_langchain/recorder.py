"""Records what happens inside a run, including a run that fails midway."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from ace.traces import TraceStep
from ace_langchain.calling import OutOfTimeError
from ace_langchain.messages import PlainMessage, plain_json, plain_message, text_of, tool_message_in
from ace_langchain.recording import Recording
from ace_langchain.result import ToolUse
from ace_langchain.steps import arguments_text, steps_of_message

__all__ = ["Recorder", "SearchGuard", "SkillsInSearchError"]


class SkillsInSearchError(ValueError):
    """A retriever was about to search with the skills."""


@final
class SearchGuard(BaseCallbackHandler):
    """Ends a run before a retriever searches with the skills, which would find documents about them.

    Args:
        skills: The skills as text; not empty.
    """

    raise_error = True
    run_inline = True

    def __init__(self, skills: str) -> None:
        self._heading = skills.partition("\n")[0]
        self.error: SkillsInSearchError | None = None

    def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
        """Check a query for the skills."""
        if self._heading in query:
            self.error = SkillsInSearchError(
                "a retriever was about to search with the skills, which are in the text that this runnable searches "
                "with; give the prompt a variable 'skillbook', or the state of the graph a field 'skillbook', for an "
                "agent take inject='middleware', or say how with inject=lambda value, skills: ..."
            )
            raise self.error


@final
class Recorder(BaseCallbackHandler):
    """A callback handler for one run. It keeps the events that the framework discards when a part of the run fails."""

    run_inline = True  # otherwise an asynchronous run calls it from other threads, in any order

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tree = RunTree()
        self._steps: list[TraceStep] = []
        self._uses: list[ToolUse] = []
        self._open_uses: dict[UUID, ToolUse] = {}
        self._open_calls: dict[UUID, tuple[str, str]] = {}
        self._answers: list[PlainMessage] = []
        self._unanswered: dict[str, str] = {}
        self._failed: list[tuple[BaseException, str]] = []
        self._usage: dict[str, int] = {"model_calls": 0, "tool_calls": 0}

    def recording(self) -> Recording:
        """Return an immutable copy of the recording so far."""
        with self._lock:
            uses = tuple(ToolUse(**use) for use in self._uses)
            return Recording(tuple(self._steps), uses, tuple(self._answers), dict(self._usage))

    def place_of(self, error: BaseException) -> str:
        """Return the part that raised an error, such as `tools/divide`; empty if it is not known.

        For a run that timed out, it is the part that was still running.

        Args:
            error: The error that ended the run.
        """
        if isinstance(error, OutOfTimeError):
            at_work = (place for failed, place in self._failed if isinstance(failed, asyncio.CancelledError))
            return next(at_work, "")
        seen: BaseException | None = error
        while seen is not None:
            for failed, place in self._failed:
                if failed is seen:
                    return place
            seen = seen.__cause__ or seen.__context__
        return ""

    def see_decision(self, decision: object) -> None:
        """Record the answer to an interrupted graph.

        Args:
            decision: The value with which the graph is resumed.
        """
        with self._lock:
            self._add("message", "user", text_of(decision), "")

    def recall(self, messages: Sequence[object]) -> None:
        """Add the steps of a run that was interrupted in another process.

        Args:
            messages: The messages of its thread after the question.
        """
        with self._lock:
            for message in messages:
                answer = plain_message(message)
                self._steps += steps_of_message(answer, self._place(""))
                if answer["type"] == "ai":
                    self._answers.append(answer)
                    self._unanswered.update({call["id"]: call["name"] for call in answer["tool_calls"] if call["id"]})
                self._unanswered.pop(answer["tool_call_id"], None)

    def see_results(self, messages: Sequence[object]) -> None:
        """Add tool results without a tool event: those of unknown tools, or of calls that a middleware answers.

        Args:
            messages: The input of a model, or the final conversation of a graph.
        """
        with self._lock:
            for message in messages:
                plain = plain_message(message)
                name = self._unanswered.pop(plain["tool_call_id"], None) if plain["type"] == "tool" else None
                if name is not None:
                    error = plain["content"] if plain["is_error"] else None
                    self._add("result", plain["name"] or name, plain["content"], "", is_error=plain["is_error"])
                    self._uses.append(ToolUse(tool=name, input=None, output=plain["content"], error=error))

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record the parent of a part."""
        self._begin(serialized, run_id, parent_run_id, kwargs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record an error once, in the part that raised it."""
        with self._lock:
            if _is_control_flow(error) or any(failed is error for failed, _ in self._failed):
                return
            place = self._tree.path(run_id)
            self._fail(error, place, place.rpartition("/")[2])

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the tool results in the input of the model."""
        self._begin(serialized, run_id, parent_run_id, kwargs)
        for conversation in messages:
            self.see_results(conversation)

    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record the parent of a model without messages."""
        self._begin(serialized, run_id, parent_run_id, kwargs)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the answer of a model, and its usage."""
        with self._lock:
            self._usage["model_calls"] += 1
            for generations in response.generations:
                if not generations:
                    continue
                message = getattr(generations[0], "message", None)
                answer = plain_message(message or {"type": "ai", "content": generations[0].text})
                self._answers.append(answer)
                self._unanswered.update({call["id"]: call["name"] for call in answer["tool_calls"] if call["id"]})
                self._steps += steps_of_message(answer, self._place(self._tree.parent_path(run_id)))
                for name, count in answer["usage"].items():
                    self._usage[name] = self._usage.get(name, 0) + count

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a model failed."""
        with self._lock:
            self._usage["model_calls"] += 1
            self._fail(error, self._tree.path(run_id), self._tree.name(run_id))

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the use of a tool, and the call if it is not in the answer of a model."""
        name = str((serialized or {}).get("name") or kwargs.get("name") or "tool")
        given = input_str if inputs is None else plain_json(inputs)
        with self._lock:
            self._tree.add(run_id, parent_run_id, name)
            self._usage["tool_calls"] += 1
            use = ToolUse(tool=name, input=given, output="", error=None)
            self._uses.append(use)
            self._open_uses[run_id] = use
            call_id = self._call_id(name, kwargs.get("tool_call_id"))
            self._open_calls[run_id] = (call_id, name)
            if self._unanswered.pop(call_id, None) is None:
                self._add("call", name, arguments_text(given), self._tree.parent_path(run_id))

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the result of a tool."""
        message = tool_message_in(output)
        failed = message is not None and plain_message(message)["is_error"]
        text = text_of(output if message is None else message)
        with self._lock:
            use = self._open_uses.pop(run_id, None)
            if use is not None:
                use["output"] = text
                use["error"] = text if failed else None
            place = self._tree.parent_path(run_id)
            self._add("result", self._tree.name(run_id), text, place, is_error=failed)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a tool raised."""
        with self._lock:
            use = self._open_uses.pop(run_id, None)
            if _is_control_flow(error):
                # The graph will run it again when it is resumed.
                self._unanswered.update([self._open_calls.pop(run_id, ("", ""))])
                self._uses = [other for other in self._uses if other is not use]
                self._usage["tool_calls"] -= use is not None
                return
            if use is not None:
                use["error"] = _told(error)
            self._fail(error, self._tree.path(run_id), self._tree.name(run_id))

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record a search."""
        name = str(kwargs.get("name") or (serialized or {}).get("name") or "retriever")
        with self._lock:
            self._tree.add(run_id, parent_run_id, name)
            self._add("call", name, query, self._tree.parent_path(run_id))

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **kwargs: Any) -> None:
        """Record the results of a search."""
        with self._lock:
            found = "\n\n".join(text_of(document) for document in documents)
            self._add("result", self._tree.name(run_id), found, self._tree.parent_path(run_id))

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a search failed."""
        with self._lock:
            self._fail(error, self._tree.path(run_id), self._tree.name(run_id))

    def _begin(self, serialized: Any, run_id: UUID, parent_run_id: UUID | None, described: Mapping[str, Any]) -> None:
        with self._lock:  # concurrent parts may be in different threads
            self._tree.add(run_id, parent_run_id, described.get("name") or (serialized or {}).get("name"))

    def _call_id(self, name: str, given: object) -> str:
        """Return the id of the call that a tool answers, which older releases of LangChain do not provide."""
        waiting = (call_id for call_id, tool in self._unanswered.items() if tool == name)
        return str(given) if given else next(waiting, "")

    def _fail(self, error: BaseException, place: str, name: str) -> None:
        self._failed.append((error, place))
        self._add("result", name, _told(error), place.rpartition("/")[0], is_error=True)

    def _add(self, kind: Any, name: str, content: str, path: str, *, is_error: bool = False) -> None:
        step = TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=self._place(path))
        self._steps.append(step)

    def _place(self, path: str) -> str:
        number = len(self._steps) + 1
        return f"{number} in {path}" if path else str(number)


def _told(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it was still at work when the run was ended"
    return f"{type(error).__name__}: {error}"


def _is_control_flow(error: BaseException) -> bool:
    """Return whether a graph raised an error to interrupt itself, or to jump to a parent graph."""
    return any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__)


@final
class RunTree:
    """Names every part of a run by its path.

    Example:
        >>> tree = RunTree()
        >>> tree.add(UUID(int=1), None, "LangGraph")
        >>> tree.add(UUID(int=2), UUID(int=1), "tools")
        >>> tree.add(UUID(int=3), UUID(int=2), "divide")
        >>> tree.path(UUID(int=3)), tree.parent_path(UUID(int=3)), tree.path(UUID(int=1))
        ('tools/divide', 'tools', 'LangGraph')
    """

    def __init__(self) -> None:
        self._parts: dict[UUID, tuple[UUID | None, str]] = {}

    def add(self, run_id: UUID, parent: UUID | None, name: object) -> None:
        """Add a part.

        Args:
            run_id: The id of the part.
            parent: The id of the enclosing part.
            name: The name of the part.
        """
        self._parts[run_id] = (parent, str(name or "run"))

    def name(self, run_id: UUID) -> str:
        """Return the name of a part."""
        return self._parts.get(run_id, (None, "run"))[1]

    def path(self, run_id: UUID) -> str:
        """Return the names from below the whole run down to a part; of the whole run, its own name.

        Args:
            run_id: The id of the part.
        """
        above = self.parent_path(run_id)
        return f"{above}/{self.name(run_id)}" if above else self.name(run_id)

    def parent_path(self, run_id: UUID) -> str:
        """Return the path of the part in which a part runs; empty for the whole run.

        Args:
            run_id: The id of the part.
        """
        names: list[str] = []
        parent = self._parts.get(run_id, (None, ""))[0]
        while parent is not None and parent in self._parts:
            following, name = self._parts[parent]
            if following is not None and following in self._parts:
                names.append(name)
            parent = following
        return "/".join(reversed(names))
