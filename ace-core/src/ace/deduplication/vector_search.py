"""All pairs of near vectors, exactly, in blocks of bounded memory. numpy is imported on the first call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["near_vectors"]

_BLOCK = 1024
_ROUNDING = 1e-6
"""The cosine of a float32 vector with itself may be this much below 1."""


def near_vectors(vectors: Sequence[bytes], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of vectors whose cosine is at least the threshold.

    Args:
        vectors: float32 numbers in little endian order, all of one length.
        threshold: The least cosine, from 0 to 1.

    Yields:
        The places of the two vectors, the first one below the second, and their cosine.
    """
    if len(vectors) < 2:
        return
    import numpy as np

    rows = _unit_rows(vectors)
    least = threshold - _ROUNDING
    for top in range(0, len(rows), _BLOCK):
        block = rows[top : top + _BLOCK]
        for left in range(top, len(rows), _BLOCK):
            cosines = block @ rows[left : left + _BLOCK].T
            if top != left and cosines.max() < least:
                continue
            near = cosines >= least
            hits = np.flatnonzero(np.triu(near, 1) if top == left else near)
            for first, second in zip(*np.divmod(hits, cosines.shape[1]), strict=True):
                cosine = min(1.0, float(cosines[first, second]))
                yield int(first) + top, int(second) + left, cosine


def _unit_rows(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the vectors as rows of length 1; a vector of zeros stays, and is near to nothing."""
    import numpy as np

    rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    rows /= lengths
    return rows
