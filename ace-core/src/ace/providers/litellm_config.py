"""The settings of a `LiteLLMClient`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ace.arguments import checked_class
from ace.providers.own_server import placeholder_key
from ace.providers.retry_policy import RetryPolicy

__all__ = ["LiteLLMConfig", "Message"]

Message = Mapping[str, Any]


@checked_class
@dataclass(frozen=True, slots=True)
class LiteLLMConfig:
    """Settings of a `LiteLLMClient`."""

    model: str
    """A LiteLLM model string, such as `gpt-4o-mini` or `anthropic/claude-sonnet-4-5`."""
    api_base: str | None = None
    """The address of your own server; None uses that of the provider."""
    api_key: str | None = field(default=None, repr=False)
    """The key; None takes it from the environment. It never shows in a repr."""
    max_tokens: int | None = 2048
    """The maximum length of an answer, in tokens; None leaves it to the provider."""
    temperature: float | None = 0.0
    """The sampling temperature; None leaves it to the provider."""
    timeout: float = 120.0
    """How long one request may take until its answer is complete, in seconds."""
    max_retries: int = 3
    """How often a request is repeated after 408, 429, 5xx, a reset or a timeout."""
    retry_delay: float = 0.5
    """The maximum delay before the first retry, in seconds; it doubles each time."""
    longest_retry_delay: float = 30.0
    """The maximum delay before any retry, in seconds."""
    validation_retries: int = 2
    """How often a structured answer that does not validate is asked for again."""
    fallbacks: Sequence[str | LiteLLMConfig] = ()
    """Models to try in turn when this one fails: model strings, or whole settings."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of `litellm.completion`, such as `{"seed": 1}`."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must be a LiteLLM model string, such as 'gpt-4o-mini'")
        if self.timeout <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout!r}")
        if self.validation_retries < 0:
            raise ValueError(f"validation_retries must not be negative, got {self.validation_retries!r}")
        object.__setattr__(self, "fallbacks", tuple(self.fallbacks))

    @property
    def retry_policy(self) -> RetryPolicy:
        """The settings on retries as one object."""
        return RetryPolicy(self.max_retries, self.retry_delay, self.longest_retry_delay)

    def chain(self) -> list[LiteLLMConfig]:
        """Return these settings and those of the fallbacks, in the order in which they are tried.

        A fallback given as a model string shares address and key only with a model whose string begins alike:
        `openai/one` with `openai/two`, `gpt-4o` with `gpt-4o-mini`. So no key reaches the server of another provider.
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
            messages: Chat messages.
            overrides: Settings for this call, which win.
        """
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "api_base": self.api_base,
            "api_key": self.api_key or placeholder_key(self.model, self.api_base),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "timeout": self.timeout,
            # Some models take no temperature; their calls must not fail for our default.
            "drop_params": True,
            **self.options,
            **overrides,
        }
        return {name: value for name, value in request.items() if value is not None}


def _family(model: str) -> str:
    """Return the prefix that names the provider, or the first letters of a plain name, which differ by provider."""
    prefix, slash, _ = model.partition("/")
    return f"{prefix}/" if slash else "".join(itertools.takewhile(str.isalpha, model))
