"""Creates clients from model strings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ace._internal.arguments import check_keywords, shown
from ace.protocols.llm import find_model_prefix

if TYPE_CHECKING:
    from ace.protocols.llm import LLMClientLike

__all__ = ["CLIENT_SETTINGS", "client_and_options", "client_from_model", "client_settings", "learning_client"]

CLIENT_SETTINGS = ("api_base", "api_key", "temperature")
"""What the `from_model` of an integration passes on to the client that learns."""


def client_from_model(model: str, **settings: Any) -> LLMClientLike:
    """Return a client for a model string.

    Args:
        model: A LiteLLM model string, one with the prefix of a plugin, or `local/` and a model on this machine: a name
            from the catalogue, or the path of a GGUF file.
        **settings: The settings of the client: max_tokens, temperature, api_base, api_key and so on.
    """
    found = find_model_prefix(model)
    if found is not None:
        factory, rest = found
        return factory(rest, **settings)
    from ace.providers.litellm import LiteLLMClient

    return LiteLLMClient(model, **settings)


def client_and_options(
    owner: type, model: object, own: Collection[str], **options: Any
) -> tuple[LLMClientLike, dict[str, Any]]:
    """Return a client for the `from_model` of a class, and the arguments that are not for the client.

    Args:
        owner: The class, for errors.
        model: A model string, as `client_from_model` takes it.
        own: The names of the arguments that the class takes itself.
        **options: All arguments.

    Raises:
        TypeError: The model is not a string, or neither the class nor the client takes one of the arguments.
    """
    if not isinstance(model, str):
        advice = f"give a client to {owner.__name__}{'.from_client' if hasattr(owner, 'from_client') else ''}(client)"
        raise TypeError(f"{owner.__name__}.from_model() takes a model string, got {shown(model)}; {advice}")
    settings = {name: value for name, value in options.items() if name not in own}
    taken = client_settings(model)
    if taken is not None:
        check_keywords(f"{owner.__name__}.from_model", settings, {*taken, *own})
    return client_from_model(model, **settings), {name: options[name] for name in options if name in own}


def client_settings(model: object) -> frozenset[str] | None:
    """Return the names of the settings that the client of a model takes; None if only the client knows.

    Args:
        model: A model string, as `client_from_model` takes it; None is returned for anything else.
    """
    if not isinstance(model, str):
        return None
    found = find_model_prefix(model)
    if found is None:
        from ace.providers.litellm import LiteLLMClient

        factory: Callable[..., object] = LiteLLMClient
    else:
        factory, _ = found
    parameters = inspect.signature(factory).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters) - {"model"}


def learning_client(
    owner: type,
    *,
    ace_model: str = "gpt-4o-mini",
    ace_max_tokens: int = 2048,
    ace_llm: LLMClientLike | None = None,
    settings: Mapping[str, Any],
) -> LLMClientLike:
    """Return the client that learns, for the `from_model` of a runner.

    Args:
        owner: The class of the runner, for errors.
        ace_model: The model string.
        ace_max_tokens: The maximum length of an answer, in tokens.
        ace_llm: A client to use instead.
        settings: Further settings of the client.

    Raises:
        TypeError: Both `settings` and `ace_llm` are given.
    """
    if ace_llm is None:
        return client_from_model(ace_model, max_tokens=ace_max_tokens, **settings)
    if settings:
        names = ", ".join(settings)
        raise TypeError(f"{owner.__name__}.from_model() takes {names} or ace_llm, not both: the client has its own")
    return ace_llm
