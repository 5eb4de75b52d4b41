"""Converts embeddings to and from bytes: little-endian float32."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from ace.skillbook.errors import SkillbookFileError


def pack_vector(values: Sequence[float] | bytes) -> bytes:
    """Return the numbers as float32 bytes; bytes are assumed to be packed already.

    Raises:
        ValueError: If a number is infinite or NaN, or the length of the bytes is not a multiple of 4.

    Example:
        >>> pack_vector([1.0, 0.5]).hex()
        '0000803f0000003f'
    """
    if isinstance(values, bytes):
        if len(values) % 4:
            raise ValueError(f"a packed vector has 4 bytes per number; {len(values)} is not a multiple of 4")
        return values
    packed = array("f", values)
    if not math.isfinite(sum(packed)):
        raise ValueError("all numbers in a vector must be finite")
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_vector(data: bytes) -> list[float]:
    """Return the numbers of a packed vector.

    Example:
        >>> unpack_vector(pack_vector([1.0, 0.5]))
        [1.0, 0.5]
    """
    numbers = array("f")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def vector_bytes(value: Any, place: str) -> bytes | None:
    """Return the vector from a file, in which it is a list of numbers or null."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        raise SkillbookFileError("must be a list of numbers", place=place)
    try:
        return pack_vector(value)
    except (OverflowError, ValueError) as error:
        raise SkillbookFileError("a number is too large for an embedding", place=place) from error
