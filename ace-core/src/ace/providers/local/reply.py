"""What the server of a model on this machine sends, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ace.protocols.errors import LLMCallError
from ace.protocols.llm import LLMResponse, Usage

__all__ = ["Reply", "answer_in", "refusal_in"]

_OK = 200
_UNREADABLE_ANSWER = 500
_TOO_LONG = "exceed_context_size_error"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server sent."""

    status: int
    """The HTTP status."""
    body: Mapping[str, Any]
    """The JSON object."""

    @property
    def is_answer(self) -> bool:
        """Whether the model has answered."""
        return self.status == _OK

    @property
    def is_unreadable(self) -> bool:
        """Whether the server could not parse an answer that it had constrained itself."""
        return self.status == _UNREADABLE_ANSWER


def answer_in(reply: Reply) -> LLMResponse:
    """Return the answer of the model.

    Args:
        reply: A reply that is an answer.
    """
    choice = reply.body["choices"][0]
    counted = reply.body["usage"]
    return LLMResponse(
        text=choice["message"].get("content") or "",
        raw=reply.body,
        usage=Usage(calls=1, input_tokens=counted["prompt_tokens"], output_tokens=counted["completion_tokens"]),
        finish_reason=choice["finish_reason"],
    )


def refusal_in(reply: Reply, model: str) -> LLMCallError:
    """Return the error for a reply that is not an answer; it says what to do, where that is known.

    Args:
        reply: The reply.
        model: The model, as the user named it.
    """
    error = reply.body.get("error", {})
    if error.get("type") == _TOO_LONG:
        reason = (
            f"the prompt has {error['n_prompt_tokens']} tokens, and there is room for {error['n_ctx']} with the "
            "answer; shorten it, or raise context_tokens"
        )
    else:
        reason = str(error.get("message", reply.body))
    return LLMCallError(f"local model {model!r}: {reason}", model=model, status_code=reply.status)
