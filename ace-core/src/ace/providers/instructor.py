"""`InstructorClient`, which requests structured answers with the instructor library through any other client."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ace._internal.arguments import checked_arguments, whole_number
from ace.calls.calling import (
    BLOCKING,
    ON_LOOP,
    Calling,
    call_client_with_messages,
    checked_response,
    finished,
)
from ace.calls.model_calls import AnswerProblem, RejectedAnswer, current_answer_budget, until_usable
from ace.calls.secrets import known_secrets, redact
from ace.protocols.errors import LLMError
from ace.protocols.llm import AnyLLMClient, LayeredPrompt, LLMResponse, StructuredAnswer, Usage
from ace.providers.litellm_library import load_litellm, quieten_logger
from ace.providers.structured_answers import json_objects, prompt_messages

__all__ = ["InstructorClient", "wrap_with_instructor"]

_lock = threading.Lock()


class InstructorClient:
    """Adds structured answers with instructor to a client; all other calls are passed to the client.

    The wrapped client sends the requests, retries them, uses its fallbacks and counts the usage. If an answer does not
    validate, the model is asked again and shown the error, at most `max_retries` times.

    Args:
        client: The client that makes the calls.
        mode: The name of an instructor mode. `MD_JSON` works with every server; `TOOLS`, `JSON` and `JSON_SCHEMA`
            require a server that supports them and a client with `complete_messages`.
        max_retries: How often the model is asked again if an answer does not validate.

    Raises:
        ValueError: `max_retries` is negative.
    """

    @checked_arguments()
    def __init__(self, client: AnyLLMClient, mode: str = "MD_JSON", *, max_retries: int = 2) -> None:
        whole_number("max_retries", max_retries, least=0)
        self.client = client
        self.mode = str(getattr(mode, "name", mode)).upper()
        self.max_retries = max_retries

    def __repr__(self) -> str:
        return f"InstructorClient({self.client!r}, mode={self.mode!r})"

    @property
    def usage(self) -> Usage:
        """The total usage of the wrapped client; zero if it does not count it."""
        usage = getattr(self.client, "usage", None)
        return usage if isinstance(usage, Usage) else Usage()

    @property
    def input_token_limit(self) -> int | None:
        """The size of the model's input, in tokens; None if the wrapped client does not know it."""
        limit = getattr(self.client, "input_token_limit", None)
        return limit if isinstance(limit, int) else None

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt through the wrapped client.

        Args:
            prompt: The whole prompt.
            **kwargs: Passed to the wrapped client.
        """
        returned = finished(BLOCKING.method(self.client, "complete", prompt, **kwargs))
        return checked_response(self.client, "complete", returned)

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt through the wrapped client without blocking; otherwise like `complete`.

        Args:
            prompt: The whole prompt.
            **kwargs: Passed to the wrapped client.
        """
        returned = await ON_LOOP.method(self.client, "complete", prompt, **kwargs)
        return checked_response(self.client, "complete", returned)

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages through the wrapped client; one without `complete_messages` gets them as one prompt.

        Args:
            **kwargs: Passed to the wrapped client.
        """
        return finished(call_client_with_messages(BLOCKING, self.client, messages, kwargs))

    async def acomplete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages without blocking; otherwise like `complete_messages`.

        Args:
            **kwargs: Passed to the wrapped client.
        """
        return await call_client_with_messages(ON_LOOP, self.client, messages, kwargs)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: `system` for a system message; all others are settings for this call.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The wrapped client got no answer.
            ValueError: instructor does not have this mode.
        """
        return finished(self._structured(BLOCKING, prompt, response_model, kwargs))

    async def acomplete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Request a structured answer without blocking; otherwise like `complete_structured`.

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
        messages = _messages(prompt, system)
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
    """Wrap a client so that it requests structured answers with instructor, which is imported on the first call.

    Args:
        client: Any client.
        mode: The name of an instructor mode.
        max_retries: How often the model is asked again if an answer does not validate.

    Example:
        >>> from ace.providers import LiteLLMClient
        >>> wrap_with_instructor(LiteLLMClient("gpt-4o-mini"), mode="TOOLS")
        InstructorClient(LiteLLMClient('gpt-4o-mini'), mode='TOOLS')
    """
    return InstructorClient(client, mode=mode, max_retries=max_retries)


def _messages(prompt: str, system: str | None) -> list[dict[str, Any]]:
    """Return a prompt as chat messages. Instructor appends the schema to the system message."""
    if not isinstance(prompt, LayeredPrompt):
        return prompt_messages(prompt, system=system)
    rules = "\n\n".join(filter(None, (prompt.rules, system)))
    rest = "\n\n".join(filter(None, (prompt.skills, prompt.changes, prompt.task)))
    return [{"role": "system", "content": rules}, {"role": "user", "content": rest}]


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
        """How often instructor may still ask again after the next answer."""
        own, budget = self.max_retries - len(self.answers), current_answer_budget()
        return own if budget is None else max(0, min(own, budget.left - 1))

    def complete(self, *, messages: Sequence[Mapping[str, Any]], **mode_settings: Any) -> Any:
        """Send the messages through the wrapped client and return a response of OpenAI's library."""
        return finished(self._complete(BLOCKING, messages, mode_settings))

    async def acomplete(self, *, messages: Sequence[Mapping[str, Any]], **mode_settings: Any) -> Any:
        """Send the messages without blocking; otherwise like `complete`."""
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
        # Only chat messages have room for what a mode sets, such as tools.
        with_mode = mode_settings if hasattr(self.client, "complete_messages") else {}
        return await call_client_with_messages(calling, self.client, messages, {**with_mode, **self.settings})


def _load_instructor() -> ModuleType:
    # Import litellm first: instructor may import it too, without our settings.
    load_litellm()
    with _lock:
        importlib.import_module("instructor.core")
        # It logs whole answers, which may contain keys; its errors are raised to the caller anyway.
        quieten_logger("instructor", logging.CRITICAL)
        return importlib.import_module("instructor")


def _mode(instructor: ModuleType, name: str) -> Any:
    try:
        return instructor.Mode[name]
    except KeyError:
        known = ", ".join(mode.name for mode in instructor.Mode)
        raise ValueError(f"instructor has no mode {name!r}; it has {known}") from None


def _first_words(error: Exception) -> str:
    """Return only the last error; the message of instructor's error repeats all answers."""
    message = str(error.args[0]) if error.args else type(error).__name__
    return message if len(message) <= 1000 else f"{message[:1000]}..."


def _with_raw(answer: StructuredAnswer, text: str) -> StructuredAnswer:
    if "raw" in type(answer).model_fields and not getattr(answer, "raw", None):
        return answer.model_copy(update={"raw": next(json_objects(text), {"text": text})})
    return answer


def _chat_completion(text: str, mode_settings: Mapping[str, Any]) -> Any:
    """Wrap a text in a response of OpenAI's library, for instructor.

    In a mode with tools, the text becomes the arguments of a tool call.
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
