"""What `local/` in a model string makes."""

from __future__ import annotations

from typing import Any

from ace.providers.local.client import LocalLLMClient

__all__ = ["client_of_model_string"]

_UNUSED_SETTINGS = ("api_base", "api_key")


def client_of_model_string(model: str, **settings: Any) -> LocalLLMClient:
    """Make a client for what follows `local/` in a model string.

    Args:
        model: A name of the catalogue, or the path of a GGUF file.
        **settings: What `LocalLLMClient` takes.

    Raises:
        ValueError: A setting does not apply to a model on this machine.

    Example:
        >>> client_of_model_string("qwen2.5-coder-1.5b", max_tokens=100)
        LocalLLMClient('qwen2.5-coder-1.5b')
    """
    for name in _UNUSED_SETTINGS:
        if settings.pop(name, None) is not None:
            raise ValueError(f"{name} does not apply to a model on this machine: 'local/{model}'")
    return LocalLLMClient(model, **{name: value for name, value in settings.items() if value is not None})
