"""The registry of embedders, which turn texts into vectors, by the names that `embedding_provider` takes.

`ace.plugins` fills it; LiteLLM's embedding models come the same way.
"""

from __future__ import annotations

import threading
from typing import Protocol

from ace.lazy_plugins import fill
from ace.protocols.deduplication import EmbedderLike

__all__ = ["EmbedderFactory", "embedder_names", "find_embedder", "register_embedder", "unregister_embedder"]

_lock = threading.Lock()
_factories: dict[str, EmbedderFactory] = {}


class EmbedderFactory(Protocol):
    """Makes an embedder."""

    def __call__(self, model: str | None, /) -> EmbedderLike:
        """Return an embedder.

        Args:
            model: The name of the embedding model; None for the factory's own choice.
        """
        ...


def register_embedder(name: str, factory: EmbedderFactory) -> None:
    """Make an embedder known.

    Args:
        name: What `embedding_provider` says to choose it.
        factory: What makes it.

    Raises:
        ValueError: The name is taken.
    """
    with _lock:
        if _factories.get(name, factory) is not factory:
            raise ValueError(f"an embedder named {name!r} is already registered; choose another name")
        _factories[name] = factory


def unregister_embedder(name: str) -> None:
    """Forget an embedder; an unknown name is ignored.

    Args:
        name: Its name.
    """
    with _lock:
        _factories.pop(name, None)


def embedder_names() -> list[str]:
    """Return the names of the embedders, sorted."""
    fill("embedders")
    with _lock:
        return sorted(_factories)


def find_embedder(name: str) -> EmbedderFactory | None:
    """Return what makes the embedder of a name, or None.

    Args:
        name: What `embedding_provider` says.

    Example:
        >>> find_embedder("nonsense") is None
        True
    """
    for built_in in (True, False):
        fill("embedders", name=None if built_in else name, built_in=built_in)
        with _lock:
            if name in _factories:
                return _factories[name]
    return None
