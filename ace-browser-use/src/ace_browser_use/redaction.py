"""Redacts the secrets that the agent may type: they reappear in addresses and on pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ace.redaction import Finding, Redactor, SensitiveClass

__all__ = ["secrets_redactor"]


def secrets_redactor(sensitive_data: Mapping[str, Any] | None) -> Redactor:
    """Return a redactor that replaces the values of `sensitive_data` by their names, with browser-use's marks.

    All other secrets are redacted by the learning steps.

    Args:
        sensitive_data: Names and values, optionally by site, in the format of browser-use.

    Example:
        >>> secrets_redactor({"pin": "a b"}).redact_value({"url": "http://x/?p=a+b", "pages": ["a b"]})
        {'url': 'http://x/?p=<secret>pin</secret>', 'pages': ['<secret>pin</secret>']}
    """
    secrets: dict[str, str] = {}
    for name, value in (sensitive_data or {}).items():
        values = value if isinstance(value, Mapping) else {name: value}
        # Several sites may have values of the same name.
        secrets.update({f"{name}\n{inner}": str(secret) for inner, secret in values.items()})
    return Redactor(secrets, allow=get_args(SensitiveClass), mark=_mark)


def _mark(finding: Finding) -> str:
    return f"<secret>{finding.detail.rpartition(chr(10))[2]}</secret>"
