"""The protocols of language model clients, the types that they return, and the registry of model prefixes.

`ace.plugins` registers the prefixes of model strings, such as `acme/large`; the code that turns a model string into a
client looks them up here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from ace._internal.registry import Registry

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "AnyLLMClient",
    "AsyncLLMClientLike",
    "LLMClientLike",
    "LLMResponse",
    "LayeredPrompt",
    "ModelClientFactory",
    "StructuredAnswer",
    "Usage",
    "find_model_prefix",
    "model_prefixes",
    "register_model_prefix",
    "unregister_model_prefix",
]

StructuredAnswer = TypeVar("StructuredAnswer", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens and the cost of model calls. Objects can be added.

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
    """The requests without an answer: rejected, lost or timed out."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had in its cache, which it charges less for."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the provider wrote to its cache, where it says so; some charge more for it."""

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
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


class LayeredPrompt(str):
    """A prompt with marked parts that repeat from call to call, so that a provider's cache can be used.

    It is the text of all parts, for clients that send one text. Clients that send messages put the rules, the schema of
    the answer and the skills into the system message, in this order, and the task into the message of the user.

    Args:
        rules: The part that never changes: the role and its instructions.
        skills: The skills, which change seldom; empty if the role sees none.
        changes: The latest changes of the skills; may be empty.
        task: The part that is specific to this call.

    Example:
        >>> prompt = LayeredPrompt("Be brief.", "- [maths-00001] Add twice.", "", "2+2?")
        >>> prompt
        'Be brief.\\n\\n- [maths-00001] Add twice.\\n\\n2+2?'
        >>> prompt.task
        '2+2?'
    """

    __slots__ = ("changes", "rules", "skills", "task")

    rules: str
    skills: str
    changes: str
    task: str

    def __new__(cls, rules: str, skills: str, changes: str, task: str) -> Self:  # noqa: D102  # the class says it
        made = super().__new__(cls, "\n\n".join(filter(None, (rules, skills, changes, task))))
        made.rules, made.skills, made.changes, made.task = rules, skills, changes, task
        return made

    def __getnewargs__(self) -> tuple[str, str, str, str]:  # type: ignore[override]  # a copy needs all parts
        return self.rules, self.skills, self.changes, self.task

    def followed_by(self, text: str) -> Self:
        """Return the prompt with a text after the task."""
        return type(self)(self.rules, self.skills, self.changes, f"{self.task}\n\n{text}")


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One answer of a model."""

    text: str
    """The text of the answer; an empty string if the model sent none."""
    raw: object = field(default=None, repr=False)
    """The response object of the library that made the call."""
    usage: Usage = Usage()
    """The tokens and the cost of this call."""
    finish_reason: str = ""
    """Why the model stopped: `stop`, `length` (cut off at `max_tokens`), `content_filter`, or another reason of the
    provider; empty if it gives none."""
    refusal: str = ""
    """The sentence with which the model refused to answer; empty if it did not."""


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
"""A client as roles accept it: its methods are either all plain or all asynchronous."""


class ModelClientFactory(Protocol):
    """Makes a client for the part of a model string that follows the prefix."""

    def __call__(self, model: str, **settings: Any) -> LLMClientLike:
        """Return a client.

        Args:
            model: The model string without the prefix and its slash.
            **settings: The settings that the caller chose, such as `max_tokens`.
        """
        ...


_prefixes = Registry[ModelClientFactory]("llm_clients", "a model prefix")


def register_model_prefix(prefix: str, factory: ModelClientFactory) -> None:
    """Register a prefix.

    Args:
        prefix: The part of a model string before the first slash.
        factory: Makes the client.

    Raises:
        ValueError: The prefix is empty, has a slash, or is taken.
    """
    if not prefix or "/" in prefix:
        raise ValueError(f"a model prefix must be a name without a slash, got {prefix!r}")
    _prefixes.register(prefix, factory)


def unregister_model_prefix(prefix: str) -> None:
    """Unregister a prefix; an unknown one is ignored."""
    _prefixes.unregister(prefix)


def model_prefixes() -> list[str]:
    """Return the registered prefixes, sorted."""
    return sorted(_prefixes.all())


def find_model_prefix(model: str) -> tuple[ModelClientFactory, str] | None:
    """Find the factory for a model string.

    Args:
        model: A model string such as `acme/large`.

    Returns:
        The factory and the rest of the string, or None if no prefix fits.

    Raises:
        PluginError: The plugin of this name cannot be loaded.
    """
    prefix, slash, rest = model.partition("/")
    factory = _prefixes.get(prefix) if slash else None
    return None if factory is None else (factory, rest)
