"""Redacts the secrets that the agent may type: they reappear in addresses and on pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, get_args

from ace.logs import fields_of, text_of
from ace.redaction import Finding, Redactor, SensitiveClass

__all__ = ["marked_secrets_redactor", "secrets_redactor"]

_PLACEHOLDER: Final = re.compile(r"<secret>([^<>]+)</secret>")
_PARAMETER: Final = re.compile(r"[?&#]([^?&#=\s]{1,100})=([^?&#\s\"'<>]{1,2000})")
"""A parameter in the query or the fragment of an address."""


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


def marked_secrets_redactor(items: Sequence[Mapping[str, Any]]) -> Redactor:
    """Return a redactor for what a stored history itself shows to be secret, without the `sensitive_data` of the agent.

    It is what was typed into the fields for passwords, and the values, in addresses, of the fields into which the agent
    typed `sensitive_data`, of which a history contains the name only.

    Args:
        items: The `history` of a file of browser-use.

    Example:
        >>> field = {"attributes": {"type": "text", "name": "door"}}
        >>> typed = {"action": [{"input": {"index": 1, "text": "<secret>code</secret>"}}]}
        >>> items = [{"model_output": typed, "state": {"url": "http://x/?door=a+b", "interacted_element": [field]}}]
        >>> marked_secrets_redactor(items).redact_value("opened http://x/?door=a+b, typed a b")
        'opened http://x/?door=<secret>code</secret>, typed <secret>code</secret>'
    """
    secrets: dict[str, str] = {}
    names: dict[str, str] = {}
    for text, attributes in _typed(items):
        fields = [str(attributes[key]) for key in ("name", "id") if attributes.get(key)]
        placeholder = _PLACEHOLDER.search(text)
        if placeholder is not None:
            names |= dict.fromkeys([*fields, placeholder[1]], placeholder[1])
        elif attributes.get("type") == "password":
            name = fields[0] if fields else "password"
            names |= dict.fromkeys(fields, name)
            secrets[f"{len(secrets)}\n{name}"] = text
    for text in _texts_in(items) if names else ():
        for field, value in _PARAMETER.findall(text):
            if field in names and not _PLACEHOLDER.match(value):
                secrets[f"{len(secrets)}\n{names[field]}"] = value
    return Redactor(secrets, allow=get_args(SensitiveClass), mark=_mark)


def _typed(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each text that the agent typed, and the attributes of the field."""
    for item in items:
        actions = fields_of(item.get("model_output")).get("action")
        elements = fields_of(item.get("state")).get("interacted_element")
        if not isinstance(actions, list):
            continue
        elements = elements if isinstance(elements, list) else []
        for action, element in zip_longest(actions, elements[: len(actions)]):
            for arguments in fields_of(action).values():
                text = text_of(fields_of(arguments).get("text"))
                if text.strip():
                    yield text, fields_of(fields_of(element).get("attributes"))


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(inner)


def _mark(finding: Finding) -> str:
    return f"<secret>{finding.detail.rpartition(chr(10))[2]}</secret>"
