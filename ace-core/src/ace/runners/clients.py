"""Turns a model string into a client."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ace.protocols.model_prefixes import find_model_prefix

if TYPE_CHECKING:
    from ace.protocols.llm import LLMClientLike

__all__ = ["client_and_options", "client_from_model"]


def client_from_model(model: str, **settings: Any) -> LLMClientLike:
    """Return a client for a model string.

    Args:
        model: A LiteLLM model string, or one with the prefix of a plugin, or `local/` and a model on this machine:
            a name of the catalogue, or the path of a GGUF file.
        **settings: What the client takes: max_tokens, temperature, api_base, api_key and so on.
    """
    found = find_model_prefix(model)
    if found is not None:
        factory, rest = found
        return factory(rest, **settings)
    from ace.providers.litellm import LiteLLMClient

    return LiteLLMClient(model, **settings)


def client_and_options(model: str, own: Collection[str], **given: Any) -> tuple[LLMClientLike, dict[str, Any]]:
    """Return a client for a model string, and what of the arguments is not for it.

    Args:
        model: A model string, as `client_from_model` takes it.
        own: The names of the arguments that the caller takes itself.
        **given: All arguments.
    """
    settings = {name: value for name, value in given.items() if name not in own}
    return client_from_model(model, **settings), {name: given[name] for name in given if name in own}
