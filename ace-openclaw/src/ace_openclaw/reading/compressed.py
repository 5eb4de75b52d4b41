"""Decompresses Zstandard frames, in which OpenClaw stores long events and deleted sessions."""

from __future__ import annotations

__all__ = ["decompressed"]

_MOST_BYTES = 256 * 1024 * 1024


def decompressed(data: bytes) -> bytes:
    """Decompress a Zstandard frame.

    Raises:
        ValueError: The data is not a frame, is truncated, or decompresses to more than 256 MiB.
    """
    import zstandard  # only here: most rows are not compressed

    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            found = reader.read(_MOST_BYTES + 1)
    except zstandard.ZstdError as error:
        raise ValueError(f"this is not a Zstandard frame, or it is damaged: {error}") from error
    if len(found) > _MOST_BYTES:
        raise ValueError(f"the frame holds more than {_MOST_BYTES} bytes")
    return bytes(found)
