"""The forms of secrets: keys of services, private keys, and what commands, headers, addresses and labels call secret.

Kingfisher's rules know the keys of some hundred services. The patterns of this module find what those rules lack: a
secret without a form of its own, of which only the place says what it is.

Every pattern starts at the beginning of a word and has a maximum length, so that the time is linear in the length of
the text. Searching for characters is some fifty times as fast as trying a pattern everywhere: a pattern is only tried
where the characters are without which it cannot match (`matches_near`), or begins with such a character, as the module
`re` then looks for that one. What must be before this character is a condition after it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

__all__ = [
    *("KEY_LINE", "PASSWORD_IN_ADDRESS", "PRIVATE_KEY", "FoundSecret"),
    *("has_one_of", "matches_near", "places_of", "secrets"),
]


class FoundSecret(NamedTuple):
    """A secret at a position in a text."""

    start: int
    end: int
    detail: str


def has_one_of(signs: Iterable[str], text: str) -> bool:
    """Return whether a text contains one of some strings."""
    for sign in signs:  # noqa: SIM110  # `any()` with a generator takes three times as long
        if sign in text:
            return True
    return False


def places_of(signs: Iterable[str], text: str) -> list[int]:
    """Return where one of some strings begins in a text, in order."""
    places = []
    for sign in signs:
        place = text.find(sign)
        while place >= 0:
            places.append(place)
            place = text.find(sign, place + 1)
    return sorted(places)


def matches_near(
    pattern: re.Pattern[str], text: str, places: Iterable[int], before: int = 0
) -> Iterator[re.Match[str]]:
    """Yield what `finditer` would, of a pattern that matches only around some places.

    Args:
        places: The places, in order.
        before: How far before its place a match begins at most.
    """
    untried = 0
    for place in places:
        for start in range(max(untried, place - before), place + 1):
            found = pattern.match(text, start)
            if found is not None:
                yield found
                untried = found.end()
                break
        else:
            untried = max(untried, place + 1)


_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk ?- ?(?:(?:proj|ant|or|svcacct|admin|lf)\w{0,6} ?- ?)?[\w-]{16,400}"
    r"|[spr]k_(?:live|test)_\w{10,300}"
    r"|gh[pousr]_\w{20,300}|github_pat_\w{20,300}|glpat-[\w-]{16,300}|hf_[A-Za-z0-9]{20,100}|npm_[A-Za-z0-9]{30,100}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])|AIza[\w-]{30,100}|ya29\.[\w-]{20,500}"
    r"|xox[abeprs]-[\w-]{10,300}|pypi-[\w-]{30,300}|SG\.[\w-]{16,64}\.[\w-]{16,64}"
    r"|eyJ[\w-]{8,4000}\.[\w-]{8,8000}(?:\.[\w-]{0,2000})?"
    r"|NRAK-[A-Z0-9]{27}(?![0-9A-Za-z])|(?:bot)?\d{8,10}:AA[\w-]{33}(?![\w-])"
    r")"
)
_KEY_IN_GROUPS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-(?:proj-|ant-)?|gh[pousr]_|glpat-|AKIA|AIza|hf_) ?"
    r"[A-Za-z0-9_-]{2,12}(?: [A-Za-z0-9_-]{2,12}){2,20}"
)
"""A key that was typed in groups, such as `AKIA IOSF ODNN 7EXA MPLE`."""
_KEY_SIGNS: Final = (
    *("sk-", "sk -", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_"),
    *("npm_", "akia", "asia", "aiza", "ya29.", "xox", "pypi-", "sg.", "eyj", "nrak-", ":aa"),
)
"""Every match of `_KEY` or `_KEY_IN_GROUPS` holds one of these, in letters of any case."""
_BEFORE_KEY_SIGN: Final = 13
"""How many characters of a match are before it: of `bot1234567890:AA`."""
_PRIVATE_KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?:-----)?")
_PRIVATE_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_BODY: Final = re.compile(r"[\w+/=\s:,.()|>\u2192\u2502-]*")
"""With the signs that follow the number of a line where a tool has printed the file."""
_PRIVATE_KEY_LINES: Final = re.compile(r"(?:\s{0,8}[A-Za-z0-9+/=]{16,200}(?=\s|$)){0,200}")
KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/]{24,200}={0,2}")
PRIVATE_KEY: Final = "a private key"
_LONGEST_PRIVATE_KEY: Final = 20_000
PASSWORD_IN_ADDRESS: Final = re.compile(r"://[^\s/:@?#\"'<>]{0,200}:([^\s/\"'<>]{1,200})@(?=[\w\[])")
_ASSIGNED: Final = re.compile(
    r"(?P<label>password|passwd|passphrase|passwort|(?<![a-z])pass|pwd|secret|secure(?=string)|token|credentials?"
    r"|(?:api|access|account|encryption|master|private|signing|storage)[ _-]?key)"
    r"(?:[_-]?(?:base|key|string|text|value)){0,2}"
    r"(?:[\"'`)\]]{0,2}[ \t]{0,3}(?:\bis\b:?|:=|=>|[:=])[ \t]{0,3}[\"'`]?"
    r"|[\"'](?:[ \t]{0,3},\s{0,9}(?:[\"']value[\"'][ \t]{0,3}:[ \t]{0,3})?|[ \t]{1,3}value=)[\"']"
    r"(?![^\"']{1,60}[\"'][ \t]{0,3}:)"
    r"|[ \t]{1,3}[\"']|\([\"'])"
    r"(?P<value>[^\s\"'`,;<>(){}\[\]|\\]{8,300})"
)
_PASSWORD_WORD: Final = re.compile(
    r"(?<![a-z])(?:contrase\u00f1a|kennwort|mot de passe|pass(?: ?code|phrase|word|wort)?|pwd?|senha|wachtwoord)"
    r"(?![a-z])"
)
_PASSWORD_WORD_SIGNS: Final = ("pass", "pw", "kennwort", "contrase", "senha", "wachtwoord")
_BEFORE_PASSWORD_WORD_SIGN: Final = 7
"""How many characters of a match are before it: of `mot de passe`."""
_NEAR: Final = 48
"""How far from the word for a password, in characters, a word that is formed like one is taken for one."""
_WORD: Final = re.compile(
    r"(?<![^\s\"'`(<\u00ab\u201c\u201e])[^\s\"'`,;<>(){}\[\]|/\\:=\u00bb\u201c\u201d]{8,64}(?![/\\:=(\[])"
)
_LONGEST_WORD: Final = 64
_MIXED: Final = re.compile(r"(?=.*[a-z])(?:.*[a-z\d].*[A-Z])|(?=.*[A-Za-z]).*[!#$%^&*?~+]")
_PREFIXED: Final = re.compile(
    r"(?<![\w/.-])[A-Za-z][A-Za-z0-9]{1,11}(?:[-_][A-Za-z0-9]{1,10}){0,2}[-_]([A-Za-z0-9]{32,200})(?![\w/.+=-])"
)
"""What begins as keys of services do, and is longer than the identifiers that begin so."""
_LONG_PART: Final = re.compile(r"[-_](?=[A-Za-z0-9]{32})")
_BEFORE_LONG_PART: Final = 34
"""How many characters of a match of `_PREFIXED` are before that part at most."""
_AUTHORIZATION: Final = re.compile(
    r"(?:\bbearer|\bauthorization[\"']?\s{0,2}[:=]\s{0,2}[\"']?[\w-]{2,30})\s{1,3}([\w.~+/-]{16,4000}={0,2})"
)
_VARIABLE: Final = re.compile(r"(?<![A-Za-z0-9_])([A-Z][A-Z0-9_]{0,80})=[\"']?([^\s\"'`;&|<>]{6,400})")
"""A variable of an environment, whose name says what it holds."""
_NAMES_OF_PASSWORDS: Final = frozenset({"PASSWORD", "PASSWD", "PASSPHRASE"})
_NAMES_OF_KEYS: Final = frozenset({"AUTH", "CREDENTIAL", "CREDENTIALS", "KEY", "PASS", "SECRET", "TOKEN"})
_OPTION: Final = re.compile(
    r"-(?<!\S-)-?(?:[\w-]{1,30}-)?(?:password|passwd|passphrase|pass|token|secret|api-?key|access-?key)"
    r"\s{1,3}[\"']?([^\s\"'`;&|<>]{8,400})"
)
"""An option of a command."""
_NETRC: Final = re.compile(r"login(?<=\blogin)\s{1,3}\S{1,100}\s{1,3}password\s{1,3}[\"']?([^\s\"'`;&|<>]{8,400})")
"""The line of a `.netrc`."""
_USER_OPTION: Final = re.compile(
    r"-(?<!\S-)(?:a|u|-auth|-user|-proxy-user)[ =]{1,2}[\"']?[\w.@+-]{1,100}:([^\s\"'`;&|<>]{8,400})"
)
"""The user and password of `curl -u`."""
_ARGUMENT: Final = re.compile(
    r"\b(?:(?:(?:mariadb|mongo|mysql|sshpass)\w{0,12}|(?:az|buildah|docker|helm registry|podman|skopeo) login)\b"
    r"[^\n|;]{0,200}?\s-p ?|7za? [^\n|;]{0,200}?-p|ldap[a-z]{2,12} [^\n|;]{0,200}?-w ?"
    r"|(?:rpcclient|smbclient|smbget|winexe) [^\n|;]{0,200}?-u ?[^\s%]{1,80}%|redis-cli [^\n|;]{0,200}?-a "
    r"|net use [^\n|;]{0,200}?/user:\S{1,80} )"
    r"[\"']?([^\s\"'`;&|<>]{8,400})"
)
"""The password of a program that takes it after a letter, which other programs use for other things."""
_PROGRAMS: Final = (
    *("mariadb", "mongo", "mysql", "sshpass", "login", "7z", "ldap", "rpcclient", "smb", "winexe", "redis-cli"),
    "net use",
)
"""Every match of `_ARGUMENT` holds one of these."""
_WEBHOOK: Final = re.compile(r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(\d{15,20}/[\w-]{40,100})")
"""An address that anyone who knows it may write to."""
_PARAMETER: Final = re.compile(r"[?&](?:amp;)?([\w.-]{1,60})=([^\s&#\"'`<>]{4,2000})")
"""A parameter in the query of an address."""
_WORDS_OF_PASSWORDS: Final = frozenset(
    {"otp", "pass", "passcode", "passphrase", "passwd", "passwort", "password", "pin", "psw", "pw", "pwd", "secret"}
)
_WORDS_OF_KEYS: Final = frozenset(
    {
        "apikey",
        "appid",
        "assertion",
        "auth",
        "authorization",
        "code",
        "credential",
        "hmac",
        "jwt",
        "key",
        "nonce",
        "session",
    }
    | {"sessionid", "sid", "sig", "signature", "ticket", "token"}
)
_WORD_OF_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COOKIES: Final = re.compile(
    r"(?:\bcookie[\"']?\s{0,2}[:=]\s{0,2}|(?<!\S)(?:-b|--cookie)[ =])[\"']?([^\r\n\"']{8,4000})"
)
_COOKIE: Final = re.compile(r"(?<![\w.-])[\w.-]{1,80}=([^\s;,]{16,4000})")
_ELEMENT: Final = re.compile(
    r"<(?:[\w:.-]{0,40})(?:password|passwd|pwd|secret|token|api[_-]?key)>\s{0,3}([^<>\s]{8,300})\s{0,3}</"
)
"""An element of XML."""
_STORED_LOGIN: Final = re.compile(r"[\"']auth[\"']\s{0,3}:\s{0,3}[\"']([A-Za-z0-9+/]{12,2000}={0,2})[\"']")
"""A user and a password in base 64, as Docker stores them."""
_ASSIGNED_SIGNS: Final = ("pass", "pwd", "secret", "secure", "key", "token", "credential")
_BEFORE_ASSIGNED_SIGN: Final = 11
"""How many characters of a match are before it: of `encryption_key`."""
_AUTHORIZATION_SIGNS: Final = ("bearer", "author")
_COMMAND_SIGNS: Final = (
    "pass",
    "secret",
    "key",
    "token",
    "auth",
    "credential",
    " -u",
    "-user",
    " -p",
    " -w",
    " -a ",
    " /user:",
)
_QUOTATION_MARKS: Final = ("'", '"', "`")
_NEXT_PARAMETER: Final = re.compile(r"&[\w.-]{1,50}=")
_PLACEHOLDER: Final = re.compile(
    r"(?:password|passwd|pass|pw|pwd|secret|key|token|x+|\*+|\.+|[$%{<\[].*|your.*|my.*|hidden.*)", re.IGNORECASE
)
_CODE: Final = re.compile(r"(?=.*[_.:/])[A-Za-z]+\d{0,2}(?:[_.:/-]+[A-Za-z]*\d{0,2})+|[a-z]+(?:[A-Z][a-z]+)+\d{0,2}")
"""Words with a small number at their end, joined as code joins them: `get_token_v2`, `os.environ`, `nextToken2`."""

_LENGTH_OF_PHRASES: Final = 12
"""In letters: no value of an ordinary parameter is such a long word."""
_SHORTEST_RANDOM: Final = 16
_LENGTH_OF_RANDOM_PART: Final = 10
_LENGTH_OF_OPAQUE_PART: Final = 20
_ACCESS_KEY: Final = "an access key"
_LABELLED: Final = "a password or key"
_LIKELY_PASSWORD: Final = re.compile(
    r"\b(?:password|passwort|passwd|passphrase|pass ?code|pwd|pw)"
    r"[\"'`)\]]{0,2}[ \t]{0,3}(?:\b(?:is|was|ist|war)\b:?|:=|=>|[:=]|(?<=pw) )[ \t]{0,3}[\"'`]?"
    r"([A-Za-z]{3,20}(?:-[A-Za-z]{3,20}){2,9}(?![\w-])|(?=[^\s\"'`]{0,40}\d)(?=[^\s\"'`]{0,40}[^\W\d_])[^\s\"'`,;<>(){}\[\]|\\]{5,300})"
    r"|\b(?:pin|cvc|cvv|security code)(?: code)?[ \t]{0,3}(?:\b(?:is|was|ist|war)\b:?|[:=])[ \t]{0,3}(\d{3,8})(?!\w)"
    r"|\bpin (\d{4,6})(?!\w)",
    re.IGNORECASE,
)
"""A password, also one of words, or a number after a label; shorter than `_ASSIGNED` requires."""


def secrets(text: str, folded: str, *, thorough: bool) -> Iterator[FoundSecret]:
    """Yield the secrets in a text; several may overlap.

    Args:
        text: A decoded text.
        folded: The same text in small letters, of the same length.
        thorough: Also find what may be a password.
    """
    yield from _keys_in(text, folded)
    if "-----begin " in folded:
        yield from _private_keys_in(text)
    if "://" in text:
        for found in PASSWORD_IN_ADDRESS.finditer(text):
            if not _PLACEHOLDER.fullmatch(found[1]):
                yield FoundSecret(*found.span(1), "an address with a password")
    if "=" in text:
        yield from _secrets_in_pairs(text, folded)
    yield from _labelled_secrets_in(text, folded)
    if has_one_of(_COMMAND_SIGNS, folded):
        yield from _secrets_of_commands_in(text, folded)
    if thorough:
        yield from _likely_secrets_in(text)


def _keys_in(text: str, folded: str) -> Iterator[FoundSecret]:
    for start, end in _service_keys(text):
        if not _PLACEHOLDER.fullmatch(text, start, end):
            yield FoundSecret(start, end, _ACCESS_KEY)
    if "_" in text or "-" in text:
        long_parts = (found.start() for found in _LONG_PART.finditer(text))
        for found in matches_near(_PREFIXED, text, long_parts, _BEFORE_LONG_PART):
            if _mixes_cases_and_digits(found[1]):
                yield FoundSecret(*found.span(), _ACCESS_KEY)
    if "webhooks/" in text:
        for found in _WEBHOOK.finditer(text):
            yield FoundSecret(*found.span(1), _ACCESS_KEY)
    if places := places_of(_KEY_SIGNS, folded):
        yield from _keys_by_beginning_in(text, places)


def _keys_by_beginning_in(text: str, places: Sequence[int]) -> Iterator[FoundSecret]:
    for found in matches_near(_KEY, text, places, _BEFORE_KEY_SIGN):
        if _looks_random(found[0]):
            yield FoundSecret(*found.span(), _ACCESS_KEY)
    for found in matches_near(_KEY_IN_GROUPS, text, places):
        if end := _end_of_groups(found):
            yield FoundSecret(found.start(), end, _ACCESS_KEY)


def _secrets_in_pairs(text: str, folded: str) -> Iterator[FoundSecret]:
    """Find secrets in environment variables, the queries of addresses, and cookies."""
    for found in _VARIABLE.finditer(text):
        if _is_secret_variable(found[1], found[2]):
            yield FoundSecret(*found.span(2), _LABELLED)
    if "?" in text or "&" in text:
        for found in _PARAMETER.finditer(text):
            if _is_secret_parameter(found[1], found[2]):
                yield FoundSecret(*found.span(2), _LABELLED)
    if "cookie" in folded or "-b " in text:
        for cookies in _COOKIES.finditer(folded):
            for found in _COOKIE.finditer(text, *cookies.span(1)):
                if _is_random(found[1]):
                    yield FoundSecret(*found.span(1), "a cookie")


def _is_secret_parameter(name: str, value: str) -> bool:
    words = {word.lower() for word in _WORD_OF_NAME.findall(name)}
    if _PLACEHOLDER.fullmatch(value):
        return False
    if words & _WORDS_OF_PASSWORDS:
        return not _is_code(value) and (not value.isalpha() or len(value) >= _LENGTH_OF_PHRASES)
    return bool(words & _WORDS_OF_KEYS) and _is_random(value)


def _labelled_secrets_in(text: str, folded: str) -> Iterator[FoundSecret]:
    if places := places_of(_ASSIGNED_SIGNS, folded):
        yield from _assigned_secrets_in(text, folded, places)
        yield from _passwords_of(_ELEMENT.finditer(folded), text)
    if places := places_of(_PASSWORD_WORD_SIGNS, folded):
        yield from _passwords_near_words(text, folded, places)
    if places := places_of(_AUTHORIZATION_SIGNS, folded):
        yield from _passwords_of(matches_near(_AUTHORIZATION, folded, places), text)


def _assigned_secrets_in(text: str, folded: str, places: Sequence[int]) -> Iterator[FoundSecret]:
    for found in matches_near(_ASSIGNED, folded, places, _BEFORE_ASSIGNED_SIGN):
        start = found.start("value")
        value = _NEXT_PARAMETER.split(text[start : found.end()], maxsplit=1)[0]
        if text[found.end() : found.end() + 1] not in _QUOTATION_MARKS:
            value = value.rstrip(".!?:")
        end = start + len(value)
        # The token that a parser did not expect is a word, too.
        is_word = found["label"] == "token" and sum(sign.isdigit() for sign in value) < 2
        if _looks_like_password(value) and not is_word and text[end : end + 1] not in ("(", "["):
            yield FoundSecret(start, end, _LABELLED)


def _passwords_near_words(text: str, folded: str, places: Sequence[int]) -> Iterator[FoundSecret]:
    """Find a word that is formed like a password near the word for one, in whatever language they are joined."""
    for label in matches_near(_PASSWORD_WORD, folded, places, _BEFORE_PASSWORD_WORD_SIGN):
        first = max(0, label.start() - _NEAR)
        first = max(first, text.rfind("\n", first, label.start()) + 1)
        line_end = text.find("\n", label.end(), label.end() + _NEAR)
        last = line_end if line_end >= 0 else label.end() + _NEAR
        for found in _WORD.finditer(text, first, last + _LONGEST_WORD):
            start = found.start()
            if start >= last:
                break
            is_after = start >= label.end() or text[start - 1 : start] in _QUOTATION_MARKS
            value = found[0].rstrip(".!?") if text[found.end() : found.end() + 1] not in _QUOTATION_MARKS else found[0]
            if is_after and _MIXED.match(value) and _looks_like_password(value):
                yield FoundSecret(start, start + len(value), _LABELLED)


def _passwords_of(matches: Iterable[re.Match[str]], text: str) -> Iterator[FoundSecret]:
    for found in matches:
        start, end = found.span(1)
        if _looks_like_password(text[start:end]):
            yield FoundSecret(start, end, _LABELLED)


def _likely_secrets_in(text: str) -> Iterator[FoundSecret]:
    for found in _LIKELY_PASSWORD.finditer(text):
        value = found[found.lastindex or 0].rstrip(".!?:")
        if not _PLACEHOLDER.fullmatch(value) and ("-" in value or not _is_code(value)):
            start = found.start(found.lastindex or 0)
            yield FoundSecret(start, start + len(value), _LABELLED)


def _secrets_of_commands_in(text: str, folded: str) -> Iterator[FoundSecret]:
    """Find secrets in commands and files with logins."""
    for pattern in (_OPTION, _NETRC, _USER_OPTION):
        yield from _passwords_of(pattern.finditer(folded), text)
    if has_one_of(_PROGRAMS, folded):
        yield from _passwords_of(_ARGUMENT.finditer(folded), text)
    if "auth" in text:
        for found in _STORED_LOGIN.finditer(text):
            if _is_login(found[1]):
                yield FoundSecret(*found.span(1), _LABELLED)


def _is_secret_variable(name: str, value: str) -> bool:
    words = name.rstrip("0123456789_").removesuffix("_BASE").split("_")
    if value.startswith(("/", "./", "~")) or _PLACEHOLDER.fullmatch(value) or _is_code(value):
        return False
    if words[-1] in _NAMES_OF_PASSWORDS or _is_opaque(value):
        return True
    return words[-1] in _NAMES_OF_KEYS and _looks_like_password(value)


def _is_opaque(value: str) -> bool:
    """Whether part of it is a long mixture of capitals, small letters and digits; hashes have letters of one case."""
    return any(
        len(part) >= _LENGTH_OF_OPAQUE_PART and _mixes_cases_and_digits(part)
        for part in re.split(r"[^A-Za-z0-9]+", value)
    )


def _is_login(text: str) -> bool:
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:  # it is not base 64, or not a text
        return False
    return bool(user and colon and password)


def _looks_random(key: str) -> bool:
    """Distinguish keys, which mix digits or cases, from names such as `sk-learn-orders-2024`."""
    if re.search(r"[a-z][A-Z].*[a-z][A-Z].*[a-z][A-Z]", key) is not None:
        return True
    return any(
        re.fullmatch(r"[A-Za-z]{14,}\d+|\d{12,}", part) is not None
        or (re.search(r"\d", part) and re.search(r"[A-Za-z]", part) and not re.fullmatch(r"[A-Za-z]+\d{1,4}", part))
        for part in re.split(r"[-_. ]+", key)
        if len(part) >= 4
    )


def _looks_like_password(value: str) -> bool:
    """Whether it holds letters and digits, as passwords do, and is neither a placeholder nor a name from code."""
    if len(value) < 8 or not any(sign.isdigit() for sign in value) or not any(sign.isalpha() for sign in value):
        return False
    return _PLACEHOLDER.fullmatch(value) is None and not _is_code(value)


def _mixes_cases_and_digits(value: str) -> bool:
    return all(any(test(sign) for sign in value) for test in (str.isdigit, str.islower, str.isupper))


def _is_random(value: str) -> bool:
    """Whether part of it mixes letters and digits as no name does; the parts of a path or an identifier are short."""
    return len(value) >= _SHORTEST_RANDOM and any(
        len(part) >= _LENGTH_OF_RANDOM_PART and re.search(r"\d", part) and re.search(r"[A-Za-z]", part)
        for part in re.split(r"[-_./+=~:|]+", value)
    )


def _is_code(value: str) -> bool:
    """Whether it is a name from code, or a path of such names."""
    return _CODE.fullmatch(value.lstrip("~./")) is not None


def _end_of_groups(found: re.Match[str]) -> int | None:
    """Return where a key that was written in groups of one length ends; None if these are ordinary words."""
    groups = list(re.finditer(r"\S+", found[0]))[1:]
    size = len(groups[0][0])
    same = [groups[0]]
    for group in groups[1:]:
        is_rest = len(group[0]) < size and any(sign.isdigit() for sign in group[0])
        if len(same[-1][0]) < size or not (len(group[0]) == size or is_rest):
            break
        same.append(group)
    with_digits = sum(any(sign.isdigit() for sign in group[0]) for group in same)
    in_capitals = with_digits == 1 and all(group[0].isupper() or group[0].isdigit() for group in same)
    if size < 3 or len(same) < 3 or not (with_digits >= 2 or in_capitals):
        return None
    return found.start() + same[-1].end()


def _private_keys_in(text: str) -> Iterator[FoundSecret]:
    for begin in _PRIVATE_KEY_BEGIN.finditer(text):
        place = text.find("-----", begin.end(), begin.end() + _LONGEST_PRIVATE_KEY)
        end = _PRIVATE_KEY_END.match(text, place) if place >= 0 else None
        if end is None or not _PRIVATE_KEY_BODY.fullmatch(text, begin.end(), place):  # hide the lines that are there
            end = _PRIVATE_KEY_LINES.match(text, begin.end())
        yield FoundSecret(begin.start(), begin.end() if end is None else end.end(), PRIVATE_KEY)


_LONG_WORD: Final = re.compile(r"\S{16,}")
_DIGIT: Final = re.compile(r"\d")
_DELIMITERS: Final = bytes.maketrans(b",()[]<>&|!?", b" " * 11)
"""What may follow a key in prose, an address or code, where the rules expect a blank or a quotation mark."""
_lock: Final = Lock()
_scanner: Scanner | None = None


def _service_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the keys of services, such as Replicate's `r8_...`, begin and end in a text.

    The rules are those that the project Kingfisher maintains. Reading them takes 0.3 seconds of CPU (3 the first time
    on a machine; Kingfisher then stores the compiled rules in the user's folder of caches), so they are read only when
    a text contains a word that may be a key. Nothing is sent: checking with the service whether a key is valid is
    another part of that library, which is not used here.
    """
    if not _may_have_key(text):
        return
    data = text.encode("utf-8", "replace").translate(_DELIMITERS)
    data = data.replace(b". ", b"  ").replace(b".\n", b" \n").removesuffix(b".")
    for finding in _loaded_scanner().scan(data):
        if finding.visible:  # the others are names that belong to a key, such as that of an account
            start, end = finding.location["start_offset"], finding.location["end_offset"]
            if not text.isascii():
                start, end = len(data[:start].decode()), len(data[:end].decode())
            yield start, end


def _may_have_key(text: str) -> bool:
    # One word after the other: the list of all words takes twelve times the memory of the text.
    return _DIGIT.search(text) is not None and any(_DIGIT.search(word[0]) for word in _LONG_WORD.finditer(text))


def _loaded_scanner() -> Scanner:
    global _scanner
    with _lock:
        if _scanner is None:
            from kingfisher_sdk import Scanner

            _scanner = Scanner(base64=False)
    return _scanner
