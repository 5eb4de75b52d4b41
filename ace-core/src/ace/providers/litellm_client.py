"""`LiteLLMClient`, which calls any model that LiteLLM supports, with retries, fallbacks and a usage total."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ace._internal.arguments import (
    checked_arguments,
    checked_class,
    http_address,
    instance_of,
    real_number,
    shown,
    whole_number,
)
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import current_call_scope, keep_response, note_response, recorded_response
from ace.calls.secrets import known_secrets
from ace.protocols.errors import ContextLimitError, LLMAuthenticationError, LLMCallError
from ace.protocols.llm import LLMResponse, StructuredAnswer, Usage
from ace.providers import direct_requests, litellm_library
from ace.providers.litellm_library import is_on_own_server, listed_model, placeholder_key
from ace.providers.request_outcomes import Answered, Failed, RetryPolicy, UsageAccount
from ace.providers.server_memory import ServerMemory
from ace.providers.server_quirks import CONTEXT_WINDOW, Quirk, Reaction, Refusal, ServerProfile, reaction_to
from ace.providers.structured_answers import accepted_schema, prompt_messages, unmarked, valid_answer

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["LiteLLMClient", "LiteLLMConfig", "Message", "ModelChain"]

Message = Mapping[str, Any]


@checked_class
@dataclass(frozen=True, slots=True)
class LiteLLMConfig:
    """Settings of a `LiteLLMClient`."""

    model: str
    """A LiteLLM model string, such as `gpt-4o-mini` or `anthropic/claude-sonnet-4-5`."""
    api_base: str | None = None
    """The base URL of your own server; None uses that of the provider."""
    api_key: str | None = field(default=None, repr=False)
    """The API key; None reads it from the environment. It is not part of the repr."""
    max_tokens: int | None = 2048
    """The maximum length of an answer, in tokens; None uses the provider's default."""
    temperature: float | None = 0.0
    """The sampling temperature; None uses the provider's default."""
    timeout: float = 120.0
    """How long one request may take until its answer is complete, in seconds."""
    max_retries: int = 3
    """How often a request is retried after 408, 429, 5xx, a reset or a timeout."""
    retry_delay: float = 0.5
    """The maximum delay before the first retry, in seconds; it doubles with each retry."""
    longest_retry_delay: float = 30.0
    """The maximum delay before any retry, in seconds."""
    validation_retries: int = 2
    """How often the model is asked again if a structured answer does not validate."""
    fallbacks: Sequence[str | LiteLLMConfig] = ()
    """The models to try, in order, if this one fails: model strings, or complete settings."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Additional arguments of `litellm.completion`, such as `{"seed": 1}`."""
    context_tokens: int | None = None
    """The size of the context window, in tokens; None uses that of LiteLLM's table, or of an error of the server."""

    def __post_init__(self) -> None:
        _check_model("model", self.model)
        if self.api_base:
            http_address("api_base", self.api_base)
        if not isinstance(self.api_key, str | None):  # not shown, since it may contain the key
            raise TypeError(f"api_key must be a string, got one of the type {type(self.api_key).__name__}")
        if self.max_tokens is not None:
            whole_number("max_tokens", self.max_tokens)
        if self.context_tokens is not None:
            whole_number("context_tokens", self.context_tokens)
        if self.temperature is not None:
            real_number("temperature", self.temperature, least=0)
        real_number("timeout", self.timeout, above=0, of="seconds")
        whole_number("validation_retries", self.validation_retries, least=0)
        instance_of("options", self.options, Mapping)
        _ = self.retry_policy
        if isinstance(self.fallbacks, str):  # a sequence of its letters
            raise TypeError(f"fallbacks must be a list of models, got {self.fallbacks!r}; write [{self.fallbacks!r}]")
        instance_of("fallbacks", self.fallbacks, Sequence)
        for place, entry in enumerate(self.fallbacks):
            if not isinstance(entry, LiteLLMConfig):
                _check_model(f"fallbacks[{place}]", entry)
        object.__setattr__(self, "fallbacks", tuple(self.fallbacks))

    @property
    def retry_policy(self) -> RetryPolicy:
        """The retry settings as one object."""
        return RetryPolicy(self.max_retries, self.retry_delay, self.longest_retry_delay)

    def chain(self) -> list[LiteLLMConfig]:
        """Return these settings and those of the fallbacks, in the order in which they are tried.

        A fallback given as a model string only inherits the base URL and the key if its string has the same prefix:
        `openai/two` inherits them from `openai/one`, `gpt-4o-mini` from `gpt-4o`. No key is sent to another provider.
        """
        return [self, *(self._fallback(entry) for entry in self.fallbacks)]

    def _fallback(self, entry: str | LiteLLMConfig) -> LiteLLMConfig:
        if isinstance(entry, LiteLLMConfig):
            return entry
        if _family(entry) == _family(self.model):
            return replace(self, model=entry, fallbacks=())
        return replace(self, model=entry, fallbacks=(), api_base=None, api_key=None)

    def request(self, messages: Sequence[Message], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `litellm.completion` for these messages.

        Args:
            messages: The chat messages to send.
            overrides: Settings for this call, which take precedence.
        """
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) if _takes_marks(self.model) else unmarked(message) for message in messages],
            "api_base": self.api_base,
            "api_key": self.api_key or placeholder_key(self.model, self.api_base),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "timeout": self.timeout,
            # Some models do not support a temperature; their calls must not fail because of our default.
            "drop_params": True,
            **self.options,
            **overrides,
        }
        return {name: value for name, value in request.items() if value is not None}


def _check_model(name: str, model: object) -> None:
    if not isinstance(model, str) or not model:
        raise ValueError(f"{name} must be a LiteLLM model string, such as 'gpt-4o-mini', got {shown(model)}")


def _takes_marks(model: str) -> bool:
    """Return whether the provider only caches marked parts of a prompt: Anthropic, and those that serve its models."""
    provider, _, _ = model.partition("/")
    return provider == "anthropic" or ("claude" in model and provider != "openai")


def _family(model: str) -> str:
    """Return the provider prefix of a model string or, without one, the leading letters of the model name."""
    prefix, slash, _ = model.partition("/")
    return f"{prefix}/" if slash else "".join(itertools.takewhile(str.isalpha, model))


class LiteLLMClient:
    """Calls a language model through LiteLLM.

    It implements `LLMClientLike` and is thread-safe. LiteLLM is imported on the first call. One call makes at most
    `max_retries + 1` requests to each model of the chain; a structured call asks at most `validation_retries + 1`
    times. Where a server refuses a parameter, a role or the length of an answer, the request is changed and sent again,
    which is remembered (see the reference page "Model servers").

    Args:
        model: A LiteLLM model string.
        api_base: The base URL of your own server.
        api_key: The API key; by default LiteLLM reads it from the environment.
        max_tokens: The maximum length of an answer, in tokens.
        temperature: The sampling temperature.
        timeout: How long one request may take until its answer is complete, in seconds.
        max_retries: How often a request is retried after 408, 429, 5xx, a reset or a timeout.
        retry_delay: The maximum delay before the first retry, in seconds; it doubles with each retry.
        longest_retry_delay: The maximum delay before any retry, in seconds.
        validation_retries: How often the model is asked again if a structured answer does not validate.
        fallbacks: The models to try, in order, if this one fails.
        options: Additional arguments of `litellm.completion`.
        context_tokens: The size of the context window, in tokens; by default that of LiteLLM's table, or of an error
            of the server. An answer may take a quarter of it.

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
        context_tokens: int | None = None,
    ) -> None:
        if options is not None:
            instance_of("options", options, Mapping)
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
            context_tokens=context_tokens,
        )
        self._chain = ModelChain(self.config.chain())

    @classmethod
    def from_config(cls, config: LiteLLMConfig) -> Self:
        """Create a client from settings."""
        return cls(**{setting.name: getattr(config, setting.name) for setting in fields(config)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def model(self) -> str:
        """The model string."""
        return self.config.model

    @property
    def usage(self) -> Usage:
        """The total usage of all calls of this client."""
        return self._chain.account.total

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; all others override settings for this call and are passed to
                `litellm.completion`, such as `temperature` or `stop`.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return self.complete_messages(_messages(prompt, kwargs), **kwargs)

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt without blocking the event loop or a thread; otherwise like `complete`.

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

        The JSON schema is appended to the prompt, and your own server is asked to enforce it. If the answer does not
        validate, the model is asked again and shown the error.

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
        """Request a structured answer without blocking; otherwise like `complete_structured`.

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

        In a run that records answers, an answer recorded before an interruption is returned without a request, and a
        new one is recorded before it is returned.

        Args:
            messages: Messages in OpenAI's format, with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model of the chain answered.
        """
        return finished(self._complete(BLOCKING, messages, kwargs, None))

    async def acomplete_messages(self, messages: Sequence[Message], **kwargs: Any) -> LLMResponse:
        """Send chat messages without blocking; otherwise like `complete_messages`.

        Args:
            messages: Messages in OpenAI's format, with `role` and `content`.
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
        longer = self._twice_the_length(settings.get("max_tokens", self.config.max_tokens))

        async def ask_longer(messages: list[dict[str, Any]]) -> LLMResponse:
            return await self._complete(calling, messages, {**settings, "max_tokens": longer}, response_model)

        return await valid_answer(
            lambda messages: self._complete(calling, messages, settings, response_model),
            prompt,
            response_model,
            system=system,
            max_retries=self.config.validation_retries,
            marked=True,
            ask_longer=None if longer is None else ask_longer,
        )

    def _twice_the_length(self, max_tokens: int | None) -> int | None:
        """Return twice the length of an answer, or as much of it as the model allows; None if that is not more."""
        listed = listed_model(self.model).get("max_output_tokens")
        most = [limit for limit in (listed, self._chain.profile(0).most_answer_tokens) if isinstance(limit, int)]
        if max_tokens is None:
            return None
        longer = min([2 * max_tokens, *most])
        return longer if longer > min([max_tokens, *most]) else None

    async def _complete(
        self,
        calling: Calling,
        messages: Sequence[Message],
        kwargs: Mapping[str, Any],
        response_model: type[BaseModel] | None,
    ) -> LLMResponse:
        """Return the recorded answer, or request one and record it."""
        answers = current_call_scope().answers
        kind = "" if answers is None else self._kind_text(kwargs, response_model)
        request = "" if answers is None else json.dumps([kind, list(messages)], sort_keys=True, default=str)
        known = None if answers is None else await calling.function(partial(answers.next, request, kind))
        if known is not None:
            response = recorded_response(known)
            note_response(self.model, response, 0.0, messages, recorded=True)
            return replace(response, usage=Usage())
        started = time.monotonic()
        place, response = await self._chain.ask(calling, messages, kwargs, response_model)
        if answers is not None:
            secrets = known_secrets(self)
            response = await calling.function(
                partial(keep_response, answers, request, response, secrets=secrets, kind=kind)
            )
        note_response(
            self._chain.configs[place].model,
            response,
            time.monotonic() - started,
            messages,
            server=self._chain.address(place),
            request=self._chain.parameters(place, kwargs),
        )
        return response

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text with LiteLLM's tokenizer for this model."""
        return litellm_library.count_tokens(self.model, text)

    @property
    def input_token_limit(self) -> int | None:
        """The size of the model's input, in tokens; None if it is not known.

        It follows from the context window that was set, or that the server gave in an error, else from LiteLLM's table.
        """
        profile = self._chain.profile(0)
        if profile.context_tokens is None:
            return litellm_library.input_token_limit(self.model)
        answer = min(filter(None, (self.config.max_tokens, profile.most_answer_tokens)))
        return max(1, profile.context_tokens - answer)

    def _kind_text(self, overrides: Mapping[str, Any], response_model: type[BaseModel] | None) -> str:
        """Return what an answer depends on besides the messages: models, class and settings, not base URL or key."""
        config = self.config
        settings = {"max_tokens": config.max_tokens, "temperature": config.temperature, **config.options, **overrides}
        shape = "" if response_model is None else response_model.__name__
        asked = [[link.model for link in self._chain.configs], shape, settings]
        return json.dumps(asked, sort_keys=True, default=str)


def _messages(prompt: str, settings: dict[str, Any]) -> Sequence[Message]:
    """Return a prompt as chat messages, and remove the system message from the settings."""
    return prompt_messages(prompt, system=settings.pop("system", None), marked=True)


_logger = logging.getLogger("ace.providers.litellm_client")
_SAMPLING = frozenset(
    {
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "presence_penalty",
        "seed",
        "stop",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""The parameters that observers get; others may hold anything."""
_MOST_CHANGES = 8
"""How often a request is changed because a server refuses it."""


class ModelChain:
    """A model and its fallbacks, with the total usage of their requests. Thread-safe.

    Args:
        configs: The settings of each model, in the order in which they are tried.

    Raises:
        ValueError: A retry setting is out of range.
    """

    def __init__(self, configs: Sequence[LiteLLMConfig]) -> None:
        self.configs = tuple(configs)
        for config in self.configs:
            # Reject invalid numbers here, not in the middle of a run.
            _ = config.retry_policy
        self.account = UsageAccount()
        self.servers = tuple(ServerMemory(config.model, config.api_base) for config in self.configs)

    async def ask(
        self,
        calling: Calling,
        messages: Sequence[Message],
        overrides: Mapping[str, Any],
        response_model: type[BaseModel] | None,
    ) -> tuple[int, LLMResponse]:
        """Return the place of the model that answered, and its answer.

        Args:
            calling: How requests are made and waited for.
            messages: The chat messages to send.
            overrides: Settings for this call.
            response_model: The class that the answer must validate as; your own servers enforce its schema.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model answered.
        """
        attempts = 0
        failed = Failed("no request was made", None)
        for place, config in enumerate(self.configs):
            outcome, made = await self._ask_adapted(calling, place, config.request(messages, overrides), response_model)
            attempts += made
            if isinstance(outcome, Answered):
                return place, outcome.response
            failed = outcome
            if place + 1 < len(self.configs):
                following = self.configs[place + 1].model
                _logger.warning("model %r failed (%s); trying %r", config.model, failed.reason, following)
        raise _call_error(failed, self.configs[-1].model, attempts)

    async def _ask_adapted(
        self, calling: Calling, place: int, request: Mapping[str, Any], response_model: type[BaseModel] | None
    ) -> tuple[Answered | Failed, int]:
        """Ask one model, and change the request as long as its server refuses it for a reason that is understood.

        What a refusal tells is only kept once the server no longer refuses the request for this reason.
        """
        if response_model is not None and "response_format" not in request and self._enforces_schemas(request):
            request = {**request, "response_format": accepted_schema(response_model)}
        server = self.servers[place]
        profile = self.profile(place)
        learned: list[tuple[Quirk, ServerProfile]] = []
        made = refused = 0
        while True:
            outcome, attempt = await self._ask_until_answered(calling, place, request, profile, before=made - refused)
            made = attempt + refused
            reaction = None if isinstance(outcome, Answered) else _reaction(outcome, request, profile)
            if isinstance(outcome, Answered) or reaction is not None:
                server.learn(learned)
                learned = []
            if reaction is None or isinstance(outcome, Answered):
                return outcome, made
            if reaction.quirk.days:
                learned.append((reaction.quirk, reaction.change))
            if reaction.is_final or refused == _MOST_CHANGES:
                is_too_long = reaction.quirk is CONTEXT_WINDOW
                if is_too_long:  # the number is right, whether or not there is another request
                    server.learn(learned)
                return replace(outcome, is_too_long=is_too_long), made
            profile |= reaction.change
            refused += 1

    def profile(self, place: int) -> ServerProfile:
        """Return what is known about the server of a model.

        Args:
            place: The position of the model in the chain.
        """
        return ServerProfile(context_tokens=self.configs[place].context_tokens) | self.servers[place].known

    def address(self, place: int) -> str:
        """Return the address of a model's server; empty if only LiteLLM knows it.

        Args:
            place: The position of the model in the chain.
        """
        server = self.servers[place]
        prefix, slash, _ = server.model.partition("/")
        provider = prefix if slash else str(listed_model(server.model).get("litellm_provider"))
        return server.address or next((url for name, url in direct_requests.PROVIDERS.items() if name == provider), "")

    def parameters(self, place: int, overrides: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the sampling parameters with which a model is asked.

        Args:
            place: The position of the model in the chain.
            overrides: Settings for this call.
        """
        sent = self.profile(place).adapted(self.configs[place].request((), overrides))
        return {name: value for name, value in sent.items() if name in _SAMPLING}

    def _enforces_schemas(self, request: Mapping[str, Any]) -> bool:
        return is_on_own_server(request["model"], request.get("api_base"))

    async def _ask_until_answered(
        self, calling: Calling, place: int, request: Mapping[str, Any], profile: ServerProfile, *, before: int
    ) -> tuple[Answered | Failed, int]:
        """Send a request until it is answered or the same request cannot help.

        Args:
            calling: How requests are made and waited for.
            place: The position of the model in the chain.
            request: The arguments of `litellm.completion`.
            profile: What is known about the server.
            before: The number of attempts already made.
        """
        config = self.configs[place]
        policy = config.retry_policy
        sent = profile.adapted(request)
        attempt = before
        while True:
            attempt += 1
            outcome: Answered | Failed = await calling.method(direct_requests, "send", sent)
            if isinstance(outcome, Answered):
                self.account.add(outcome.response.usage)
                return outcome, attempt
            self.account.add(Usage(failed_requests=1))
            worth_it = not outcome.is_authentication and policy.is_worth_retrying(outcome.status_code)
            if not worth_it or attempt > policy.max_retries or _reaction(outcome, request, profile) is not None:
                return outcome, attempt
            delay = policy.delay(attempt, outcome.retry_after)
            _logger.info(
                "model %r: %s; retry %d of %d in %.2f s",
                config.model,
                outcome.reason,
                attempt,
                policy.max_retries,
                delay,
            )
            await calling.sleep(delay)


def _reaction(failed: Failed, request: Mapping[str, Any], profile: ServerProfile) -> Reaction | None:
    if failed.status_code is None or failed.is_authentication:
        return None
    return reaction_to(Refusal(failed.status_code, failed.reason, request, profile))


def _call_error(failed: Failed, model: str, attempts: int) -> LLMCallError:
    requests = f"{attempts} request" if attempts == 1 else f"{attempts} requests"
    if failed.is_too_long:
        return ContextLimitError(
            f"model {model!r} gave no answer after {requests}: the prompt is too long: {failed.reason}",
            model=model,
            status_code=failed.status_code,
            attempts=attempts,
        )
    if not failed.is_authentication:
        return LLMCallError(
            f"model {model!r} gave no answer after {requests}: {failed.reason}",
            model=model,
            status_code=failed.status_code,
            attempts=attempts,
            problem=failed.problem,
        )
    if failed.missing_variables:
        what_to_do = f"set the environment variable {' or '.join(failed.missing_variables)}"
    else:
        what_to_do = "check the key"
    return LLMAuthenticationError(
        f"model {model!r}: the key is missing or was refused; {what_to_do}. Reason: {failed.reason}",
        model=model,
        status_code=failed.status_code,
        attempts=attempts,
        missing_variables=failed.missing_variables,
    )
