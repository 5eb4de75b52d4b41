"""`LiteLLMClient`: reaches any model that LiteLLM knows, with retries, fallbacks and an account."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ace.arguments import checked_arguments
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import current_call_scope, keep_response, note_model_call, recorded_response
from ace.calls.secrets import known_secrets
from ace.protocols.llm import LLMResponse, StructuredAnswer, Usage
from ace.providers import litellm_library
from ace.providers.litellm_config import LiteLLMConfig, Message
from ace.providers.model_chain import ModelChain
from ace.providers.structured_answers import valid_answer

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["LiteLLMClient", "LiteLLMConfig", "Message"]


class LiteLLMClient:
    """Calls a language model through LiteLLM.

    It satisfies `LLMClientLike` and may be used from several threads. LiteLLM is imported on the
    first call. One call makes at most `max_retries + 1` requests to each model of the chain; a structured
    call asks at most `validation_retries + 1` times, with one more request if your own server refuses the schema.

    Args:
        model: A LiteLLM model string.
        api_base: The address of your own server.
        api_key: The key; by default LiteLLM takes it from the environment.
        max_tokens: The maximum length of an answer, in tokens.
        temperature: The sampling temperature.
        timeout: How long one request may take until its answer is complete, in seconds.
        max_retries: How often a request is repeated after 408, 429, 5xx, a reset or a timeout.
        retry_delay: The maximum delay before the first retry, in seconds; it doubles each time.
        longest_retry_delay: The maximum delay before any retry, in seconds.
        validation_retries: How often a structured answer that does not validate is asked for again.
        fallbacks: Models to try in turn when this one fails.
        options: Further arguments of `litellm.completion`.

    Example:
        >>> client = LiteLLMClient("gpt-4o-mini", api_key="sk-very-secret", temperature=0.2)
        >>> client
        LiteLLMClient('gpt-4o-mini')
        >>> client.usage.calls
        0
    """

    @checked_arguments()
    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = 2048,
        temperature: float | None = 0.0,
        timeout: float = 120.0,
        max_retries: int = 3,
        retry_delay: float = 0.5,
        longest_retry_delay: float = 30.0,
        validation_retries: int = 2,
        fallbacks: Sequence[str | LiteLLMConfig] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = LiteLLMConfig(
            model=model,
            api_base=api_base,
            api_key=api_key,
            max_tokens=max_tokens,
            temperature=temperature,
            timeout=timeout,
            max_retries=max_retries,
            retry_delay=retry_delay,
            longest_retry_delay=longest_retry_delay,
            validation_retries=validation_retries,
            fallbacks=fallbacks,
            options=dict(options or {}),
        )
        self._chain = ModelChain(self.config.chain())

    @classmethod
    def from_config(cls, config: LiteLLMConfig) -> Self:
        """Make a client from settings.

        Args:
            config: The settings.
        """
        return cls(**{each.name: getattr(config, each.name) for each in fields(config)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def model(self) -> str:
        """The model string."""
        return self.config.model

    @property
    def usage(self) -> Usage:
        """What all calls of this client have used so far."""
        return self._chain.account.total

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; everything else overrides a setting for this
                call and goes to `litellm.completion`, such as `temperature` or `stop`.

        Returns:
            The answer with its text and usage.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return self.complete_messages(_messages(prompt, kwargs), **kwargs)

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt from asynchronous code; otherwise like `complete`. No thread waits for the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: As for `complete`.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return await self.acomplete_messages(_messages(prompt, kwargs), **kwargs)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        The JSON schema is appended to the prompt, and your own server is asked to enforce it.
        An answer that does not validate is asked for again, with the error shown to the model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: No model of the chain answered.
        """
        return finished(self._structured(BLOCKING, prompt, response_model, kwargs))

    async def acomplete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Ask for a structured answer from asynchronous code; otherwise like `complete_structured`.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: No model of the chain answered.
        """
        return await self._structured(ON_LOOP, prompt, response_model, kwargs)

    def complete_messages(self, messages: Sequence[Message], **kwargs: Any) -> LLMResponse:
        """Send chat messages and return the answer.

        Inside a run that records answers, one that was recorded before the run was killed is returned without a
        request, and a new one is recorded before it is returned.

        Args:
            messages: Messages of the OpenAI kind, with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return finished(self._complete(BLOCKING, messages, kwargs, None))

    async def acomplete_messages(self, messages: Sequence[Message], **kwargs: Any) -> LLMResponse:
        """Send chat messages from asynchronous code; otherwise like `complete_messages`.

        Args:
            messages: Messages of the OpenAI kind, with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return await self._complete(ON_LOOP, messages, kwargs, None)

    async def _structured(
        self, calling: Calling, prompt: str, response_model: type[StructuredAnswer], settings: dict[str, Any]
    ) -> StructuredAnswer:
        system = settings.pop("system", None)
        return await valid_answer(
            lambda messages: self._complete(calling, messages, settings, response_model),
            prompt,
            response_model,
            system=system,
            max_retries=self.config.validation_retries,
        )

    async def _complete(
        self,
        calling: Calling,
        messages: Sequence[Message],
        kwargs: Mapping[str, Any],
        response_model: type[BaseModel] | None,
    ) -> LLMResponse:
        """Take the answer from the record, or ask and record it."""
        answers = current_call_scope().answers
        kind = "" if answers is None else self._kind_text(kwargs, response_model)
        request = "" if answers is None else json.dumps([kind, list(messages)], sort_keys=True, default=str)
        known = None if answers is None else await calling.function(partial(answers.next, request, kind))
        if known is not None:
            response = recorded_response(known)
            note_model_call(self.model, response.usage, 0.0, recorded=True)
            return replace(response, usage=Usage())
        started = time.monotonic()
        model, response = await self._chain.ask(calling, messages, kwargs, response_model)
        if answers is not None:
            secrets = known_secrets(self)
            response = await calling.function(
                partial(keep_response, answers, request, response, secrets=secrets, kind=kind)
            )
        note_model_call(model, response.usage, time.monotonic() - started)
        return response

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text with the tokenizer that LiteLLM has for this model.

        Args:
            text: The text.
        """
        return litellm_library.count_tokens(self.model, text)

    @property
    def input_token_limit(self) -> int | None:
        """How many tokens of input the model takes, or None if LiteLLM does not know the model."""
        return litellm_library.input_token_limit(self.model)

    def _kind_text(self, overrides: Mapping[str, Any], response_model: type[BaseModel] | None) -> str:
        """Return what an answer depends on beside the messages. Where the server is, and who pays, is not among it."""
        config = self.config
        settings = {"max_tokens": config.max_tokens, "temperature": config.temperature, **config.options, **overrides}
        shape = "" if response_model is None else response_model.__name__
        asked = [[each.model for each in self._chain.configs], shape, settings]
        return json.dumps(asked, sort_keys=True, default=str)


def _messages(prompt: str, settings: dict[str, Any]) -> list[Message]:
    """Return a prompt as chat messages; a system message is taken out of the settings."""
    system = settings.pop("system", None)
    start: list[Message] = [{"role": "system", "content": system}] if system else []
    return [*start, {"role": "user", "content": prompt}]
