"""Finds secrets and personal data in text, and replaces them by a visible mark.

This is the one place that decides what is sensitive. It works in three steps:

1. The text is decoded: percent-encoding, HTML entities, escapes of JSON, full-width and other compatibility characters
   become the characters that they represent, however often they were encoded. `_Decoded` knows for each character of
   the result where it came from.
2. Known secrets are searched for in the original text and after each round of decoding, since only one of these may
   contain a secret in its plain form. (After the last round, the end of a secret and the character after it may have
   become one.) Patterns, and the rules of Kingfisher for the keys of services, find whatever has the form of a secret
   or of personal data in the decoded text.
3. Overlapping findings are joined, and their positions in the original text are returned.

Every pattern starts at the beginning of a word and has a maximum length, so that the time is linear in the length of
the text, even for a text that was made to be slow. Most texts contain nothing sensitive, and every sample is searched:
a pattern is only tried on a text that contains the characters without which it cannot match.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html.entities import html5
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from ace._internal.arguments import checked_class
from ace._internal.secret_forms import (
    KEY_LINE,
    PASSWORD_IN_ADDRESS,
    PRIVATE_KEY,
    has_one_of,
    matches_near,
    places_of,
    secrets,
)

__all__ = ["PERSONAL_DATA", "Finding", "Redactor", "SensitiveClass", "find", "redact"]

T = TypeVar("T")

SensitiveClass = Literal[
    "secret", "email_address", "phone_number", "card_number", "bank_account", "social_security_number"
]
"""The classes of sensitive text. `secret` means keys, tokens, passwords and private keys."""

PERSONAL_DATA: Final[frozenset[SensitiveClass]] = frozenset(get_args(SensitiveClass)) - {"secret"}
"""The classes of personal data."""

_ALL_CLASSES: Final = frozenset(get_args(SensitiveClass))
_SHORTEST_INSIDE_WORDS: Final = 8
"""A known secret that is shorter is replaced only where it is a word of its own, with the same capitals."""


class Finding(NamedTuple):
    """Sensitive text at a position in a text."""

    start: int
    """The position of its first character."""
    end: int
    """The position after its last character."""
    kind: SensitiveClass
    """Its class."""
    detail: str
    """A description for messages, such as `an access key`; the name of a known secret that has one."""


_SHORTEST_BY_FORM: Final = 6
"""In characters: what `a@b.cd` has. Nothing shorter is found by its form."""
_LONGEST_COMMON_TEXT: Final = 32
_MOST_COMMON_TEXTS: Final = 1000

_HASH: Final = re.compile("[0-9a-f]{16}@")
"""The beginning of the name of a recorded trace."""


@checked_class
class Redactor:
    """Finds secrets and personal data, and replaces them.

    Args:
        secrets: Values that are known to be secret, or a mapping from names to such values. They are found however a
            browser, a form or JSON writes them. `allow` does not concern them.
        allow: The classes to leave alone; `personal_data` means all of `PERSONAL_DATA`. Other words are ignored,
            so that the list of a `LeakageGuard` fits.
        mark: Returns the mark for a finding; by default `[hidden: CLASS]`.
        thorough: Also find what may be sensitive: national telephone numbers without a label, addresses in domains
            that are reserved for examples, and shorter passwords after a label. More ordinary text is found as well,
            so it suits where a mark is later replaced by the original, and not the learning from traces.

    Example:
        >>> redactor = Redactor({"pin": "tom&jerry 1"}, allow=["email_address"])
        >>> redactor.redact("GET /?pin=tom%26jerry+1&by=jane@acme.com&card=4111%201111%201111%201111")
        'GET /?pin=[hidden: secret]&by=jane@acme.com&card=[hidden: card_number]'
    """

    def __init__(
        self,
        secrets: Iterable[str] | Mapping[str, str] = (),
        *,
        allow: Collection[str] = (),
        mark: Callable[[Finding], str] | None = None,
        thorough: bool = False,
    ) -> None:
        secrets = [secrets] if isinstance(secrets, str) else secrets
        named = secrets.items() if isinstance(secrets, Mapping) else (("a known secret", secret) for secret in secrets)
        self._known = _known_secrets(named)
        self._shortest = min([_SHORTEST_BY_FORM, *(len(secret) for secret, _ in self._known)])
        allowed = {allow} if isinstance(allow, str) else set(allow)
        self._allowed = frozenset(allowed | (PERSONAL_DATA if "personal_data" in allowed else set()))
        self._mark = mark or (lambda finding: f"[hidden: {finding.kind}]")
        self._thorough = thorough
        self._common: dict[str, str] = {}

    def find(self, text: str) -> list[Finding]:
        """Return the sensitive parts of a text, in order and without overlaps.

        Args:
            text: Any text.

        Example:
            >>> found = Redactor().find("Ask jane.doe (at) acme.com.")
            >>> [(finding.start, finding.end, finding.kind) for finding in found]
            [(4, 26, 'email_address')]
        """
        found = self._found_in(text)
        return _without_overlaps(found) if found else found

    def _found_in(self, text: str) -> list[Finding]:
        """Return the sensitive parts of a text, which may overlap."""
        if len(text) < self._shortest:
            return []
        decoded = _Decoded(text)
        found: list[Finding] = []
        if self._known:
            layers = range(len(decoded.texts))
            found = [
                decoded.in_original(finding, layer) for layer in layers for finding in self._known_in(decoded, layer)
            ]
        if not self._allowed >= _ALL_CLASSES:
            every = _patterns_in(decoded.texts[-1], thorough=self._thorough)
            by_form = [finding for finding in every if finding.kind not in self._allowed]
            found += [decoded.in_original(finding, len(decoded.texts) - 1) for finding in by_form]
        return found

    def redact(self, text: str) -> str:
        """Return a text with all sensitive parts replaced by a mark.

        Args:
            text: Any text.
        """
        parts, end = [], 0
        for finding in self.find(text):
            parts += [text[end : finding.start], self._mark(finding)]
            end = finding.end
        return "".join([*parts, text[end:]]) if parts else text

    def secrets_in(self, value: object) -> list[str]:
        """Return the secrets in a text, or in all texts of a container, in order, each once.

        A password has a label where it is set and often none where it is used. A `Redactor` that is given what this
        returns finds it in both places.

        Args:
            value: Any value, as `redact_value` takes it.

        Example:
            >>> said = ["export DB_PASSWORD=correcthorsebattery", "I log in with correcthorsebattery."]
            >>> [Redactor(Redactor().secrets_in(said)).redact(text) for text in said]
            ['export DB_PASSWORD=[hidden: secret]', 'I log in with [hidden: secret].']
        """
        found: dict[str, None] = {}
        for text in _texts_in(value):
            for finding in self._found_in(text):  # a password may be found alone, and as a part of `user:password`
                if finding.kind == "secret":
                    whole = text[finding.start : finding.end]
                    lines = KEY_LINE.findall(whole) if finding.detail == PRIVATE_KEY else []
                    found |= dict.fromkeys([whole, *lines])
        return list(found)

    def redact_name(self, trace_id: str) -> str:
        """Return the name of a trace with its sensitive parts replaced.

        The hash and the place in `5575ae1c4f02063d@runs.jsonl#12` look like an e-mail address together, but are not
        one: only the place is searched.

        Args:
            trace_id: The name.

        Example:
            >>> Redactor().redact_name("5575ae1c4f02063d@runs.jsonl#12")
            '5575ae1c4f02063d@runs.jsonl#12'
        """
        found = _HASH.match(trace_id)
        if found is None:
            return self.redact(trace_id)
        return found[0] + self.redact(trace_id[found.end() :])

    def redact_value(self, value: T) -> T:
        """Return a value in which all texts are redacted: keys and values of dicts, items of lists and tuples.

        Args:
            value: Any value; anything that is neither text nor a container is returned unchanged.

        Example:
            >>> Redactor(["s3cret-word"]).redact_value({"steps": ["type s3cret-word", 3]})
            {'steps': ['type [hidden: secret]', 3]}
        """
        redacted: Any = self._redacted(value)
        result: T = redacted
        return result

    def _redacted(self, value: object) -> object:
        if isinstance(value, str):
            found = self._common.get(value)
            return self._redacted_text(value) if found is None else found
        if isinstance(value, dict) or (not isinstance(value, list | tuple) and isinstance(value, Mapping)):
            return {self._redacted(key): self._redacted(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            items: list[Any] = [self._redacted(inner) for inner in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    def _redacted_text(self, text: str) -> str:
        """Return a text redacted, and keep short ones: most values have the same few keys and short texts."""
        redacted = self.redact(text)
        if len(text) <= _LONGEST_COMMON_TEXT and len(self._common) < _MOST_COMMON_TEXTS:
            self._common[text] = redacted
        return redacted

    def _known_in(self, decoded: _Decoded, layer: int) -> Iterator[Finding]:
        plain = _as_written_in_forms(decoded.texts[layer])
        folded = _lowered(plain)
        for secret, name in self._known:
            if len(secret) >= _SHORTEST_INSIDE_WORDS:
                wanted, text = _lowered(secret), folded
            elif layer == len(decoded.texts) - 1:
                wanted, text = secret, plain
            else:  # `20` is a word of its own in `%20/`, before that is decoded
                continue
            start = text.find(wanted)
            while start >= 0:
                end = start + len(wanted)
                if len(secret) >= _SHORTEST_INSIDE_WORDS or _is_own_word(text, start, end):
                    yield Finding(start, end, "secret", name)
                start = text.find(wanted, end)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts_in(key)
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def find(text: str, secrets: Iterable[str] = (), *, allow: Collection[str] = ()) -> list[Finding]:
    """Return the sensitive parts of a text; see `Redactor.find`.

    Args:
        text: Any text.
        secrets: Values that are known to be secret.
        allow: The classes that are not redacted.

    Example:
        >>> [finding.kind for finding in find("key sk-proj-a1B2c3D4e5F6g7H8, card 4111111111111111")]
        ['secret', 'card_number']
    """
    return Redactor(secrets, allow=allow).find(text)


def redact(text: str, secrets: Iterable[str] = (), *, allow: Collection[str] = ()) -> str:
    """Return a text with all sensitive parts replaced by a mark; see `Redactor.redact`.

    Args:
        text: Any text.
        secrets: Values that are known to be secret.
        allow: The classes that are not redacted.

    Example:
        >>> redact("Mail jane@acme.com the report of 2026-11-22.")
        'Mail [hidden: email_address] the report of 2026-11-22.'
    """
    return Redactor(secrets, allow=allow).redact(text)


# Decoding

_ESCAPE: Final = re.compile(
    r"(?P<percent>(?:%(?:25){0,8}[0-9A-Fa-f]{2})+)"
    r"|&(?:amp;){0,8}"
    r"(?:\#(?P<decimal>[0-9]{1,8})|\#[xX](?P<hexadecimal>[0-9A-Fa-f]{1,7})|(?P<entity>[A-Za-z][A-Za-z0-9]{1,31}));"
    r"|\\(?:u(?P<unicode>[0-9A-Fa-f]{4}(?:\\u[dD][c-fC-F][0-9A-Fa-f]{2})?)|(?P<short>[\\\"'/nrtbf]))"
    "|(?P<nothing>[\u00ad\u200b-\u200f\u2060\ufeff]+)"
    r"|(?P<line>\r\n)"
)
_ASCII_ESCAPE_SIGNS: Final = ("%", "&", "\\", "\r")
_ESCAPE_SIGNS: Final = (*_ASCII_ESCAPE_SIGNS, *"\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
"""Every match of `_ESCAPE` holds one of these."""
_SHORT_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_MOST_ROUNDS: Final = 6
"""The maximum number of nested encodings, such as entities inside percent-encoding inside JSON."""


class _Decoded:
    """A text after each round of decoding, with the places where the characters came from.

    The first of `texts` is the original with compatible characters replaced, which has the same length; in the last,
    every character is written as itself. `_rounds` holds, for each round, where decoded pieces begin and end in the
    text before that round and in the text after it. All other characters were copied one to one.
    """

    def __init__(self, text: str) -> None:
        self.texts = [text if text.isascii() else text.translate(_compatible_characters())]
        self._rounds: list[_Pieces] = []
        for _ in range(_MOST_ROUNDS):
            pieces = _decoding(self.texts[-1])
            if pieces is None:
                break
            self.texts.append(pieces.text)
            self._rounds.append(pieces)

    def in_original(self, finding: Finding, layer: int) -> Finding:
        """Return a finding in one of the texts as a finding in the original one."""
        start, end = finding.start, finding.end
        for pieces in reversed(self._rounds[:layer]):
            start, end = pieces.before(start), pieces.before(end - 1, at_end=True)
        return finding._replace(start=start, end=end)


class _Pieces(NamedTuple):
    """One round of decoding. The lists have one entry for each decoded piece."""

    text: str
    starts: list[int]
    ends: list[int]
    old_starts: list[list[int]]
    """For each piece, where each of its characters began; and where the last one ended."""

    def before(self, place: int, *, at_end: bool = False) -> int:
        """Return where a character began, or ended, before this round."""
        nearest = bisect_right(self.starts, place) - 1
        if nearest < 0:
            return place + at_end
        if place < self.ends[nearest]:
            return self.old_starts[nearest][place - self.starts[nearest] + at_end]
        return self.old_starts[nearest][-1] + place - self.ends[nearest] + at_end


def _decoding(text: str) -> _Pieces | None:
    """Decode one layer; None where nothing is encoded."""
    if not has_one_of(_ASCII_ESCAPE_SIGNS if text.isascii() else _ESCAPE_SIGNS, text):
        return None
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    old_starts: list[list[int]] = []
    copied = length = 0
    for found in _ESCAPE.finditer(text):
        characters, places = _decoded_piece(found)
        if characters == found[0]:
            continue
        length += found.start() - copied
        parts += [text[copied : found.start()], characters]
        starts.append(length)
        length += len(characters)
        ends.append(length)
        old_starts.append(places)
        copied = found.end()
    if not parts:
        return None
    return _Pieces("".join([*parts, text[copied:]]), starts, ends, old_starts)


def _decoded_piece(found: re.Match[str]) -> tuple[str, list[int]]:
    """Return the characters that a match represents, and where each begins, and the last one ends."""
    form, whole = found.lastgroup or "", found[0]
    if form == "short":
        return _one_character(_SHORT_ESCAPES.get(whole[1], whole[1]), found)
    start, end = found.span()
    if form == "percent":
        return _percent_decoded(whole, start)
    if form == "unicode":
        units = [int(unit[-4:], 16) for unit in re.findall(r"[0-9A-Fa-f]{4}", found["unicode"])]
        raw = b"".join(unit.to_bytes(2, "big") for unit in units)
        return _one_character(raw.decode("utf-16-be", "replace")[:1], found)
    if form == "line":
        return ("\n", [start, end])
    if form == "nothing":
        return ("", [start, end])
    if form == "entity":
        character = html5.get(f"{found['entity']};", "")
        return (character, [start, end]) if len(character) == 1 else (whole, [start, end])
    number = int(found["decimal"]) if form == "decimal" else int(found["hexadecimal"], 16)
    is_character = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return _one_character(chr(number), found) if is_character else (whole, [start, end])


def _one_character(character: str, found: re.Match[str]) -> tuple[str, list[int]]:
    compatible = character if character.isascii() else character.translate(_compatible_characters())
    return compatible, [*([found.start()] if compatible else []), found.end()]


_PERCENT: Final = re.compile(r"%(?:25)*([0-9A-Fa-f]{2})")


def _percent_decoded(text: str, start: int) -> tuple[str, list[int]]:
    """Decode a run of percent escapes as UTF-8; a byte that is not UTF-8 counts as a character of Windows-1252."""
    escapes = list(_PERCENT.finditer(text))
    data = bytes(int(escape[1], 16) for escape in escapes)
    characters: list[str] = []
    places: list[int] = []
    place = 0
    while place < len(data):
        size = 1 if data[place] < 0xC2 else 2 if data[place] < 0xE0 else 3 if data[place] < 0xF0 else 4
        try:
            character = data[place : place + size].decode()
        except UnicodeDecodeError:
            size, character = 1, data[place : place + 1].decode("cp1252", "replace")
        character = character.translate(_compatible_characters())
        characters += character
        places += [start + escapes[place].start()] * len(character)
        place += size
    return "".join(characters), [*places, start + len(text)]


@functools.cache
def _compatible_characters() -> Mapping[int, str]:
    """Return the characters that look like an ASCII character, such as full-width ones and dashes, with that one."""
    table = {}
    for first, last in ((0xA0, 0x2FF), (0x660, 0x6F9), (0x2000, 0x24FF), (0x3000, 0x3000), (0xFE50, 0xFFEF)):
        for number in range(first, last + 1):
            table[number] = _like_ascii(chr(number))
    for number in range(0x1D400, 0x1D800):
        table[number] = _like_ascii(chr(number))
    return {number: like for number, like in table.items() if like}


def _like_ascii(character: str) -> str:
    """Return the ASCII character that this one represents; an empty text if there is none."""
    if unicodedata.category(character) == "Pd" or character == "\u2212":
        return "-"
    if unicodedata.category(character) == "Zs":
        return " "
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    like = unicodedata.normalize("NFKC", character)
    return like if len(like) == 1 and like.isascii() and like != character else ""


# Known secrets


def _known_secrets(named: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the secrets as they may be in one of the texts of a `_Decoded`, with their names."""
    found: dict[str, str] = {}
    for name, secret in named:
        for text in _Decoded(secret).texts:
            written = _as_written_in_forms(text)
            if written.strip():
                found.setdefault(written, name)
    return sorted(found.items(), key=lambda item: -len(item[0]))


def _as_written_in_forms(text: str) -> str:
    """Return a text with plus signs replaced by blanks, as forms encode them."""
    return text.replace("+", " ")


def _lowered(text: str) -> str:
    """Return a text in small letters that has the same length."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def _is_own_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (text[start].isalnum() and before.isalnum()) and not (text[end - 1].isalnum() and after.isalnum())


def _without_overlaps(found: Iterable[Finding]) -> list[Finding]:
    """Join findings that overlap; the class is that of the first, or of the longer of two that begin together."""
    joined: list[Finding] = []
    for finding in sorted(found, key=lambda item: (item.start, -item.end)):
        if joined and finding.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, finding.end))
        else:
            joined.append(finding)
    return joined


# Personal data by its form

_AT: Final = r"(?:@| ?[(\[{] ?(?:at|AT|At|@) ?[)\]}] ?)"
_DOT: Final = r"(?:\.| ?[(\[{] ?(?:dot|DOT|Dot|\.) ?[)\]}] ?)"
_EMAIL: Final = re.compile(
    rf"(?<![\w.+-])[\w.+-]{{1,64}}({_AT})"
    rf"([^\W_][\w-]{{0,62}}(?:{_DOT}[\w-]{{1,63}}){{0,9}}{_DOT}(?:[^\W\d_]{{2,24}}|xn--[\w-]{{2,59}}))(?!\w|-\w)"
)
_SPACED_EMAIL: Final = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}( @ )"
    r"([\w-]{1,63}(?:\.[\w-]{1,63}){0,9}\.(?:com|org|net|edu|gov|io|de|fr|uk|ch|nl|eu))(?![\w.])"
)
_SPOKEN_EMAIL: Final = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}( at )([\w-]{1,63}(?: dot [\w-]{1,63}){0,5} dot [A-Za-z]{2,24})(?!\w)", re.IGNORECASE
)
_LIKELY_EMAIL: Final = re.compile(
    r"(?<![\w.+-])(?:[\w.+-]{1,64}( @ | AT )|(?=[\w.+-]{0,63}[\d_.+-])[\w.+-]{1,64}( at ))"
    r"([\w-]{1,63}(?:\.[\w-]{1,63}){0,9}\.[A-Za-z]{2,24})(?![\w-])"
)
"""With blanks, in any domain. Before a small `at`, it must not be a word, as in `meet me at acme.com`."""
_AT_SIGNS: Final = ("@", "at)", "at]", "at}", "at )", "at ]", "at }")
"""Every match of `_EMAIL` or `_SPACED_EMAIL` holds one of these, in letters of any case."""
_BEFORE_AT_SIGN: Final = 67
"""How many characters of an address are before it at most: a name of 64, a bracket and two blanks."""
_WRITTEN_DOT: Final = re.compile(r" ?[(\[{] ?(?:dot|\.) ?[)\]}] ?| dot ", re.IGNORECASE)
_RESERVED_DOMAIN: Final = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|org|net|edu))?|invalid|test|localhost)$", re.IGNORECASE
)
"""Domains that are reserved for examples."""
_SCALE_OF_IMAGE: Final = re.compile(r"\d+x\.")
"""`icon@2x.png` is the name of a file."""
_PHONE: Final = re.compile(
    r"(?<![\w.+/-])(?:\+[1-9](?:(?: \(|\) |\)[-/.]|[ ./()-])?\d){7,14}|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}-\d{3}-\d{4})"
    r"(?!\w|[.,-]\d)"
)
_LABELLED_PHONE: Final = re.compile(
    r"\b(?:tel|phone|telephone|telefon|mobile|cell|fax|handy)(?: (?:no|number))?[.:]{0,2} {0,2}"
    r"(00?[1-9](?:[ /-]?\d){6,13})(?!\w|[.,-]\d)",
    re.IGNORECASE,
)
_NATIONAL_PHONE: Final = re.compile(
    r"(?<![\w.,:/+-])(?:"
    r"\(?0\d{1,5}\)?(?:[ ./-]{0,2}\d){4,12}"
    r"|(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}"
    r")(?!\w|[.,:-]?\d)"
)
"""A number without the code of its country: with a leading zero, or in the American form."""
_NO_NATIONAL_PHONE: Final = re.compile(
    r"[0-3]?\d[-./](?:0?\d|1[0-2])[-./](?:19|20)\d\d.*|(?:19|20)\d\d[-./](?:0?\d|1[0-2])[-./][0-3]?\d.*|.*000000.*"
)
"""A date, with what follows it, or a round number."""
_CALLED_PHONE: Final = re.compile(
    r"\b(?:call|phone|telephone|tel|mobile|cell|fax|sms|text|reach|whatsapp|telefon|handy|erreichbar|rufen?|anrufen)\b"
    r"[^\d\n]{0,25}?(?<![\w.,:/+#-])(\d{2,4}(?:[ ./-]\d{2,7}){1,5})(?!\w|[.,:/-]\d)",
    re.IGNORECASE,
)
"""A number in groups, shortly after a word for calling."""
_SPOKEN_DIGIT: Final = r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
_SPOKEN_PHONE: Final = re.compile(rf"\b{_SPOKEN_DIGIT}(?:(?:, |[ -]){_SPOKEN_DIGIT}){{6,15}}\b", re.IGNORECASE)
_PHONE_SIGNS: Final = ("tel", "phone", "mob", "cell", "fax", "handy")
_NO_PHONE: Final = re.compile(
    r"\+?(?:19|20)\d\d[-./](?:0?[1-9]|1[0-2])[-./].*|\+\d+\.\d+|\+\d{1,3}(?:\.\d{1,3}){3}|.*000000"
)
"""A date, a decimal number, an address or a round number that begins with a plus sign."""
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w.,/+-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?!\w|[-.,]\d)")
_CARD: Final = re.compile(
    r"(?<![\w.,/+-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{1,3})?|3\d{3}([ -])\d{6}\2\d{4,5})"
    r"(?!\w|[-.,/]\d| \d)"
)
_CARD_LENGTHS: Final = {"2": (16,), "3": (14, 15, 16), "4": (13, 16, 19), "5": (16,), "6": (16, 18, 19)}
"""The number of digits of the card numbers of each network, by first digit."""
_EIGHT_DIGITS: Final = re.compile(r"\d(?:[ ()./-]{0,3}\d){7}")
"""What every number of a card, a person or a telephone begins with."""
_MANY_DIGITS: Final = re.compile(r"\d(?:[ ()./-]{0,3}\d){7,}")
_LONGEST_AFTER_NUMBER: Final = 2
"""How many characters after a number decide whether it is one."""
_IBAN: Final = re.compile(r"[A-Z]{2}\d{2}(?<![A-Za-z0-9][A-Z]{2}\d{2})(?:[ -]?[A-Z0-9]){11,40}(?![A-Za-z0-9])")
_LIKELY_IBAN: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ .-]?[A-Za-z0-9]){11,40}(?![A-Za-z0-9])", re.ASCII
)
"""Also in small letters, or with dots."""
_LIKELY_CARD: Final = re.compile(r"(?<![\w.,/+-])[3-6]\d{3}([ .-])\d{4}\1\d{4}\1\d{4}(?!\w|[-.,/ ]\d)")
"""Four groups of digits, also mistyped."""
_LIKELY_SOCIAL_SECURITY: Final = re.compile(
    r"(?<![\w.,/+-])(?!000|666|9)\d{3} (?!00)\d{2} (?!0000)\d{4}(?!\w|[-., ]\d)"
    r"|\b(?:ssn|social security(?: number| no)?)\W{0,4}(?:is |was )?[\"']?((?!000|666|9)\d{9})(?!\w)",
    re.IGNORECASE,
)
"""With blanks; or without signs between the digits, after a label."""


def _patterns_in(text: str, *, thorough: bool) -> Iterator[Finding]:
    """Find secrets and personal data by their form, in a decoded text."""
    # What may be in letters of any case is quicker to find in this one. Turkish has two more forms of the letter i.
    folded = _lowered(text) if text.isascii() else _lowered(text).translate({0x130: "i", 0x131: "i"})
    for start, end, detail in secrets(text, folded, thorough=thorough):
        yield Finding(start, end, "secret", detail)
    if places := places_of((*_AT_SIGNS, " at ") if thorough or " dot " in folded else _AT_SIGNS, folded):
        yield from _emails_in(text, places, thorough=thorough)
    for found in (_LIKELY_IBAN if thorough else _IBAN).finditer(text):
        if length := _length_of_iban(found[0]):
            yield Finding(found.start(), found.start() + length, "bank_account", "a bank account number")
    runs = [(max(0, run.start() - 1), run.end() + _LONGEST_AFTER_NUMBER) for run in _MANY_DIGITS.finditer(text)]
    if runs:
        yield from _numbers_in(text, folded, runs)
        if thorough:  # after the other numbers: of two that begin together, the first one counts
            yield from _likely_numbers_in(text)
    if thorough:
        for found in _CALLED_PHONE.finditer(text):
            if not _NO_NATIONAL_PHONE.fullmatch(found[1]) and 7 <= sum(sign.isdigit() for sign in found[1]) <= 13:
                yield Finding(*found.span(1), "phone_number", "a telephone number")
        for found in _SPOKEN_PHONE.finditer(text):
            yield Finding(*found.span(), "phone_number", "a telephone number")


def _numbers_in(text: str, folded: str, runs: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    """Find numbers in runs of digits, each with the characters around it that decide."""
    for run in runs:
        for found in _CARD.finditer(text, *run):
            if _card_checks(found[0]):
                yield Finding(*found.span(), "card_number", "a card number")
        for found in _SOCIAL_SECURITY.finditer(text, *run):
            yield Finding(*found.span(), "social_security_number", "a social security number")
        for found in _PHONE.finditer(text, *run):
            if not _NO_PHONE.fullmatch(found[0]):
                yield Finding(*found.span(), "phone_number", "a telephone number")
    if has_one_of(_PHONE_SIGNS, folded):
        for found in _LABELLED_PHONE.finditer(text):
            yield Finding(*found.span(1), "phone_number", "a telephone number")


def _likely_numbers_in(text: str) -> Iterator[Finding]:
    for found in _LIKELY_CARD.finditer(text):
        yield Finding(*found.span(), "card_number", "a card number")
    for found in _LIKELY_SOCIAL_SECURITY.finditer(text):
        yield Finding(*found.span(found.lastindex or 0), "social_security_number", "a social security number")
    for found in _NATIONAL_PHONE.finditer(text):
        digits = sum(sign.isdigit() for sign in found[0])
        if 9 <= digits <= 14 and not _NO_NATIONAL_PHONE.fullmatch(found[0]):
            yield Finding(*found.span(), "phone_number", "a telephone number")


def _emails_in(text: str, places: Sequence[int], *, thorough: bool) -> Iterator[Finding]:
    in_addresses = {found.end(1) for found in PASSWORD_IN_ADDRESS.finditer(text)}  # of the servers, where the @ is
    for pattern in (_EMAIL, _SPACED_EMAIL, _SPOKEN_EMAIL, *([_LIKELY_EMAIL] if thorough else [])):
        for found in matches_near(pattern, text, places, _BEFORE_AT_SIGN):
            domain = _WRITTEN_DOT.sub(".", found[found.lastindex or 0])
            is_server = found.start(1) in in_addresses or found[0].startswith("git@")
            is_reserved = not thorough and _RESERVED_DOMAIN.search(domain)
            if not (is_server or is_reserved or _SCALE_OF_IMAGE.match(domain)):
                yield Finding(*found.span(), "email_address", "an e-mail address")


def _card_checks(text: str) -> bool:
    """Whether a network of cards has numbers of this form, and the digits fit the last one (Luhn)."""
    digits = [int(sign) for sign in text if sign.isdigit()]
    if len(digits) not in _CARD_LENGTHS.get(text[0], ()) or len(set(digits)) == 1:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _length_of_iban(text: str) -> int:
    """Return how much of a text is an account number whose check digits fit (ISO 7064, modulo 97); 0 if nothing is."""
    for end in [len(text), *(found.start() for found in reversed(list(re.finditer("[ .-]", text))))]:
        signs = re.sub("[ .-]", "", text[:end])
        if 15 <= len(signs) <= 34 and int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1:
            return end
    return 0
