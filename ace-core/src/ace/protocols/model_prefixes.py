"""The registry of prefixes of model strings, such as `acme/large`, that plugins bring.

`ace.plugins` fills it; the code that turns a model string into a client looks prefixes up in it.
"""

from __future__ import annotations

from typing import Any, Protocol

from ace.protocols.llm import LLMClientLike
from ace.registry import Registry

__all__ = [
    "ModelClientFactory",
    "find_model_prefix",
    "model_prefixes",
    "register_model_prefix",
    "unregister_model_prefix",
]


class ModelClientFactory(Protocol):
    """Makes a client for the part of a model string that follows the prefix."""

    def __call__(self, model: str, **settings: Any) -> LLMClientLike:
        """Return a client.

        Args:
            model: The model string without the prefix and its slash.
            **settings: What the caller wants set, such as `max_tokens`.
        """
        ...


_prefixes = Registry[ModelClientFactory]("llm_clients", "a model prefix")


def register_model_prefix(prefix: str, factory: ModelClientFactory) -> None:
    """Make a prefix known.

    Args:
        prefix: The part of a model string before the first slash.
        factory: What makes the client.

    Raises:
        ValueError: The prefix is empty, has a slash, or is taken.
    """
    if not prefix or "/" in prefix:
        raise ValueError(f"a model prefix must be a name without a slash, got {prefix!r}")
    _prefixes.register(prefix, factory)


def unregister_model_prefix(prefix: str) -> None:
    """Forget a prefix; an unknown one is ignored.

    Args:
        prefix: The prefix.
    """
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
        PluginError: There is a plugin of this name, and it cannot be loaded.
    """
    prefix, slash, rest = model.partition("/")
    factory = _prefixes.get(prefix) if slash else None
    return None if factory is None else (factory, rest)
