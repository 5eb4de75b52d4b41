"""Finds similar pairs in a changing set of vectors by comparing only new ones. Importing this loads numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ace.retrieval.vectors import fill_unit_rows

__all__ = ["NearPair", "ResidentVectors", "near_rows", "one_blas_thread"]

Places = NDArray[np.intp]
Cosines = NDArray[np.float32]

_BLOCK = 1024
_ROUNDING = 1e-6
"""The maximum rounding error of the cosine of a float32 vector with itself."""


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread.

    Its threads wait for each other in spin loops: on a machine whose other cores were busy, two threads were up to
    eleven times slower than one.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits


def near_rows(
    rows: NDArray[np.float32], threshold: float, *, new_from: int = 0
) -> Iterator[tuple[Places, Places, Cosines]]:
    """Yield the pairs of rows whose cosine similarity is at least the threshold, in batches.

    Args:
        rows: Rows of length 1, or of zeros.
        threshold: The minimum cosine similarity, from 0 to 1.
        new_from: The index of the first new row; only pairs with a new row are compared.

    Yields:
        The indices of the first rows, the (larger) indices of the second ones, and their similarities.
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


class NearPair(NamedTuple):
    """The owners of two similar vectors."""

    first: str
    second: str
    cosine: float


@final
class ResidentVectors:
    """Keeps vectors of the same length as rows, and their similar pairs.

    Adding a vector compares one row with the others; the pairs found earlier are kept.

    Args:
        threshold: The minimum cosine similarity of a pair, from 0 to 1.

    Example:
        >>> from array import array
        >>> east, north = (array("f", numbers).tobytes() for numbers in ([1, 0], [0, 1]))
        >>> vectors = ResidentVectors(0.9)
        >>> vectors.near_pairs({"a": east, "b": north})
        []
        >>> vectors.near_pairs({"a": east, "b": north, "c": north})
        [NearPair(first='b', second='c', cosine=1.0)]
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._vectors: dict[str, bytes] = {}
        self._names: list[str] = []
        self._rows: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self._pairs: list[NearPair] = []

    def near_pairs(self, vectors: Mapping[str, bytes]) -> list[NearPair]:
        """Return the similar pairs of exactly these vectors, in no particular order.

        Args:
            vectors: little-endian float32 numbers by owner, all of the same length.
        """
        known = self._vectors
        stale = {name for name, vector in known.items() if vectors.get(name) != vector}
        if stale:
            self._forget(stale)
        new = {name: vector for name, vector in vectors.items() if name not in known}
        if new:
            self._learn(new)
        return list(self._pairs)

    def _forget(self, stale: set[str]) -> None:
        kept = [place for place, name in enumerate(self._names) if name not in stale]
        # Rows are moved one by one in place: a copy would need twice the memory.
        for target, place in enumerate(kept):
            if target != place:
                self._rows[target] = self._rows[place]
        self._names = [self._names[place] for place in kept]
        for name in stale:
            del self._vectors[name]
        self._pairs = [pair for pair in self._pairs if pair.first not in stale and pair.second not in stale]

    def _learn(self, new: Mapping[str, bytes]) -> None:
        before = len(self._names)
        names = list(new)
        self._make_room(before + len(names), len(new[names[0]]) // 4)
        fill_unit_rows(self._rows[before : before + len(names)], [new[name] for name in names])
        self._names += names
        self._vectors.update(new)
        for first, second, cosines in near_rows(self._rows[: len(self._names)], self._threshold, new_from=before):
            self._pairs += self._named(first.tolist(), second.tolist(), cosines.tolist())

    def _named(self, first: Sequence[int], second: Sequence[int], cosines: Sequence[float]) -> list[NearPair]:
        return [
            NearPair(self._names[one], self._names[other], cosine)
            for one, other, cosine in zip(first, second, cosines, strict=True)
        ]

    def _make_room(self, rows: int, length: int) -> None:
        if rows <= len(self._rows) and self._rows.shape[1] == length:
            return
        # Room to grow, so that a few new skills do not copy all rows each time.
        larger = np.empty((rows + rows // 16, length), dtype=np.float32)
        if self._names:
            larger[: len(self._names)] = self._rows[: len(self._names)]
        self._rows = larger
