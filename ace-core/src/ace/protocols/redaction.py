"""Keep keys and passwords out of logs, errors, traces and prompts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

__all__ = ["HIDDEN", "environment_secrets", "is_secret_name", "redact"]

HIDDEN = "[hidden]"
_SHORTEST_SECRET = 8
_SECRET_NAME = re.compile(
    r"api[_-]?key|secret|password|passwd|authorization|private[_-]?key|"
    r"(^|[_-])(auth|access|refresh|bearer|api)[_-]?token$",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Tell whether a field of this name holds a key or a password.

    Args:
        name: A field name, a header name or a variable name.

    Example:
        >>> is_secret_name("api_key"), is_secret_name("Authorization"), is_secret_name("key_insight")
        (True, True, False)
    """
    return _SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the values of the variables whose names say that they are secret.

    Args:
        environ: The environment to look at; by default that of this process.
    """
    variables = os.environ if environ is None else environ
    return [
        value for name, value in variables.items() if _SECRET_VARIABLE.search(name) and len(value) >= _SHORTEST_SECRET
    ]


def redact(text: str, secrets: Iterable[str] | None = None) -> str:
    """Replace every secret in a text by a visible mark.

    Args:
        text: Any text.
        secrets: The secrets; by default the values of the environment's secret variables.

    Example:
        >>> redact("refused: sk-12345678", ["sk-12345678"])
        'refused: [hidden]'
    """
    known = environment_secrets() if secrets is None else secrets
    # A longer secret may begin with a shorter one.
    for secret in sorted(known, key=len, reverse=True):
        if secret:
            text = text.replace(secret, HIDDEN)
    return text
