"""Chat models, tools and agents for the tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import Field, PrivateAttr

Answer = str | AIMessage | BaseException


def text_of(messages: Sequence[BaseMessage]) -> str:
    """All that the model is shown."""
    return "\n".join(str(message.content) for message in messages)


class ComputedModel(BaseChatModel):
    """A chat model whose answers are computed from what it is shown. `seen` holds that."""

    answer: Callable[[list[BaseMessage]], Answer] = Field(exclude=True)
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def _llm_type(self) -> str:
        return "computed"

    @property
    def seen(self) -> list[list[BaseMessage]]:
        return self._seen

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._lock:
            self._seen.append(list(messages))
        answer = self.answer(messages)
        if isinstance(answer, BaseException):
            raise answer
        message = answer if isinstance(answer, AIMessage) else AIMessage(answer, usage_metadata=tokens(7, 3))
        return ChatResult(generations=[ChatGeneration(message=message)])


def tokens(given: int, written: int) -> Any:
    return {"input_tokens": given, "output_tokens": written, "total_tokens": given + written}


def in_turn(*answers: Answer) -> ComputedModel:
    """A model that gives these answers one after the other."""
    waiting = list(answers)
    return ComputedModel(answer=lambda messages: waiting.pop(0))


def calls(name: str, call_id: str = "c1", **arguments: Any) -> AIMessage:
    """An answer that calls a tool."""
    call: Any = {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}
    return AIMessage("", tool_calls=[call], usage_metadata=tokens(5, 2))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide a number by another."""
    return a / b
