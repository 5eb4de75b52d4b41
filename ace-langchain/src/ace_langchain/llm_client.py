"""`LangChainLLMClient`, with which the roles use any chat model of LangChain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ace.calls import BLOCKING, ON_LOOP, AnswerProblem, Calling, RejectedAnswer, finished, note_model_call, until_usable
from ace.integrations import checked_class, number_in, within_seconds
from ace.protocols import (
    LLMAuthenticationError,
    LLMCallError,
    LLMResponse,
    StructuredAnswer,
    Usage,
)
from ace.providers import UsageAccount, valid_answer
from ace_langchain.framework import load
from ace_langchain.messages import mapping, plain_message

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable
    from pydantic import BaseModel

__all__ = ["LangChainLLMClient", "LangChainLiteLLMClient", "StructuredBy"]

StructuredBy = Literal["prompt", "model"]


@checked_class
class LangChainLLMClient:
    """Calls a chat model of LangChain. It implements `LLMClientLike`.

    Failed requests are retried by the model itself, according to its `max_retries`.

    Args:
        model: A chat model, or a model string of LangChain such as `openai:gpt-4o-mini`, which requires `langchain`.
        structured: How structured answers are requested: `prompt` adds the schema to the prompt, which works with every
            model; `model` uses the model's own `with_structured_output`.
        validation_retries: How often the model is asked again if a structured answer does not validate.
        timeout: The time limit of one answer, in seconds, including the retries of the model; None waits indefinitely.
            A model created from a string also gets it as its own timeout.
        **settings: With a model string, the settings of the model, such as `max_tokens` or `temperature`.

    Raises:
        TypeError: The object is not a chat model.
        ValueError: A setting is invalid.
        ImportError: A package of LangChain is not installed; the message says how to install it.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> client = LangChainLLMClient(FakeListChatModel(responses=["4"]))
        >>> client.complete("2+2?").text, client.usage.calls
        ('4', 1)
    """

    def __init__(
        self,
        model: BaseChatModel | str,
        *,
        structured: StructuredBy = "prompt",
        validation_retries: int = 2,
        timeout: float | None = None,
        **settings: Any,
    ) -> None:
        if structured not in ("prompt", "model"):
            raise ValueError(f"structured must be 'prompt' or 'model', got {structured!r}")
        if validation_retries < 0:
            raise ValueError(f"validation_retries must not be negative, got {validation_retries!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be greater than 0 seconds, got {timeout!r}")
        if timeout is not None and isinstance(model, str):
            settings["timeout"] = timeout
        self.timeout = timeout
        self.chat_model = _chat_model(model, settings)
        self.structured = structured
        self.validation_retries = validation_retries
        self._account = UsageAccount()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def model(self) -> str:
        """The name of the model, or of its class."""
        named = getattr(self.chat_model, "model_name", None) or getattr(self.chat_model, "model", None)
        return named if isinstance(named, str) else type(self.chat_model).__name__

    @property
    def usage(self) -> Usage:
        """The total usage of all calls of this client."""
        return self._account.total

    @property
    def input_token_limit(self) -> int | None:
        """The size of the model's input, in tokens; None if LangChain does not know the model."""
        profile = getattr(self.chat_model, "profile", None)
        limit = profile.get("max_input_tokens") if isinstance(profile, dict) else None
        return limit if isinstance(limit, int) else None

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; all others are passed to the model's `invoke`, such as
                `temperature` or `stop`.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: The model did not answer.
        """
        return self.complete_messages(_messages(prompt, kwargs.pop("system", None)), **kwargs)

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt with the model's `ainvoke`; otherwise like `complete`.

        Args:
            prompt: The whole prompt.
            **kwargs: As for `complete`.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: The model did not answer.
        """
        return await self.acomplete_messages(_messages(prompt, kwargs.pop("system", None)), **kwargs)

    def complete_messages(self, messages: Sequence[dict[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages and return the answer.

        Args:
            messages: Messages with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: The model did not answer.
        """
        return finished(self._complete(BLOCKING, messages, kwargs))

    async def acomplete_messages(self, messages: Sequence[dict[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages with the model's `ainvoke`; otherwise like `complete_messages`.

        Args:
            messages: Messages with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: The model did not answer.
        """
        return await self._complete(ON_LOOP, messages, kwargs)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        If the answer does not validate, the model is asked again and shown the error.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The model did not answer.
        """
        return finished(self._structured(BLOCKING, prompt, response_model, kwargs))

    async def acomplete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Request a structured answer with the model's `ainvoke`; otherwise like `complete_structured`.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The model did not answer.
        """
        return await self._structured(ON_LOOP, prompt, response_model, kwargs)

    async def _structured(
        self, calling: Calling, prompt: str, response_model: type[StructuredAnswer], settings: dict[str, Any]
    ) -> StructuredAnswer:
        system = settings.pop("system", None)
        if self.structured == "model":
            return await self._ask_model(calling, _messages(prompt, system), response_model, settings)
        return await valid_answer(
            lambda messages: self._complete(calling, messages, settings),
            prompt,
            response_model,
            system=system,
            max_retries=self.validation_retries,
        )

    async def _complete(
        self, calling: Calling, messages: Sequence[dict[str, Any]], settings: dict[str, Any]
    ) -> LLMResponse:
        started = time.monotonic()
        answer = await self._invoked(calling, self.chat_model, list(messages), settings)
        return self._response(answer, time.monotonic() - started, messages)

    async def _invoked(
        self, calling: Calling, runnable: Runnable[Any, Any], messages: list[dict[str, Any]], settings: dict[str, Any]
    ) -> Any:
        """Invoke the model, or the runnable around it, with the timeout."""
        try:
            if calling is BLOCKING:
                return within_seconds(self.timeout, lambda: runnable.invoke(messages, **settings))
            async with asyncio.timeout(self.timeout):
                return await runnable.ainvoke(messages, **settings)
        except Exception as error:
            raise self._failed(error) from error

    async def _ask_model(
        self,
        calling: Calling,
        start: list[dict[str, Any]],
        response_model: type[StructuredAnswer],
        settings: dict[str, Any],
    ) -> StructuredAnswer:
        """Ask with the model's own structured output until an answer validates."""
        # If they get the class itself, some models raise on an invalid answer, which would be lost.
        asking = self.chat_model.with_structured_output(_schema_of(response_model), include_raw=True)

        async def ask(rejected: RejectedAnswer | None) -> tuple[Any, str]:
            started = time.monotonic()
            messages = start if rejected is None else [*start, _asked_again(rejected)]
            returned = await self._invoked(calling, asking, messages, settings)
            response = self._response(returned["raw"], time.monotonic() - started, messages)
            return returned, _raw_text(response.text, returned["raw"])

        def read(answer: tuple[Any, str]) -> StructuredAnswer:
            try:
                return _validated(answer[0], response_model)
            except ValueError as error:
                raise AnswerProblem(str(error)) from error

        return await until_usable(ask, read, text_of=lambda answer: answer[1], max_retries=self.validation_retries)

    def _response(self, answer: AIMessage, seconds: float, sent: Sequence[Mapping[str, object]]) -> LLMResponse:
        """Convert the answer to the messages `sent`, count its usage, and emit its event."""
        plain = plain_message(answer)
        tokens = plain["usage"]
        details = mapping(mapping(answer.usage_metadata).get("input_token_details"))
        usage = Usage(
            calls=1,
            input_tokens=tokens.get("input_tokens", 0),
            output_tokens=tokens.get("output_tokens", 0),
            unpriced_calls=1,
            unreported_calls=0 if tokens else 1,
            cached_input_tokens=int(number_in(details, "cache_read") or 0),
            cache_write_tokens=int(number_in(details, "cache_creation") or 0),
        )
        self._account.add(usage)
        response = LLMResponse(plain["content"], answer, usage, _finish_reason(plain["stop_reason"]))
        note_model_call(
            self.model,
            usage,
            seconds,
            finish_reason=response.finish_reason,
            prompt=sent,
            answer=response.text,
        )
        return response

    def _failed(self, error: Exception) -> LLMCallError:
        self._account.add(Usage(failed_requests=1))
        if type(error) is TimeoutError and self.timeout is not None:
            late = f"the answer was not complete within {self.timeout:g} s"
            return LLMCallError(
                f"model {self.model!r} gave no answer: timeout: {late}", model=self.model, status_code=408
            )
        status = getattr(error, "status_code", None)
        text = f"{type(error).__name__}: {error}"
        if status in (401, 403):
            what_to_do = "the key is missing or was refused; check the key of the chat model"
            return LLMAuthenticationError(
                f"model {self.model!r}: {what_to_do}. Reason: {text}", model=self.model, status_code=status
            )
        known = status if isinstance(status, int) else None
        return LLMCallError(f"model {self.model!r} gave no answer: {text}", model=self.model, status_code=known)


LangChainLiteLLMClient = LangChainLLMClient


def _asked_again(rejected: RejectedAnswer) -> dict[str, Any]:
    again = (
        f"Your last answer cannot be used: {rejected.problem}\nAnswer again.\n\nYour last answer was:\n{rejected.text}"
    )
    return {"role": "user", "content": again}


def _chat_model(model: BaseChatModel | str, settings: dict[str, Any]) -> BaseChatModel:
    if isinstance(model, str):
        made: BaseChatModel = load("langchain.chat_models", needed_by=f"the model string {model!r}").init_chat_model(
            model, **settings
        )
        return made
    base: type = load("langchain_core.language_models", needed_by="LangChainLLMClient").BaseChatModel
    if not isinstance(model, base):
        raise TypeError(f"a {type(model).__name__} is not a chat model; give one, or a model string")
    if settings:
        raise TypeError(f"a chat model object already has its settings; remove these: {', '.join(settings)}")
    return model


def _messages(prompt: str, system: str | None) -> list[dict[str, Any]]:
    start = [{"role": "system", "content": system}] if system else []
    return [*start, {"role": "user", "content": prompt}]


def _finish_reason(stop_reason: str) -> str:
    """Return the reason as defined by `LLMResponse`."""
    return {"max_tokens": "length", "MAX_TOKENS": "length", "end_turn": "stop", "STOP": "stop"}.get(
        stop_reason, stop_reason
    )


def _schema_of(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, with the two fields that some models require."""
    schema = response_model.model_json_schema()
    return {"title": response_model.__name__, "description": f"A {response_model.__name__}.", **schema}


def _raw_text(text: str, answer: AIMessage) -> str:
    """Return the text of a model's answer, or the arguments of its tool call if it had to answer with one.

    Args:
        text: The text of its answer.
    """
    calls = plain_message(answer)["tool_calls"]
    return text or (str(calls[0]["args"]) if calls else "")


def _validated(returned: dict[str, Any], response_model: type[StructuredAnswer]) -> StructuredAnswer:
    """Return the answer as an instance of its class.

    Args:
        returned: What a model with `include_raw=True` returned.
        response_model: The class.

    Raises:
        ValueError: The answer does not validate; this includes the errors of pydantic.
    """
    parsed = returned["parsed"]
    if not isinstance(parsed, dict):
        raise ValueError(str(returned["parsing_error"] or "it does not use the schema"))
    # `raw` is ours: it keeps the answer as it came.
    return response_model.model_validate({**parsed, "raw": parsed} if "raw" in response_model.model_fields else parsed)
