"""Finds in a text what looks like personal data, or like a key or password."""

from __future__ import annotations

import re

__all__ = ["personal_data_in", "secret_in"]

# Patterns begin where a word begins and have a longest length: a text that was made to be slow must not stop a run.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@([\w-]{1,63}(?:\.[\w-]{1,63}){1,10})")
_RESERVED_DOMAIN = re.compile(r"(?:^|\.)(?:example(?:\.(?:com|org|net))?|invalid|test|localhost)$", re.IGNORECASE)
_PHONE = re.compile(r"(?<![\w.])(?:\+\d[\d ()/.-]{7,17}\d|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])")
_SOCIAL_SECURITY = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_CARD = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){12,18}(?![\w,-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")

_KEY = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_\w{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bxox[abprs]-[\w-]{10,}|(?<![\w-])eyJ[\w-]{8,1000}\.[\w-]{8}"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY")
_ADDRESS_WITH_PASSWORD = re.compile(r"://[^\s/:@]{1,200}:[^\s/@]{1,200}@")
_ASSIGNED = re.compile(
    r"(?:password|passwd|passphrase|secret|api[ _-]?key|token)\W{0,3}(?:\bis\b|[:=])\s*[\"'`]?([\w+/!@#%^&*.~-]{8,})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\bBearer\s+([\w.~+/-]{16,})")


def personal_data_in(text: str) -> str | None:
    """Say what kind of personal data a text seems to hold, or return None.

    Addresses of the domains that are reserved for examples are none.

    Args:
        text: Any text.

    Example:
        >>> personal_data_in("Ask jane.doe@acme.com first."), personal_data_in("Write to me@example.com.")
        ('an e-mail address', None)
    """
    for found in _EMAIL.finditer(_ADDRESS_WITH_PASSWORD.sub("://", text)):
        is_repository = found[0].startswith("git@")
        if not is_repository and not _RESERVED_DOMAIN.search(found[1].rstrip(".")):
            return "an e-mail address"
    if any(_iban_checks(found[0]) for found in _IBAN.finditer(text)):
        return "a bank account number"
    if any(_card_checks(found[0]) for found in _CARD.finditer(text)):
        return "a card number"
    if _SOCIAL_SECURITY.search(text):
        return "a social security number"
    return "a telephone number" if _PHONE.search(text) else None


def secret_in(text: str) -> str | None:
    """Say what kind of secret a text seems to hold, or return None.

    Args:
        text: Any text.

    Example:
        >>> secret_in("Log in with password: hunter2-hunter2"), secret_in("Never print the password.")
        ('a password or key', None)
    """
    if _PRIVATE_KEY.search(text):
        return "a private key"
    if _KEY.search(text):
        return "an access key"
    if _ADDRESS_WITH_PASSWORD.search(text):
        return "an address with a password"
    values = [found[1] for pattern in (_ASSIGNED, _BEARER) for found in pattern.finditer(text)]
    return "a password or key" if any(_looks_random(value) for value in values) else None


def _looks_random(value: str) -> bool:
    """Whether it is made of letters and digits, as keys are and placeholders or names of variables are not."""
    return any(sign.isdigit() for sign in value) and any(sign.isalpha() for sign in value)


def _card_checks(text: str) -> bool:
    """Whether the digits of a card number fit its last one (Luhn)."""
    digits = [int(sign) for sign in text if sign.isdigit()]
    if len(set(digits)) == 1:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban_checks(text: str) -> bool:
    """Whether the letters and digits of an account number fit its check digits (ISO 7064, modulo 97)."""
    signs = text.replace(" ", "")
    return len(signs) >= 15 and int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1
