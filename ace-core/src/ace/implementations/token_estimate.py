"""How many tokens a text has, estimated without a tokenizer."""

from __future__ import annotations

__all__ = ["BYTES_PER_TOKEN", "estimated_tokens"]

BYTES_PER_TOKEN = 3
"""UTF-8 bytes. English has more than four to a token, code and most other languages about three."""


def estimated_tokens(text: str) -> int:
    """Return an estimate that is rather too high than too low.

    Args:
        text: The text.

    Example:
        >>> estimated_tokens("The capital of France is Paris.")
        11
    """
    return -(-len(text.encode("utf-8", "backslashreplace")) // BYTES_PER_TOKEN)
