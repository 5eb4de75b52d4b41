"""One redactor: what it finds however it is written, what it leaves alone, and what that costs."""

from __future__ import annotations

import html
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ace.redaction import PERSONAL_DATA, Redactor, find, redact

ROOT = Path(__file__).parents[2]

FOUND = [
    ("Use sk-proj-abcdefghijklmnop1234.", "secret"),
    ("sk-ant-api03-Ab1Cd2Ef3Gh4Ij5Kl6Mn7", "secret"),
    ("Use ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8.", "secret"),
    ("Use AKIAIOSFODNN7EXAMPLE for it.", "secret"),
    ("Use AKIA IOSF ODNN 7EXA MPLE for it.", "secret"),
    ("sk-proj-a1b2 c3d4 e5f6 g7h8 i9j0", "secret"),
    ("sk - proj - abcdefghijklmnop1234", "secret"),
    ("Authorization: Bearer abcDEF123456ghiJKL7890", "secret"),
    ("Authorization: Basic YW5uOnMzY3JldHB3OTk=", "secret"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123", "secret"),
    ("Set api_key='a1b2c3d4e5f6'.", "secret"),
    ('{"password": "a1b2c3d4e5f6"}', "secret"),
    ('"{\\"password\\": \\"a1b2c3d4e5f6\\"}"', "secret"),
    ("The password is Tr0ub4dor&3.", "secret"),
    ("PA\u017fSPHRASE := Tr0ub4dor&3", "secret"),
    ("TO\u212aEN: a1b2c3d4e5f6", "secret"),
    ("AP\u0131_KEY=a1b2c3d4e5f6", "secret"),
    ("BEARER abcDEF123456ghiJKL7890", "secret"),
    ("https://x.acme.com/?user=ann&password=Summer2026%21&next=1", "secret"),
    ("The password is Xk7-sparrow-Lantern42.", "secret"),
    ("export SMTP_PASSWORD=plainwordswithoutdigits", "secret"),
    ("SECRET_KEY_BASE=5f2b8c1d9e7a4036b1c2d3e4f5a69788", "secret"),
    ("HOME=/root\nSTRIPE_KEY=b7Tq1Zc8Lm3Xv0Rk5Wd2\nLANG=C", "secret"),
    ("REGISTRY_AUTH='b7Tq1Zc8Lm3X'", "secret"),
    ("mysql --password w0mbat-Field-93 shop", "secret"),
    ("machine example.org\n  login ann\n  password m0ss-Garnet-16", "secret"),
    ("curl -u deploy:tiger-Oak-5521 https://x.acme.com", "secret"),
    ('{"auths": {"r.example.org": {"auth": "YW5uOm1vc3MtR2FybmV0LTE2"}}}', "secret"),
    ("1\t-----BEGIN PRIVATE KEY-----\n2\tMIIEpAIBAAKCAQEA7bq2w3\n3\t-----END PRIVATE KEY-----", "secret"),
    ("1\u2192-----BEGIN PRIVATE KEY-----\n2\u2192MIIEpAIBAAKCAQEA7bq2w3\n3\u2192-----END PRIVATE KEY-----", "secret"),
    ("Clone https://bob:s3cretpw@git.acme.com/x.", "secret"),
    ("postgresql://ann:p@ss@db/x", "secret"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nq2w3e4r5\n-----END RSA PRIVATE KEY-----", "secret"),
    ("-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA7bq2w3e4r5\\n-----END PRIVATE KEY-----", "secret"),
    ("Ask john.smith@acme.co.uk before.", "email_address"),
    ("Ask john.smith\uff20acme.com before.", "email_address"),
    ("Ask john.smith (at) acme (dot) com before.", "email_address"),
    ("Ask john.smith[at]acme.com before.", "email_address"),
    ("Ask john at acme dot com before.", "email_address"),
    ("ASK JOHN AT ACME DOT COM BEFORE.", "email_address"),
    ("Ask john.smith { AT } acme.com before.", "email_address"),
    ("Ask john @ acme.com before.", "email_address"),
    ("GET /?mail=john%40acme.com", "email_address"),
    ("&#106;ohn&#64;acme&period;com", "email_address"),
    ("Write to müller@acme.de.", "email_address"),
    ("jo\u200bhn@ac\u00adme.com", "email_address"),
    ("Call +49 170 1234567 at night.", "phone_number"),
    ("Call +1 (555) 123-4567.", "phone_number"),
    ("Call (555) 123-4567 first.", "phone_number"),
    ("Call \uff0b\uff14\uff19 170 1234567.", "phone_number"),
    ("Tel.: 030 1234567", "phone_number"),
    ("MOBILE 0049 30 123456", "phone_number"),
    ("tel=%2B491701234567", "phone_number"),
    ("Use card 4111 1111 1111 1111.", "card_number"),
    ("Use card 4111111111111111.", "card_number"),
    ("Use card 4111%201111%201111%201111.", "card_number"),
    ("Use card \uff14\uff11\uff11\uff11 1111 1111 1111.", "card_number"),
    ("Amex 3782 822463 10005", "card_number"),
    ("Pay to DE89 3704 0044 0532 0130 00 USD.", "bank_account"),
    ("Pay to DE89370400440532013000.", "bank_account"),
    ("The number 078-05-1120 is hers.", "social_security_number"),
]

LEFT_ALONE = [
    "Round 1,234,567.891 to 1234567.89, not 1,234,568.",
    "Revenue of 2023-2024 was 12345678901; pi is +3.14159265358979.",
    "2026-11-22T14:43:37.123456Z, 1763822617123, 1763822617123456789, 20261122144337, 22.11.2026 14:43",
    "+2026-11-22 10:00:00 was added to the diff\n+2026-11-22\n+192.168.100.200",
    "Order 4006381333931-A, ISBN 978-3-16-148410-0, invoice 2026-000123, part 123-45-678, tracking 1Z999AA10123456784.",
    "/home/build/project-2026/src/main.py:123:45 C:\\Users\\new\\table2\\report.txt",
    "Version 18.2.0, react@18.2.0, @scope/pkg@1.2.3-beta.4, github.com/a/b@v1.2.3, icon@2x.png, python3.11.7",
    "123e4567-e89b-12d3-a456-426614174000 and 12345678-1234-1234-1234-123456789012",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 4f1b2b0b822cd15d6c15b0f00a08aaaa11112222, 4f1b2b0, 3e8",
    "Clone git@github.com:org/repo.git; write to me@example.com in examples; user:password@localhost.",
    "Read the key with os.environ['API_KEY2'], never print the password: it is secret.",
    "token = get_token_v2(user1); password=self.password2; api_key = config.api_key_1; secret: secrets/db-1",
    "The token = value pairs are split at the first sign. tokens: 12345678. token = nextToken2",
    "pip install sk-learn-contrib-extras-2; table pk_order_lines_2024_archive; hf_hub_download_with_retries_2",
    "@app.get('/x') and A @ B.T and x@y, meet at noon, look at example dot",
    "lat 52.520008, lon 13.404954; 10.0.0.1:8080; 255.255.255.255; 00:1A:2B:3C:4D:5E",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; 4111 1111; 100 200 300 400",
    "100000000 + 200000000 = 300000000; x+1234567890; 5-555-1234; 1e-10",
    "postgresql://user:password@localhost/db http://localhost:8080/a?b=1&c=2#d https://a.b/c:d@e",
    "50% of 20%2C and %zz &nbsp; &copy; \\d+\\w{2,3}\\. \\\\server\\share",
    "IBAN is a word, GB12 is short, SE45 5000 0000 0583 9825 7460 fails its check.",
    "[hidden: secret] [hidden]",
    "PASSWORD=$DB_PASSWORD TOKEN=${TOKEN} API_KEY=<your-key> PASSWORD_FILE=/run/secrets/db SECRET_NAME=db-credentials",
    "PWD=/home/ann/shop2 OLDPWD=/home/ann SSH_AUTH_SOCK=/run/agent.12 KEYBOARD=pc105layout CACHE_KEY=user_profile_v2",
    "PASSWORD=config.password SECRET=os.environ SORT_KEY=created_at TOKEN=next_token2",
    "docker run -u 1000:1000 --user app:group2 --token next_token2 --pass again; docker login password",
    'the field "auth": "required" and "auth": "bearerTokens123" are settings',
]


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_what_is_sensitive_is_found_however_it_is_written(text: str, kind: str) -> None:
    assert {found.kind for found in find(text)} == {kind}
    once = redact(text)
    assert f"[hidden: {kind}]" in once
    assert redact(once) == once
    assert redact(text, allow=[kind]) == text
    if kind in PERSONAL_DATA:
        assert redact(text, allow=["personal_data"]) == text


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


LIKELY = [
    ("Ruf 030 1234567 an.", "030 1234567", "phone_number"),
    ("Tomorrow: 0170-1234567.", "0170-1234567", "phone_number"),
    ("appelez le 01.23.45.67.89", "01.23.45.67.89", "phone_number"),
    ("(020) 7946 0958 is ours", "(020) 7946 0958", "phone_number"),
    ("text 555.123.4567", "555.123.4567", "phone_number"),
    ("text 1-800-555-0199 now", "1-800-555-0199", "phone_number"),
    ("jane@example.com", "jane@example.com", "email_address"),
    ("My password is hunter2.", "hunter2", "secret"),
    ("PIN: 4711", "4711", "secret"),
    ("Mein Passwort war Igel7!", "Igel7", "secret"),
    ("pw tiger-river-stone", "tiger-river-stone", "secret"),
    ("my pin 4711 fails", "4711", "secret"),
    ("Write to jane_7 at acme.io.", "jane_7 at acme.io", "email_address"),
    ("jane AT acme.com", "jane AT acme.com", "email_address"),
    ("jane @ posta.it", "jane @ posta.it", "email_address"),
    ("to de89 3704 0044 0532 0130 00", "de89 3704 0044 0532 0130 00", "bank_account"),
    ("DE89.3704.0044.0532.0130.00", "DE89.3704.0044.0532.0130.00", "bank_account"),
    ("4111.1111.1111.1111", "4111.1111.1111.1111", "card_number"),
    ("4111-1111-1111-1112", "4111-1111-1111-1112", "card_number"),
    ("078 05 1120", "078 05 1120", "social_security_number"),
    ("My SSN is 078051120.", "078051120", "social_security_number"),
    ("please call me at 612 345 678", "612 345 678", "phone_number"),
    ("Handy: 51 23 45 67", "51 23 45 67", "phone_number"),
    ("text 555-0142", "555-0142", "phone_number"),
    ("it is zero one seven zero four four two", "zero one seven zero four four two", "phone_number"),
]
UNLIKELY = [
    "am 01.02.2026 10:30 Uhr, 01/02/2026, 01-02-2026 11",
    "0.123456789, ISBN 0-306-40615-2, 08:30 to 09:45, 2026-01-02 10:11:12.123456, v01.2.3",
    "The password is wrong. password: required. pin 12, token2, no pw here",
    "icon@2x.png, git@github.com, 0000000000, 00:1A:2B:3C:4D:5E, meet me at acme.com",
    "call 3 functions, text 2026-11-22 09:30, phone 2.0, reach 100 000 users, call it 12.5",
    "one two three four, ab12 cdef 3456 7890 abcd, 123 45 67, ssn 12345",
]


@pytest.mark.parametrize(("text", "part", "kind"), LIKELY)
def test_what_may_be_sensitive_is_found_only_if_asked_for(text: str, part: str, kind: str) -> None:
    assert find(text) == []
    assert [(text[finding.start : finding.end], finding.kind) for finding in Redactor(thorough=True).find(text)] == [
        (part, kind)
    ]
    assert kind not in {found.kind for found in Redactor(thorough=True, allow=[kind]).find(text)}


@pytest.mark.parametrize("text", UNLIKELY)
def test_text_that_only_resembles_it_is_left_alone_even_then(text: str) -> None:
    assert Redactor(thorough=True).redact(text) == text


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_a_thorough_search_finds_the_same_class(text: str, kind: str) -> None:
    assert kind in {found.kind for found in Redactor(thorough=True).find(text)}


def recorded_texts() -> list[Path]:
    return sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".json", ".jsonl", ".md", ".txt"))


def test_nothing_in_the_examples_is_redacted() -> None:
    paths = recorded_texts()
    assert len(paths) > 5
    found = {path.name: find(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: findings for name, findings in found.items() if findings} == {}


def test_a_secret_with_a_label_is_found_again_without_one() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx7Vw3pJkQmZ8sT1bYcR5\n-----END RSA PRIVATE KEY-----"
    said = ["The password is Tr0ub4dor&3x.", key, "Card 4111111111111111, postgres://app:pw12@db/x"]
    secrets = Redactor().secrets_in(said)
    assert secrets == ["Tr0ub4dor&3x", key, "MIIEowIBAAKCAQEAx7Vw3pJkQmZ8sT1bYcR5", "pw12"]
    text = "I typed Tr0ub4dor%263x, MIIEowIBAAKCAQEAx7Vw3pJkQmZ8sT1bYcR5 and pw12, not pw123."
    assert Redactor(secrets).redact(text) == (
        "I typed [hidden: secret], [hidden: secret] and [hidden: secret], not pw123."
    )
    assert Redactor(allow=["secret"]).secrets_in(said) == []


def test_only_the_sensitive_part_is_replaced() -> None:
    text = "GET http://ann:s3cretpw@db.acme.com/?mail=ann%40acme.com&x=1 HTTP/1.1"
    assert redact(text) == ("GET http://ann:[hidden: secret]@db.acme.com/?mail=[hidden: email_address]&x=1 HTTP/1.1")
    assert [text[found.start : found.end] for found in find(text)] == ["s3cretpw", "ann%40acme.com"]


def test_a_name_of_a_known_secret_can_be_the_mark() -> None:
    redactor = Redactor({"pin": "4711"}, mark=lambda found: f"<secret>{found.detail}</secret>")
    value = {"url": "http://x/?p=4711", "pages": ["a 4711", 4711], "4711": ("b", None)}
    assert redactor.redact_value(value) == {
        "url": "http://x/?p=<secret>pin</secret>",
        "pages": ["a <secret>pin</secret>", 4711],
        "<secret>pin</secret>": ("b", None),
    }


@pytest.mark.parametrize("text", ["the token", "book", "OK", "%6Fktober", "a\\nokay", "ok1"])
def test_a_very_short_secret_is_not_replaced_inside_of_words(text: str) -> None:
    assert redact(text, ["ok"]) == text


@pytest.mark.parametrize("text", ["ok", "=ok&", "%3Dok%26", "a\\nok", "%6Fk", "&quot;ok&quot;", "is ok."])
def test_a_very_short_secret_is_replaced_as_a_word(text: str) -> None:
    assert "[hidden: secret]" in redact(text, ["ok"])


def test_classes_that_are_allowed_do_not_concern_known_secrets() -> None:
    assert redact("a hunter2-hunter2 b", ["hunter2-hunter2"], allow=["secret"]) == "a [hidden: secret] b"


# As Chromium writes it: the signs that Python encodes and Chromium does not, and the other way round.
CHROMIUM_RAW = "*-._"


def chromium_form(text: str) -> str:
    def written(character: str) -> str:
        if character == " ":
            return "+"
        if character in CHROMIUM_RAW or (character.isascii() and character.isalnum()):
            return character
        return "".join(f"%{byte:02X}" for byte in character.encode())

    return "".join(written(character) for character in text)


ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "quote": quote,
    "quote with nothing safe": lambda text: quote(text, safe=""),
    "quote_plus": quote_plus,
    "urlencode": lambda text: urlencode({"a": text}).removeprefix("a="),
    "as Chromium writes forms": chromium_form,
    "every byte": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "entities": html.escape,
    "numbered entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "hexadecimal entities": lambda text: "".join(f"&#x{ord(character):X};" for character in text),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "JSON with characters": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "an address in a page": lambda text: html.escape(quote(text)),
    "an address in JSON in a page": lambda text: html.escape(json.dumps(chromium_form(text))[1:-1]),
    "capitals": str.upper,
}
SECRETS = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x2FF, exclude_characters="\x7f\xad")
    | st.sampled_from("*~!'()&%+\\\"€😀"),
    min_size=8,
    max_size=24,
).filter(lambda text: len(text.strip()) >= 8 and text.upper().lower() == text.lower())


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("hunter2-hunter2\\", json.dumps({"password": "hunter2-hunter2\\"})),
        ("hunter2-hunter2\\", json.dumps(json.dumps({"password": "hunter2-hunter2\\"}))),
        ("hunter2-hunter2\\", json.dumps(["hunter2-hunter2\\", "n"], ensure_ascii=False)),
        ("nathan-s3cret", "CORP\\nathan-s3cret"),
        ("u0041-s3cret", "CORP\\u0041-s3cret"),
        ("abcdefgh12", "100%abcdefgh12"),
        ("hunter2-hunter2%", "is hunter2-hunter2%20"),
        ("hunter2-hunter2&", "is hunter2-hunter2&lt;"),
        ("amp;hunter2-hunter2", "a&amp;hunter2-hunter2"),
    ],
)
def test_a_known_secret_is_found_where_its_end_and_the_text_beside_it_look_like_an_escape(
    secret: str, text: str
) -> None:
    redacted = Redactor([secret]).redact(text)
    assert "[hidden: secret]" in redacted
    assert secret.strip("\\%&") not in redacted


@settings(max_examples=400, deadline=None)
@given(SECRETS, st.sampled_from(sorted(ENCODINGS)), st.sampled_from(["", " ", "=", "a", '"', "%20", "&amp;", "\\n"]))
@example("0000000\\", "JSON", '"')
def test_a_known_secret_is_found_in_every_encoding(secret: str, encoding: str, around: str) -> None:
    # Of `secret\` before `\n`, the backslash may be the first half of an escaped one: the redactor replaces both.
    assume(not (secret.endswith("\\") and around.startswith("\\")))
    written = ENCODINGS[encoding](secret)
    text = f"{around}{written}{around}"
    redacted = Redactor([secret], allow=["secret", "personal_data"]).redact(text)
    assert "[hidden: secret]" in redacted
    assert written not in redacted
    assert redacted.replace("[hidden: secret]", "") in (around * 2, around, "")


def test_nothing_of_fewer_than_six_characters_is_found_by_its_form() -> None:
    for signs in itertools.product("ab1@.:=-", repeat=5):
        text = "".join(signs)
        padded = f"   {text}   "  # `find` does not search texts as short as this itself
        assert find(padded) == Redactor(thorough=True).find(padded) == [], text
    assert [finding.kind for finding in find("a@b.cd")] == ["email_address"]
    assert Redactor(["x7"]).redact("x7") == "[hidden: secret]"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.lists(st.text(min_size=1, max_size=12), max_size=3))
def test_findings_are_places_in_the_text_in_order_and_all_else_stays(text: str, secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    end = 0
    rest = []
    for found in redactor.find(text):
        assert end <= found.start < found.end <= len(text)
        rest.append(text[end : found.start])
        end = found.end
    rest.append(text[end:])
    assert redactor.redact(text).split("[hidden: ")[0] == rest[0]
    assert all(part in redactor.redact(text) for part in rest)


ENDLESS = (
    "x|x@|@x|x.|a.b|-eyJ|eyJaaaaaaaa.|1|1 |+1 |+1|AA11 |AA11|://a:|a:|_|%25|%|&amp;|&#|\\|\\u00|sk-|token: |"
    'A_=|PASSWORD=|login a password |-u a:|"auth":"a|'
    "-----BEGIN A PRIVATE KEY-----|AKIA IOSF |Bearer |at dot |(at)|&|=|\uff20|A |a@b.c@|01 |01/|password is |pin: |"
    'password |pass: "|mysql -p |cookie: a=|?pw=|&token=a|<token>|Aa1_|net use /user:a |DISCORD '
)


def test_text_that_was_made_to_be_slow_is_not() -> None:
    # In a process of its own: a pattern that goes back and forth over this for minutes lets no other thread run.
    code = (
        "import faulthandler, sys\n"
        "from ace.redaction import Redactor\n"
        "redactor = Redactor(['s3cret-word', 'ok'], thorough=True)\n"
        "for piece in sys.argv[1:]:\n"
        "    print(repr(piece), file=sys.stderr, flush=True)\n"
        "    faulthandler.dump_traceback_later(300, exit=True)\n"
        "    redactor.redact(piece * (300_000 // len(piece)) + ' !')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *ENDLESS.split("|")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_cost_grows_with_the_length_only() -> None:
    line = json.dumps({"step": "open https://acme.com/a?b=c%20d", "n": 12345.678, "text": 'He said "no" \u20ac.\n' * 3})
    redactor = Redactor([f"known-secret-{number}" for number in range(20)])

    def seconds(work: Callable[[str], object], text: str) -> float:
        started = time.process_time()
        work(text)
        return time.process_time() - started

    small, large = line * (500_000 // len(line)), line * (5_000_000 // len(line))
    scan = re.compile(r"(?<!\w)\w{1,64}(?=@)").findall
    redactor.redact(small)
    ours = seconds(redactor.redact, large) / seconds(redactor.redact, small)
    bare = seconds(scan, large) / min(seconds(scan, small) for _ in range(5))
    assert ours < 4 * bare


def test_a_secret_that_is_found_alone_and_as_a_part_is_known_alone() -> None:
    lines = [f"{letter * 20}aB3{letter * 40}9" for letter in "xyz"]
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    found = Redactor().secrets_in(["curl -u deploy:tiger-Oak-5521 example.org", key])
    assert {"tiger-Oak-5521", *lines} <= set(found)
