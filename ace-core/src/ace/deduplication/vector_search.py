"""All pairs of near vectors, exactly, in blocks of bounded memory. Importing this loads numpy.

The product of two blocks does nearly all the work, and most blocks end with a look at their largest cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ace.deduplication.one_thread import one_blas_thread
from ace.retrieval.vectors import unit_rows

__all__ = ["near_rows", "near_vectors"]

Places = NDArray[np.intp]
Cosines = NDArray[np.float32]

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
    for first, second, cosines in near_rows(unit_rows(vectors), threshold):
        yield from zip(first.tolist(), second.tolist(), cosines.tolist(), strict=True)


def near_rows(
    rows: NDArray[np.float32], threshold: float, *, new_from: int = 0
) -> Iterator[tuple[Places, Places, Cosines]]:
    """Yield the pairs of rows whose cosine is at least the threshold, some at a time.

    Args:
        rows: Rows of length 1, or of zeros.
        threshold: The least cosine, from 0 to 1.
        new_from: Only pairs with a row from this place on are looked for; those before were compared earlier.

    Yields:
        The places of the first rows, those of the second ones, which are higher, and their cosines.
    """
    with one_blas_thread():
        for bottom in range(new_from, len(rows), _BLOCK):
            new = rows[bottom : bottom + _BLOCK]
            for left in range(0, bottom, _BLOCK):
                yield from _near(rows[left : min(left + _BLOCK, bottom)] @ new.T, threshold, left, bottom)
            yield from _near(new @ new.T, threshold, bottom, bottom)


def _near(cosines: Cosines, threshold: float, top: int, left: int) -> Iterator[tuple[Places, Places, Cosines]]:
    least = threshold - _ROUNDING
    if top != left and cosines.max() < least:
        return
    near = cosines >= least
    hits = np.flatnonzero(np.triu(near, 1) if top == left else near)
    if len(hits):
        first, second = np.divmod(hits, cosines.shape[1])
        yield first + top, second + left, np.minimum(cosines.ravel()[hits], np.float32(1))
