"""A chat model of LangChain that follows a script, for examples that work without a key and a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

from examples.scripted_model import role_of

Answer = str | Mapping[str, Any] | AIMessage
"""A text, an object that is sent as JSON, or a message, such as one that calls a tool."""

Script = Callable[[str, str, Sequence[BaseMessage]], Answer]
"""Computes the answer from the role, the text of its messages, and the messages."""


class ScriptedChatModel(BaseChatModel):
    """Answers with the result of a script. Each word counts as one token."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self  # the script knows the tools

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        shown = "\n".join(str(message.content) for message in messages)
        answer = self.script(role_of(shown), shown, messages)
        if not isinstance(answer, AIMessage):
            answer = AIMessage(answer if isinstance(answer, str) else json.dumps(answer))
        input_tokens, written = len(shown.split()), len(str(answer.content).split())
        usage: Any = {"input_tokens": input_tokens, "output_tokens": written, "total_tokens": input_tokens + written}
        message = answer.model_copy(update={"usage_metadata": usage})
        return ChatResult(generations=[ChatGeneration(message=message)])


def call_of(tool: str, **arguments: Any) -> AIMessage:
    """Return an answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": "call", "type": "tool_call"}])
