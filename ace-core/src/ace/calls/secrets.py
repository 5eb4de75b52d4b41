"""Finds the keys and passwords known to this process, and redacts them in logs, errors, traces and prompts."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ace.redaction import Redactor, SensitiveClass

__all__ = [
    "HIDDEN",
    "client_keys",
    "environment_secrets",
    "is_secret_name",
    "known_secrets",
    "redact",
    "secrets_in",
]

HIDDEN = "[hidden]"
_SHORTEST_SECRET = 8
"""The minimum length of a key in characters; a shorter value would match inside ordinary words."""
_SECRET_NAME = re.compile(
    r"api[_-]?key|secret|password|passwd|authorization|private[_-]?key|"
    r"(^|[_-])(auth|access|refresh|bearer|api)[_-]?token$",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name contains a key or a password.

    Args:
        name: A field name, a header name or a variable name.

    Example:
        >>> is_secret_name("api_key"), is_secret_name("Authorization"), is_secret_name("key_insight")
        (True, True, False)
    """
    return _SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the values of the variables with names of secrets.

    Args:
        environ: The environment; by default that of this process.
    """
    if environ is not None:
        return _secret_values(environ)
    global _last_seen
    # This is called several times for every sample, and the values may change at any time. Reading `os.environ` decodes
    # each name in Python; comparing the encoded variables with those of the last call takes a twentieth of that.
    encoded: object = getattr(os.environ, "_data", None)
    if not isinstance(encoded, dict):  # another implementation of Python
        return _secret_values(os.environ)
    seen, secrets = _last_seen
    if encoded != seen:
        seen = dict(encoded)  # before the values are read: if they change meanwhile, the next call sees that
        secrets = tuple(_secret_values(os.environ))
        _last_seen = seen, secrets
    return list(secrets)


_last_seen: tuple[dict[object, object], tuple[str, ...]] = {}, ()
"""The encoded variables of the environment at the last call, and the secrets among them."""


def _secret_values(variables: Mapping[str, str]) -> list[str]:
    values = [variables.get(name, "") for name in variables if _is_secret_variable(name)]
    return [value for value in values if len(value) >= _SHORTEST_SECRET]


@functools.lru_cache(maxsize=4096)
def _is_secret_variable(name: str) -> bool:
    return _SECRET_VARIABLE.search(name) is not None


def secrets_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the keys in the settings of a request or a client, including those in headers.

    Args:
        settings: Values by their names.

    Example:
        >>> secrets_in({"model": "m", "extra_headers": {"Authorization": "Bearer sk-12345678"}})
        ['Bearer sk-12345678', 'sk-12345678']
    """
    found: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += secrets_in(value)
        elif isinstance(value, str) and is_secret_name(name):
            found += dict.fromkeys([value, value.removeprefix("Bearer ")])
    return found


def client_keys(client: object) -> list[str]:
    """Return the keys of a client, including those of its fallbacks and of a client that it wraps.

    Args:
        client: A client that has its settings in `config`, or wraps such a client in `client`. For None, and any other
            object, the result is empty.
    """
    keys: list[str] = []
    while client is not None:
        config: object = getattr(client, "config", None)
        for model in (config, *getattr(config, "fallbacks", ())):
            options = getattr(model, "options", None)
            keys += secrets_in(
                {"api_key": getattr(model, "api_key", None), **(options if isinstance(options, Mapping) else {})}
            )
        client = getattr(client, "client", None)
    return [key for key in dict.fromkeys(keys) if len(key) >= _SHORTEST_SECRET]


def known_secrets(*clients: object) -> list[str]:
    """Return the secrets of the environment and the keys of these clients.

    Args:
        *clients: Clients, as `client_keys` takes them.
    """
    return [*environment_secrets(), *(key for client in clients for key in client_keys(client))]


def redact(text: str, secrets: Iterable[str] | None = None) -> str:
    """Replace every known secret in a text by a visible mark, in any common encoding.

    `ace.redaction.redact` also finds text that only looks like a secret or personal data.

    Args:
        text: Any text.
        secrets: The secrets; by default the values of the environment's secret variables.

    Example:
        >>> redact("refused: sk-12345678", ["sk-12345678"])
        'refused: [hidden]'
    """
    known = environment_secrets() if secrets is None else secrets
    return _hiding(tuple(known)).redact(text)


@functools.lru_cache(maxsize=16)
def _hiding(secrets: tuple[str, ...]) -> Redactor:
    return Redactor(secrets, allow=get_args(SensitiveClass), mark=lambda _: HIDDEN)
