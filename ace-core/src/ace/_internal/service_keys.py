"""The keys of services, such as Replicate's `r8_...`, by the rules that the project Kingfisher maintains.

Reading the rules takes 0.3 seconds of CPU (3 the first time on a machine; Kingfisher then stores the compiled rules in
the user's folder of caches), so they are read only when a text contains a word that may be a key. Nothing is sent:
checking with the service whether a key is valid is another part of that library, which is not used here.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

__all__ = ["service_keys"]

_SHORTEST_KEY: Final = 16
_DELIMITERS: Final = str.maketrans(dict.fromkeys(",()[]<>&|!?", " "))
"""What may follow a key in prose, an address or code, where the rules expect a blank or a quotation mark."""
_lock: Final = Lock()
_scanner: Scanner | None = None


def service_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the keys of services begin and end in a text.

    Args:
        text: Any text.
    """
    if _scanner is None and not any(map(_may_be_key, text.split())):
        return
    delimited = text.translate(_DELIMITERS).replace(". ", "  ").replace(".\n", " \n")
    data = delimited.removesuffix(".").encode("utf-8", "replace")
    for finding in _loaded().scan(data):
        if finding.visible:  # the others are names that belong to a key, such as that of an account
            start, end = finding.location["start_offset"], finding.location["end_offset"]
            if not text.isascii():
                start, end = len(data[:start].decode()), len(data[:end].decode())
            yield start, end


def _may_be_key(word: str) -> bool:
    return len(word) >= _SHORTEST_KEY and any(sign.isdigit() for sign in word)


def _loaded() -> Scanner:
    global _scanner
    with _lock:
        if _scanner is None:
            from kingfisher_sdk import Scanner

            _scanner = Scanner(base64=False)
    return _scanner
