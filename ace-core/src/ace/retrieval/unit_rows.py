"""Vectors as rows of length 1, so that a product of two rows is their cosine. Importing this loads numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["fill_unit_rows", "unit_rows"]

_ROWS_AT_ONCE = 1024


def unit_rows(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the vectors as rows of length 1; a vector of zeros stays, and is near to nothing.

    Args:
        vectors: float32 numbers in little endian order, all of one length; at least one.
    """
    rows = np.empty((len(vectors), len(vectors[0]) // 4), dtype=np.float32)
    fill_unit_rows(rows, vectors)
    return rows


def fill_unit_rows(rows: NDArray[np.float32], vectors: Sequence[bytes]) -> None:
    """Write the vectors into the rows, in parts, so that hardly more memory is used than the rows have.

    Args:
        rows: As many rows as there are vectors.
        vectors: float32 numbers in little endian order.
    """
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = vectors[start : start + _ROWS_AT_ONCE]
        target = rows[start : start + len(part)]
        target[:] = np.frombuffer(b"".join(part), dtype="<f4").reshape(target.shape)
        lengths = np.sqrt(np.einsum("ij,ij->i", target, target))
        lengths[lengths == 0] = 1
        target /= lengths[:, np.newaxis]
