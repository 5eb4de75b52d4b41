"""What a planted text is, and random parts of secrets.

No secret is complete in the source, so that a scanner of repositories does not report these sets: each one is made from
its known beginning and random characters when it is needed.
"""

from __future__ import annotations

import base64
import random
import string
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_BASE_62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


class Parts(random.Random):
    """Random parts of secrets and identifiers."""

    def of(self, alphabet: str, count: int) -> str:
        return "".join(self.choices(alphabet, k=count))

    def mixed(self, count: int) -> str:
        """Letters and digits, both of them."""
        return self.of(string.ascii_letters + string.digits, count - 3) + self.of(string.digits, 1) + "aZ"

    def small(self, count: int) -> str:
        return self.of(string.ascii_lowercase + string.digits, count)

    def capitals(self, count: int) -> str:
        return self.of(string.ascii_uppercase + string.digits, count)

    def hex(self, count: int) -> str:
        return self.of("0123456789abcdef", count)

    def digits(self, count: int) -> str:
        return self.of(string.digits, count)

    def base64(self, size: int) -> str:
        return base64.b64encode(self.randbytes(size)).decode()

    def url_safe(self, size: int) -> str:
        return base64.urlsafe_b64encode(self.randbytes(size)).decode().rstrip("=")

    def uuid(self) -> str:
        return "-".join((self.hex(8), self.hex(4), f"4{self.hex(3)}", f"a{self.hex(3)}", self.hex(12)))

    def checked(self, prefix: str) -> str:
        """A token whose last six characters are a checksum, as GitHub and npm make them."""
        secret = self.of(_BASE_62, 30)
        checksum, check = zlib.crc32(secret.encode()), ""
        for _ in range(6):
            checksum, place = divmod(checksum, 62)
            check = _BASE_62[place] + check
        return prefix + secret + check

    def jwt(self) -> str:
        parts = (b'{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{self.digits(9)}","iat":17{self.digits(8)}}}'.encode())
        encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
        return ".".join((*encoded, self.url_safe(32)))

    def pem(self, kind: str, size: int = 600) -> str:
        body = self.base64(size)
        lines = "\n".join(body[place : place + 64] for place in range(0, len(body), 64))
        return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with something sensitive between `start` and `end`."""

    kind: str
    text: str
    start: int
    end: int


Recipe = tuple[str, str, Callable[[Parts], str]]
"""The kind, the text with `@@` where the value belongs, and what makes the value."""


def planted(recipes: tuple[Recipe, ...], seed: int) -> list[Planted]:
    """Return the texts of some recipes."""
    parts = Parts(seed)
    result = []
    for kind, template, make in recipes:
        before, after = template.split("@@")
        value = make(parts)
        result.append(Planted(kind, before + value + after, len(before), len(before) + len(value)))
    return result
