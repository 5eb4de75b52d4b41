"""What the finder of personal data finds in generated texts of five kinds: `python -m benchmarks.personal_data`.

Values that were missed, and finds that are not personal data, come first; then the tables of
`docs/explanation/privacy.md`, which a test compares.

The texts come from templates and a seed, and contain personal data in the forms in which people write it: also in forms
that the finder does not know, and with names, streets and dates of birth, which it does not look for. Between them is
what only looks like personal data: order numbers, dates, amounts, versions.

A value counts as found if all of it is covered. A find counts as right if it overlaps a value of any class.
"""

from __future__ import annotations

import random
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from benchmarks.options import parser_of

SEED: Final = 20261126
"""The finder was not changed after these texts had been seen. If it is, take another seed."""
TEXTS_OF_A_KIND: Final = 100

LOOKED_FOR: Final = {
    "email": "e-mail address",
    "phone": "telephone number",
    "card": "card number",
    "account": "bank account (IBAN)",
    "ssn": "US social security number",
    "secret": "password, PIN or key",
}
NOT_LOOKED_FOR: Final = {
    "name": "name",
    "street": "street address",
    "birth": "date of birth",
    "national": "national number of another country",
    "routing": "US account and routing number",
    "address": "IP address",
}


class Value(NamedTuple):
    """Personal data in a text."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Text:
    """A generated text."""

    kind: str
    text: str
    values: tuple[Value, ...]


class Found(Protocol):
    """What a finder returns."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


Find = Callable[[str], Iterable[Found]]

FIRST = ("Ann", "Jürgen", "María", "Priya", "Chen", "Olu", "Sofie", "Tom", "Fatima", "Piotr", "Léa", "Kenji")
LAST = ("Lee", "Müller", "García", "Nair", "Wei", "Adeyemi", "Jensen", "O'Brien", "Haddad", "Nowak", "Petit", "Sato")
STREETS = (
    "12 Rose Lane",
    "Lindenallee 7b",
    "Calle Mayor 3, 2º",
    "55 W 43rd St Apt 9",
    "3 rue des Lilas",
    "Prospect Rd 101",
)
DOMAINS = ("acme.com", "web.de", "mail.co.uk", "uni-bonn.de", "posta.it", "corp.acme.io", "example.com", "gmx.net")


def digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def email(rng: random.Random) -> str:
    first, last = (re.sub(r"\W", "", name).lower() for name in (rng.choice(FIRST), rng.choice(LAST)))
    first, last = (name.encode("ascii", "ignore").decode() or "anna" for name in (first, last))
    local = rng.choice((f"{first}.{last}", f"{first}{digits(rng, 2)}", f"{first[0]}_{last}", f"{first}+shop", last))
    domain = rng.choice(DOMAINS)
    spoken = domain.replace(".", " dot ")
    return rng.choice(
        (f"{local}@{domain}",) * 12
        + (f"{local.upper()}@{domain.upper()}", f"{local} (at) {domain}", f"{local}[at]{domain.replace('.', '[dot]')}")
        + (
            f"{local} at {spoken}",
            f"{local} @ {domain}",
            f"{local}%40{domain}",
            f"{local} at {domain}",
            f"{local} AT {domain}",
        )
    )


def phone(rng: random.Random) -> str:
    def d(count: int) -> str:
        return str(rng.randrange(2, 9)) + digits(rng, count - 1)

    return rng.choice(
        (
            f"+49 {d(3)} {d(7)}",
            f"+49{d(10)}",
            f"+1 {d(3)}-{d(3)}-{d(4)}",
            f"+44 (0)20 {d(4)} {d(4)}",
            f"+33 6 {d(2)} {d(2)} {d(2)} {d(2)}",
            f"+91 {d(5)} {d(5)}",
            f"0049 {d(3)} {d(7)}",
            f"0{d(3)} {d(7)}",
            f"0{d(2)}/{d(7)}",
            f"0{d(3)}-{d(7)}",
            f"0{d(10)}",
            f"020 {d(4)} {d(4)}",
            f"07{digits(rng, 3)} {d(6)}",
            f"06 {d(2)} {d(2)} {d(2)} {d(2)}",
            f"06.{d(2)}.{d(2)}.{d(2)}.{d(2)}",
            f"(0{d(2)}) {d(7)}",
            f"({d(3)}) {d(3)}-{d(4)}",
            f"{d(3)}-{d(3)}-{d(4)}",
            f"{d(3)}.{d(3)}.{d(4)}",
            f"{d(3)} {d(3)} {d(4)}",
            f"1-800-{d(3)}-{d(4)}",
            f"{d(3)} {d(3)} {d(3)}",  # Spain
            f"{d(2)} {d(2)} {d(2)} {d(2)}",  # Denmark
            f"{d(3)} {d(7)}",  # Italy
            f"{d(3)}-{d(4)}",  # without an area
            " ".join(rng.choices(("zero", "one", "two", "three", "four", "five", "six", "nine"), k=9)),
        )
    )


def with_check_digit(number: str) -> str:
    """Return the digits of a card with the last one that fits (Luhn)."""
    doubled = [sum(divmod(2 * int(sign), 10)) for sign in number[::-2]]
    return number + str(-(sum(doubled) + sum(int(sign) for sign in number[-2::-2])) % 10)


def card(rng: random.Random) -> str:
    if rng.random() < 0.15:
        number = with_check_digit(f"37{digits(rng, 12)}")
        return rng.choice((number, f"{number[:4]} {number[4:10]} {number[10:]}"))
    number = with_check_digit(rng.choice(("4", "51", "55", "6011")) + digits(rng, 15))[:15]
    number = with_check_digit(number)
    if rng.random() < 0.05:  # mistyped
        number = number[:8] + str((int(number[8]) + 1) % 10) + number[9:]
    groups = [number[place : place + 4] for place in range(0, 16, 4)]
    return rng.choice((number, " ".join(groups), " ".join(groups), "-".join(groups), ".".join(groups)))


def iban(rng: random.Random) -> str:
    country, length, letters = rng.choice(
        (("DE", 18, ""), ("GB", 14, "WEST"), ("FR", 23, ""), ("NL", 10, "ABNA"), ("ES", 20, ""))
    )
    rest = letters + digits(rng, length)
    numeric = "".join(str(int(sign, 36)) for sign in f"{rest}{country}00")
    whole = f"{country}{98 - int(numeric) % 97:02d}{rest}"
    grouped = " ".join(whole[place : place + 4] for place in range(0, len(whole), 4))
    return rng.choice(
        (grouped, grouped, whole, whole, grouped.replace(" ", "-"), grouped.lower(), grouped.replace(" ", "."))
    )


def ssn(rng: random.Random) -> str:
    area, group, serial = f"{rng.randrange(1, 665):03d}", f"{rng.randrange(1, 99):02d}", f"{rng.randrange(1, 9999):04d}"
    return rng.choice((f"{area}-{group}-{serial}",) * 5 + (f"{area} {group} {serial}", f"{area}{group}{serial}"))


def secret(rng: random.Random) -> str:
    word = rng.choice(("sparrow", "Lantern", "igloo", "Walnut", "tiger"))
    kind = rng.randrange(7)
    label = rng.choice(("password: ", "my password is ", "Passwort: ", "pw ", "the password was "))
    if kind == 0:
        return "sk-proj-" + "".join(rng.choices(string.ascii_letters + string.digits, k=24))
    if kind == 1:
        return "ghp_" + "".join(rng.choices(string.ascii_letters + string.digits, k=36))
    if kind == 2:
        return f"{label}\0{word}{rng.randrange(10, 99)}{rng.choice('!?#')}{word}"
    if kind == 3:
        return f"{label}\0{word}{rng.randrange(10)}"
    if kind == 4:
        return f"{label}\0{word}-{rng.choice(('river', 'cloud'))}-{rng.choice(('stone', 'glass'))}"
    if kind == 5:
        return f"{rng.choice(('PIN: ', 'my pin is ', 'pin '))}\0{digits(rng, 4)}"
    return f"{label}\0{word}{digits(rng, 4)}"


def national(rng: random.Random) -> str:
    return rng.choice(
        (
            f"NI number QQ {digits(rng, 2)} {digits(rng, 2)} {digits(rng, 2)} C",
            f"Steuer-ID {digits(rng, 2)} {digits(rng, 3)} {digits(rng, 3)} {digits(rng, 3)}",
            f"NIR 2 {digits(rng, 2)} 05 {digits(rng, 2)} {digits(rng, 3)} {digits(rng, 3)}",
            f"PESEL {digits(rng, 11)}",
        )
    )


VALUES: Final[dict[str, Callable[[random.Random], str]]] = {
    "email": email,
    "phone": phone,
    "card": card,
    "account": iban,
    "ssn": ssn,
    "secret": secret,
    "name": lambda rng: f"{rng.choice(FIRST)} {rng.choice(LAST)}",
    "street": lambda rng: rng.choice(STREETS),
    "birth": lambda rng: f"{rng.randrange(1, 28)}.{rng.randrange(1, 12)}.{rng.randrange(1940, 2005)}",
    "national": national,
    "routing": lambda rng: f"routing {digits(rng, 9)}, account {digits(rng, 10)}",
    "address": lambda rng: ".".join(str(rng.randrange(1, 255)) for _ in range(4)),
}
"""A value may have its label before a NUL."""

LOOK_ALIKES: Final[tuple[Callable[[random.Random], str], ...]] = (
    lambda rng: f"order {digits(rng, 8)}",
    lambda rng: f"order 4{digits(rng, 9)}-A",
    lambda rng: f"invoice 2026-{digits(rng, 6)}",
    lambda rng: f"ticket #{digits(rng, 6)}",
    lambda rng: f"tracking 1Z{digits(rng, 6)}{digits(rng, 10)}",
    lambda rng: (
        f"{rng.randrange(1, 28):02d}.{rng.randrange(1, 12):02d}.2026 {rng.randrange(10, 23)}:{rng.randrange(10, 59)}"
    ),
    lambda rng: (
        f"2026-{rng.randrange(1, 12):02d}-{rng.randrange(1, 28):02d}T09:{rng.randrange(10, 59)}:07.{digits(rng, 6)}Z"
    ),
    lambda rng: f"{rng.randrange(1, 9)},{digits(rng, 3)},{digits(rng, 3)}.{digits(rng, 2)} USD",
    lambda rng: f"{rng.randrange(100, 999)} {rng.randrange(100, 999)} {digits(rng, 3)} EUR",
    lambda rng: f"version {rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(99)}",
    lambda rng: f"ISBN 978-3-16-{digits(rng, 6)}-0",
    lambda rng: f"article {digits(rng, 13)}",
    lambda rng: f"serial 0{digits(rng, 9)}",
    lambda rng: f"lat 52.{digits(rng, 6)}, lon 13.{digits(rng, 6)}",
    lambda rng: f"build {''.join(rng.choices('0123456789abcdef', k=12))}",
    lambda rng: "the password is wrong",
    lambda rng: f"opened 0{rng.randrange(7, 9)}:30-1{rng.randrange(7, 9)}:45",
    lambda rng: f"unit {rng.randrange(100, 999)}-{rng.randrange(10, 99)}-{rng.randrange(10, 99)}",
)

TEMPLATES: Final[dict[str, Sequence[str]]] = {
    "chat message": (
        "hi, {name} here. cant log in, {secret} and it says error, mail is {email}",
        "pls call me back {phone} about {other}, asap!!",
        "why was {card} charged twice for {other}?? refund to {account}",
        "My ssn is {ssn} and i was born {birth}, is that enough? {other}, {other}",
        "new address: {street}. phone still {phone}. also {email}",
        "i sent {other} back on {other}, nothing happened. {national}",
    ),
    "e-mail": (
        "Dear team,\n\nregarding {other}: please confirm to {email}.\n\nKind regards\n{name}\n{street}\nTel. {phone}\n",
        "Hello,\n\nmy new bank details: {account}. The old card {card} is blocked since {other}.\n\nBest, {name}",
        "On {other}, {email} wrote:\n> {other} has not arrived.\nIt did, see {other}.\n--\n{name} | {phone} | {email}",
        "Guten Tag,\n\nich bin erreichbar unter {phone}. {other}, {secret}\n\nMit freundlichen Grüßen\n{name}",
    ),
    "form": (
        "Name: {name}\nBorn: {birth}\nStreet: {street}\nPhone: {phone}\nMail: {email}\nIBAN: {account}\nRef: {other}",
        "SSN: {ssn}\nCard: {card}\nOrder: {other}\nNote: {other}\nContact: {email}",
        "applicant;{name};{birth};{email};{phone};{other};{other}",
        "Payment\t{card}\t{other}\nPayout\t{routing}\t{account}\nTax\t{ssn}\t{national}",
    ),
    "log line": (
        '{{"user": "{email}", "ip": "{address}", "msg": "login failed", "at": "{other}"}}',
        "WARN {address} GET /reset?mail={email}&ref=7 200 {other} {other}",
        'INFO charge card="{card}" iban="{account}" {other}',
        "DEBUG sms to {phone} queued, {other}, {secret}",
        "ERROR {other} user={email} ssn={ssn} {other}",
    ),
    "transcript": (
        "Agent: Your number please? Customer: It is {phone}, and I am {name}. Agent: And the mail? Customer: {email}.",
        "so the card is uh {card} and it expires next year, the order was {other}, you can send it to {street}",
        "Customer: The number {ssn}. Agent: Thank you, born? Customer: {birth}. Agent: I see {other} and {other}.",
        "I told your colleague {secret} on {other} and he said call {phone}, well, the account {account} is right",
    ),
}


def generated(seed: int = SEED, count: int = TEXTS_OF_A_KIND) -> list[Text]:
    """Return the texts of each kind."""
    rng = random.Random(seed)
    return [_filled(kind, rng) for kind in TEMPLATES for _ in range(count)]


def _filled(kind: str, rng: random.Random) -> Text:
    text, values = "", []
    for place, part in enumerate(re.split(r"\{(\w+)\}", rng.choice(TEMPLATES[kind]))):
        if place % 2 == 0:
            text += part.replace("{{", "{").replace("}}", "}")
        elif part == "other":
            text += rng.choice(LOOK_ALIKES)(rng)
        else:
            label, _, value = VALUES[part](rng).rpartition("\0")
            text += label
            values.append(Value(len(text), len(text) + len(value), part))
            text += value
    return Text(kind, text, tuple(values))


@dataclass(frozen=True, slots=True)
class Score:
    """How much was found."""

    found: int = 0
    of: int = 0

    def __str__(self) -> str:
        return f"{self.found} of {self.of}" + (f" ({self.found / self.of:.1%})" if self.of else "")


def measured(texts: Sequence[Text], find: Find) -> dict[str, Score]:
    """Return the recall of each class and of each kind of text, and the precision of each kind."""
    found: Counter[str] = Counter()
    of: Counter[str] = Counter()
    for text in texts:
        spans = [(finding.start, finding.end) for finding in find(text.text)]
        for value in text.values:
            hit = any(start <= value.start and value.end <= end for start, end in spans)
            keys = [f"recall of {value.kind}"]
            if value.kind in LOOKED_FOR:
                keys += [f"recall in {text.kind}", "recall"]
            for key in keys:
                of[key] += 1
                found[key] += hit
        for start, end in spans:
            hit = any(start < value.end and value.start < end for value in text.values)
            for key in (f"precision in {text.kind}", "precision"):
                of[key] += 1
                found[key] += hit
    return {key: Score(found[key], count) for key, count in of.items()}


def tables(texts: Sequence[Text], find: Find) -> str:
    """Return what is published: a table by class, and one by kind of text."""
    scores = measured(texts, find)
    classes = [[name, str(scores[f"recall of {kind}"])] for kind, name in (LOOKED_FOR | NOT_LOOKED_FOR).items()]
    kinds = [[kind, str(scores[f"recall in {kind}"]), str(scores[f"precision in {kind}"])] for kind in TEMPLATES]
    kinds.append(["all", str(scores["recall"]), str(scores["precision"])])
    return f"{_table('class', 'found', rows=classes)}\n\n{_table('kind of text', 'recall', 'precision', rows=kinds)}"


def _table(*head: str, rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def missed(texts: Sequence[Text], find: Find) -> list[tuple[str, str]]:
    """Return the values of the classes that are looked for which were not found, and the finds that are none."""
    result = []
    for text in texts:
        spans = [(finding.start, finding.end) for finding in find(text.text)]
        result += [
            (value.kind, text.text[value.start : value.end])
            for value in text.values
            if value.kind in LOOKED_FOR and not any(s <= value.start and value.end <= e for s, e in spans)
        ]
        result += [
            ("not personal", text.text[start:end])
            for start, end in spans
            if not any(start < value.end and value.start < end for value in text.values)
        ]
    return result


def main() -> int:
    parser_of("personal_data", __doc__).parse_args()
    from ace.redaction import Redactor

    for row in missed(generated(), Redactor(thorough=True).find):
        print(*row, sep="\t")
    print(f"\n{tables(generated(), Redactor(thorough=True).find)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
