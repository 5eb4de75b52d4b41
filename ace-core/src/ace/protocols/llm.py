"""What a client of a language model must look like, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["AnyLLMClient", "AsyncLLMClientLike", "LLMClientLike", "LLMResponse", "StructuredAnswer", "Usage"]

StructuredAnswer = TypeVar("StructuredAnswer", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls have cost. Add two to get their sum.

    Example:
        >>> both = Usage(calls=1, input_tokens=10) + Usage(calls=1, input_tokens=5)
        >>> both.calls, both.input_tokens
        (2, 15)
    """

    calls: int = 0
    """The number of answers received."""
    input_tokens: int = 0
    """The tokens of the prompts, as the server reported them."""
    output_tokens: int = 0
    """The tokens of the answers, as the server reported them."""
    cost: float = 0.0
    """US dollars, over the calls whose price is known."""
    unpriced_calls: int = 0
    """The calls whose price is not known; they add nothing to `cost`."""
    unreported_calls: int = 0
    """The calls for which the server reported no tokens."""
    failed_requests: int = 0
    """The requests that brought no answer: refused, lost or timed out."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
            unreported_calls=self.unreported_calls + other.unreported_calls,
            failed_requests=self.failed_requests + other.failed_requests,
        )


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One answer of a model."""

    text: str
    """The text of the answer; an empty string if the model sent none."""
    raw: object = field(default=None, repr=False)
    """The response object of the library that made the call."""
    usage: Usage = Usage()
    """What this call has cost."""
    finish_reason: str = ""
    """Why the model stopped: `stop`, `length` (cut off at `max_tokens`), or what else the provider says; empty if it
    says nothing."""


@runtime_checkable
class LLMClientLike(Protocol):
    """A client of a language model. No inheritance is needed.

    It may also have `acomplete` and `acomplete_structured`, which asynchronous code then awaits; a client without
    them is called on another thread there. A client whose own methods are asynchronous is an `AsyncLLMClientLike`.
    """

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: Settings for this call, such as `temperature` or `max_tokens`.
        """
        ...

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: Settings for this call.

        Raises:
            UnusableAnswerError: The model gave no answer that validates.
        """
        ...


@runtime_checkable
class AsyncLLMClientLike(Protocol):
    """A client of a language model whose methods are `async def`. Roles take it like any other client."""

    async def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: Settings for this call, such as `temperature` or `max_tokens`.
        """
        ...

    async def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: Settings for this call.

        Raises:
            UnusableAnswerError: The model gave no answer that validates.
        """
        ...


AnyLLMClient = LLMClientLike | AsyncLLMClientLike
"""What roles take: a client whose methods are plain, or one whose methods are asynchronous."""
