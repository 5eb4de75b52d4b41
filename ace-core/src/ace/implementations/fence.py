"""Fences around text that is data, so that a model does not take it for instructions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

__all__ = ["Fence"]


class Fence:
    """Marks texts as data. The mark occurs in none of them, so none can close its fence.

    The mark is made from the texts: equal texts get equal prompts.

    Args:
        texts: Every text that will be fenced.
        shortest: The least number of hexadecimal digits in the mark; it grows until no text has it.

    Example:
        >>> Fence(["hello"]).around("hello")
        '<data-2cf24dba>\\nhello\\n</data-2cf24dba>'
    """

    def __init__(self, texts: Iterable[str], *, shortest: int = 8) -> None:
        held = list(texts)
        digest = hashlib.sha256("\0".join(held).encode("utf-8", "backslashreplace")).hexdigest()
        length = shortest
        while any(digest[:length] in text for text in held) and length < len(digest):
            length += 1
        self.tag = f"data-{digest[:length]}"

    def around(self, text: str) -> str:
        """Return the text between an opening and a closing mark.

        Args:
            text: One of the texts that the fence was made for.
        """
        return f"<{self.tag}>\n{text}\n</{self.tag}>"
