"""The vectors of texts, as an embedder has to make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.retrieval.protocols import Embeds

__all__ = ["embedded_texts"]


def embedded_texts(embedder: Embeds, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """Have texts turned into vectors, and check that there is one for each, all of one length.

    Args:
        embedder: The embedder, which may be anybody's.
        texts: The texts; at least one.

    Raises:
        ValueError: It returned something else.
    """
    vectors = embedder.embed(texts)
    name = type(embedder).__name__
    if len(vectors) != len(texts):
        raise ValueError(f"{name}.embed made {len(vectors)} vectors of {len(texts)} texts; it must make one of each")
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1 or lengths == [0]:
        shown = " and ".join(map(str, lengths[:2]))
        raise ValueError(f"{name}.embed made vectors of {shown} numbers; all must have the same number, from 1")
    return vectors
