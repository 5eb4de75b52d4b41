"""Where a skillbook is, a file or a place of a store such as `acme://team/skills`, and how people may see that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote_plus

__all__ = ["has_scheme", "shown_location"]

HIDDEN: Final = "[hidden]"
"""Replaces a secret in a location."""

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:/+)(.*)", re.DOTALL)
"""A scheme has at least two letters, unlike a Windows drive; `Path` collapses two slashes into one."""
_PARAMETER: Final = re.compile(r"(?<=[?&;#])([^=&;#]*)=([^&;#]*)")
_SECRET_WORD: Final = re.compile(
    r"pass|pwd|secret|token|credential|signature|\bsig\b|\bauth(?!or)|(api|access|private|account|shared)[ _.-]?key",
    re.IGNORECASE,
)


def has_scheme(location: str | Path) -> bool:
    """Return whether a location has a scheme, rather than being a file.

    Args:
        location: A file or `scheme://...`.

    Example:
        >>> has_scheme("acme://team/skills"), has_scheme("skills.db")
        (True, False)
    """
    return isinstance(location, str) and "://" in location


def shown_location(location: str | Path) -> str:
    """Return a location for display, without its password and other credentials.

    Everything before the `@` of an address is hidden, including the user name, and so are the values of parameters such
    as `password`. If unescaped characters make the end of the password ambiguous, more is hidden rather than less.

    Args:
        location: A file or `scheme://...`.

    Example:
        >>> shown_location("postgresql://ann:s3cret@db/skills?sslmode=require&sslpassword=s3cret")
        'postgresql://[hidden]@db/skills?sslmode=require&sslpassword=[hidden]'
        >>> shown_location("acme://team/skills@v2"), shown_location("skills.db")
        ('acme://team/skills@v2', 'skills.db')
    """
    text = str(location)
    address = _ADDRESS.match(text)
    if address is None:
        return text
    scheme, rest = address.groups()
    before, at, after = rest.rpartition("@")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if at and ("@" in authority or ":" in before):
        rest = f"{HIDDEN}@{after}"
    return scheme + _PARAMETER.sub(_shown_parameter, rest)


def _shown_parameter(found: re.Match[str]) -> str:
    # The value is searched too: a driver may take a whole connection string as one parameter.
    is_secret = _SECRET_WORD.search(unquote_plus(found[1])) or re.search(
        rf"(?:{_SECRET_WORD.pattern})\w*\s*=", unquote_plus(found[2]), re.IGNORECASE
    )
    return f"{found[1]}={HIDDEN}" if is_secret else found[0]
