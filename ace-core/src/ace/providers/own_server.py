"""Models of a server of your own that speaks the OpenAI protocol: `openai/NAME` with an address."""

from __future__ import annotations

import os

__all__ = ["is_on_own_server", "placeholder_key"]


def is_on_own_server(model: str, api_base: object) -> bool:
    """Return whether a model is on a server of your own.

    Args:
        model: A LiteLLM model string.
        api_base: The address that it is asked at, if one is set.

    Example:
        >>> is_on_own_server("openai/mine", "http://localhost:8080/v1"), is_on_own_server("openai/gpt-4o", None)
        (True, False)
    """
    return bool(api_base) and model.startswith("openai/")


def placeholder_key(model: str, api_base: object) -> str | None:
    """Return a key for your own server if none is set; None where none is needed.

    Own servers mostly want no key, but the OpenAI library refuses to call without any.

    Args:
        model: A LiteLLM model string.
        api_base: The address that it is asked at, if one is set.
    """
    return "not-needed" if is_on_own_server(model, api_base) and not os.environ.get("OPENAI_API_KEY") else None
