"""The errors of model calls and of roles, from the network to an answer that cannot be used.

`attribute_of`, `encodable` and `error_text` read objects and texts that other code made: attributes may raise, and
texts may be impossible to send or store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.outputs import AgentOutput

__all__ = [
    "ContextLimitError",
    "EmptyAnswerError",
    "LLMAuthenticationError",
    "LLMCallError",
    "LLMError",
    "RoleError",
    "UnusableAnswerError",
    "attribute_of",
    "encodable",
    "error_text",
]

_ABOUT_ONE_REQUEST = frozenset({400, 413, 422})


class LLMError(Exception):
    """The base class of the errors because of which a language model gave no usable answer."""


class LLMCallError(LLMError):
    """The model could not be reached, or the server rejected the request.

    Attributes:
        model: The model string that was called last.
        status_code: The HTTP status, or None if there was no response.
        attempts: The number of requests that were made, over all models.
        problem: The problem with a connection that was made, such as an untrusted certificate or an answer that
            was late, was cut or cannot be read; empty if nothing is known, or the server reported the problem itself.
        role: The role that asked (`Agent`, `Reflector`, `SkillManager`), or an empty string.
    """

    def __init__(
        self,
        message: str,
        *,
        model: str = "",
        status_code: int | None = None,
        attempts: int = 1,
        problem: str = "",
    ) -> None:
        super().__init__(message)
        self.model = model
        self.status_code = status_code
        self.attempts = attempts
        self.problem = problem
        self.role = ""

    @property
    def concerns_one_request(self) -> bool:
        """Whether the server rejected only this request, such as one that is too long; the next one may succeed.

        Example:
            >>> LLMCallError("too long", status_code=413).concerns_one_request
            True
            >>> LLMCallError("overloaded", status_code=529).concerns_one_request
            False
        """
        # An account without credit is refused with status 400, too.
        return self.status_code in _ABOUT_ONE_REQUEST and "credit balance" not in str(self).lower()


class ContextLimitError(LLMCallError):
    """The request is longer than the context window of the model. A shorter one may be answered.

    Example:
        >>> ContextLimitError("too long", status_code=500).concerns_one_request
        True
    """

    @property
    def concerns_one_request(self) -> bool:
        """True: the next request may be shorter."""
        return True


class LLMAuthenticationError(LLMCallError):
    """The key is missing or was rejected; the message names the variable to set.

    Attributes:
        missing_variables: The environment variables from which the key would be read.
    """

    def __init__(
        self,
        message: str,
        *,
        model: str = "",
        status_code: int | None = None,
        attempts: int = 1,
        missing_variables: Sequence[str] = (),
    ) -> None:
        super().__init__(message, model=model, status_code=status_code, attempts=attempts)
        self.missing_variables = tuple(missing_variables)


class UnusableAnswerError(LLMError):
    """The model answered, but the answer cannot be used, even after all retries.

    The raw answers are kept so that a runner can store them for inspection.

    Attributes:
        problem: The problem with the last answer.
        raw_answers: Every answer of this call, oldest first, exactly as the model gave it.
        role: The role that asked (`Agent`, `Reflector`, `SkillManager`), or an empty string.

    Example:
        >>> error = UnusableAnswerError("no JSON object found", raw_answers=["Hello!"], role="Reflector")
        >>> str(error)
        'Reflector: no usable answer from the model after 1 answer: no JSON object found'
        >>> error.raw_answer
        'Hello!'
    """

    def __init__(self, problem: str, *, raw_answers: Sequence[str] = (), role: str = "") -> None:
        count = len(raw_answers)
        counted = f"{count} answer" if count == 1 else f"{count} answers"
        prefix = f"{role}: " if role else ""
        super().__init__(f"{prefix}no usable answer from the model after {counted}: {problem}")
        self.problem = problem
        self.raw_answers = tuple(raw_answers)
        self.role = role

    @property
    def raw_answer(self) -> str:
        """The last answer as the model gave it; an empty string if there was none."""
        return self.raw_answers[-1] if self.raw_answers else ""


class EmptyAnswerError(UnusableAnswerError):
    """The agent's answer is empty, even after all retries. The caller may still accept it.

    Attributes:
        output: The last answer, with its reasoning.
    """

    def __init__(self, problem: str, output: AgentOutput, *, raw_answers: Sequence[str] = (), role: str = "") -> None:
        super().__init__(problem, raw_answers=raw_answers, role=role)
        self.output = output


class RoleError(TypeError):
    """A role, an environment or a client does not implement its protocol, or returned an object of another type.

    The text names the role, its class, what it returned and what was expected.
    """


def error_text(error: BaseException) -> str:
    """Return the text of an exception from third-party code, whose `__str__` may fail too.

    Args:
        error: The exception.

    Example:
        >>> error_text(ValueError("no such port"))
        'no such port'
    """
    try:
        return str(error)
    except Exception as second:
        return f"(its text cannot be read: {type(second).__name__})"


def attribute_of(value: object, name: str, default: object = None) -> Any:  # whatever the object holds
    """Return an attribute of a foreign object, or the default if it cannot be read.

    Args:
        value: Any object.
        name: The name of the attribute.
        default: Returned if the attribute does not exist, or if reading it raises an error.

    Example:
        >>> class Wrapper:
        ...     def __getattr__(self, name):
        ...         raise KeyError(name)
        >>> attribute_of(Wrapper(), "question", "none")
        'none'
    """
    try:
        return getattr(value, name, default)
    except Exception:
        # A `__getattr__` may raise anything; wrappers around a dict raise KeyError.
        return default


def encodable(text: str) -> str:
    r"""Return the text with each lone surrogate, which UTF-8 cannot hold, made visible as `\ud800`.

    Args:
        text: Any text.

    Example:
        >>> encodable("café \ud800")
        'café \\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
