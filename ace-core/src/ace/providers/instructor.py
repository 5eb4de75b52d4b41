"""`InstructorClient`: structured answers through the instructor library, over any client of ours."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from ace.arguments import checked_arguments
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import current_answer_budget
from ace.calls.secrets import known_secrets, redact
from ace.calls.usable_answers import AnswerProblem, RejectedAnswer, until_usable
from ace.protocols.errors import LLMError
from ace.protocols.llm import AnyLLMClient, LLMResponse, StructuredAnswer, Usage
from ace.providers.litellm_library import load_litellm, quieten_logger
from ace.providers.structured_answers import json_objects

__all__ = ["InstructorClient", "wrap_with_instructor"]

_lock = threading.Lock()


@runtime_checkable
class _MessagesClient(Protocol):
    """A client that takes chat messages, so that tool modes work and corrections stay messages."""

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse: ...


class InstructorClient:
    """Gives structured answers with instructor; everything else goes to the wrapped client.

    Requests, transport retries, fallbacks and the account stay with the wrapped client. An answer
    that does not validate is asked for again, at most `max_retries` times, with the error shown to
    the model.

    Args:
        client: The client that makes the calls.
        mode: The name of an instructor mode: `MD_JSON` works with every server, `TOOLS`,
            `JSON` and `JSON_SCHEMA` want one that supports them and a client with
            `complete_messages`.
        max_retries: How often an answer that does not validate is asked for again.

    Raises:
        ValueError: `max_retries` is negative.
    """

    @checked_arguments()
    def __init__(self, client: AnyLLMClient, mode: str = "MD_JSON", *, max_retries: int = 2) -> None:
        if max_retries < 0:
            raise ValueError(f"max_retries must not be negative, got {max_retries!r}")
        self.client = client
        self.mode = str(getattr(mode, "name", mode)).upper()
        self.max_retries = max_retries

    def __repr__(self) -> str:
        return f"InstructorClient({self.client!r}, mode={self.mode!r})"

    @property
    def usage(self) -> Usage:
        """What the wrapped client has used; nothing if it keeps no account."""
        usage = getattr(self.client, "usage", None)
        return usage if isinstance(usage, Usage) else Usage()

    @property
    def input_token_limit(self) -> int | None:
        """How many tokens of input the model takes, or None if the wrapped client does not know."""
        limit = getattr(self.client, "input_token_limit", None)
        return limit if isinstance(limit, int) else None

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt through the wrapped client.

        Args:
            prompt: The whole prompt.
            **kwargs: What the wrapped client takes.
        """
        response: LLMResponse = finished(BLOCKING.method(self.client, "complete", prompt, **kwargs))
        return response

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt through the wrapped client, from asynchronous code.

        Args:
            prompt: The whole prompt.
            **kwargs: What the wrapped client takes.
        """
        response: LLMResponse = await ON_LOOP.method(self.client, "complete", prompt, **kwargs)
        return response

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: `system` for a system message; everything else is a setting for this call.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The wrapped client got no answer.
            ValueError: instructor has no such mode.
        """
        return finished(self._structured(BLOCKING, prompt, response_model, kwargs))

    async def acomplete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Ask for a structured answer from asynchronous code; otherwise like `complete_structured`.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete_structured`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The wrapped client got no answer.
            ValueError: instructor has no such mode.
        """
        return await self._structured(ON_LOOP, prompt, response_model, kwargs)

    async def _structured(
        self, calling: Calling, prompt: str, response_model: type[StructuredAnswer], settings: dict[str, Any]
    ) -> StructuredAnswer:
        instructor = await calling.function(_load_instructor)
        system = settings.pop("system", None)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        conversation = _Conversation(self.client, settings, self.max_retries)
        complete = conversation.complete if calling is BLOCKING else conversation.acomplete
        create = instructor.from_litellm(complete, mode=_mode(instructor, self.mode))

        async def ask(rejected: RejectedAnswer | None) -> StructuredAnswer | AnswerProblem:
            if rejected is not None:  # instructor gives up at once on some answers, such as very long broken ones
                messages.append({"role": "user", "content": f"Your last answer could not be read: {rejected.problem}"})
            try:
                created = create.chat.completions.create(
                    messages=messages,
                    response_model=response_model,
                    max_retries=conversation.retries_left,
                )
                answer: StructuredAnswer = await created if inspect.isawaitable(created) else created
            except instructor.core.InstructorError as error:
                problem = redact(_first_words(error), known_secrets(self))  # it quotes the answer
            else:
                return _with_raw(answer, conversation.answers[-1])
            if conversation.call_error is not None:
                raise conversation.call_error
            return AnswerProblem(problem)

        def text_of(answer: StructuredAnswer | AnswerProblem) -> str:
            return conversation.answers[-1] if conversation.answers else ""

        return await until_usable(ask, _read, text_of=text_of, max_retries=self.max_retries)


@checked_arguments()
def wrap_with_instructor(client: AnyLLMClient, mode: str = "MD_JSON", *, max_retries: int = 2) -> InstructorClient:
    """Give a client structured answers through instructor, which is imported on the first call.

    Args:
        client: Any client.
        mode: The name of an instructor mode.
        max_retries: How often an answer that does not validate is asked for again.

    Example:
        >>> from ace.providers import LiteLLMClient
        >>> wrap_with_instructor(LiteLLMClient("gpt-4o-mini"), mode="TOOLS")
        InstructorClient(LiteLLMClient('gpt-4o-mini'), mode='TOOLS')
    """
    return InstructorClient(client, mode=mode, max_retries=max_retries)


def _read(answer: StructuredAnswer | AnswerProblem) -> StructuredAnswer:
    if isinstance(answer, AnswerProblem):
        raise answer
    return answer


class _Conversation:
    """The completion function that instructor calls: one structured answer, with its retries."""

    def __init__(self, client: AnyLLMClient, settings: Mapping[str, Any], max_retries: int) -> None:
        self.client = client
        self.settings = settings
        self.max_retries = max_retries
        self.answers: list[str] = []
        self.call_error: LLMError | None = None

    @property
    def retries_left(self) -> int:
        """How often instructor may ask again after the next answer."""
        own, budget = self.max_retries - len(self.answers), current_answer_budget()
        return own if budget is None else max(0, min(own, budget.left - 1))

    def complete(self, *, messages: Sequence[Mapping[str, Any]], **mode_settings: Any) -> Any:
        """Send the messages through our client and return a response as OpenAI's library has it."""
        return finished(self._complete(BLOCKING, messages, mode_settings))

    async def acomplete(self, *, messages: Sequence[Mapping[str, Any]], **mode_settings: Any) -> Any:
        """Send the messages from asynchronous code; otherwise like `complete`."""
        return await self._complete(ON_LOOP, messages, mode_settings)

    async def _complete(
        self, calling: Calling, messages: Sequence[Mapping[str, Any]], mode_settings: Mapping[str, Any]
    ) -> Any:
        try:
            response = await self._send(calling, messages, mode_settings)
        except LLMError as error:
            self.call_error = error
            raise
        self.answers.append(response.text)
        budget = current_answer_budget()
        if budget is not None:
            budget.record(response.text)
        return response.raw if hasattr(response.raw, "choices") else _chat_completion(response.text, mode_settings)

    async def _send(
        self, calling: Calling, messages: Sequence[Mapping[str, Any]], mode_settings: Mapping[str, Any]
    ) -> LLMResponse:
        response: LLMResponse
        if isinstance(self.client, _MessagesClient):
            settings = {**mode_settings, **self.settings}
            response = await calling.method(self.client, "complete_messages", messages, **settings)
        else:
            text = "\n\n".join(str(message.get("content") or "") for message in messages)
            response = await calling.method(self.client, "complete", text, **self.settings)
        return response


def _load_instructor() -> ModuleType:
    # litellm goes first, with our settings: instructor may import it with its own.
    load_litellm()
    with _lock:
        importlib.import_module("instructor.core")
        # It logs whole answers, which may hold keys; its errors reach the caller anyway.
        quieten_logger("instructor", logging.CRITICAL)
        return importlib.import_module("instructor")


def _mode(instructor: ModuleType, name: str) -> Any:
    try:
        return instructor.Mode[name]
    except KeyError:
        known = ", ".join(mode.name for mode in instructor.Mode)
        raise ValueError(f"instructor has no mode {name!r}; it has {known}") from None


def _first_words(error: Exception) -> str:
    """Return the last error alone; the text of instructor's error repeats every whole answer."""
    message = str(error.args[0]) if error.args else type(error).__name__
    return message if len(message) <= 1000 else f"{message[:1000]}..."


def _with_raw(answer: StructuredAnswer, text: str) -> StructuredAnswer:
    if "raw" in type(answer).model_fields and not getattr(answer, "raw", None):
        return answer.model_copy(update={"raw": next(json_objects(text), {"text": text})})
    return answer


def _chat_completion(text: str, mode_settings: Mapping[str, Any]) -> Any:
    """Wrap a text in a response of OpenAI's library, which instructor reads.

    In a mode with tools the text is taken from the arguments of the tool call.
    """
    types = importlib.import_module("openai.types.chat")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    for tool in mode_settings.get("tools") or ():
        function = {"name": tool["function"]["name"], "arguments": text}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "ace", "type": "function", "function": function}],
        }
    return types.ChatCompletion.model_validate(
        {
            "id": "ace",
            "created": 0,
            "model": "ace",
            "object": "chat.completion",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }
    )
