# ruff: noqa: E501  # a text of a trace is one line
"""The set that was written after the second: 40 planted texts and 100 innocent ones.

Of them, 28 and none were found. Then the finder learned the classes of the missed texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.secrets_in_text.texts import Parts, Planted, Recipe, planted

SEED: Final = 20261201

_RECIPES: Final[tuple[Recipe, ...]] = (
    # Keys of services
    ("Asana", "asana client @@", lambda p: f"2/{p.digits(16)}/{p.digits(16)}:{p.hex(32)}"),
    ("CircleCI", "circleci setup --token @@", lambda p: f"CCIPAT_{p.mixed(22)}_{p.hex(40)}"),
    ("Contentful", "space x1 uses CFPAT @@", lambda p: "CFPAT-" + p.mixed(43)),
    ("Cohere", "COHERE_API_KEY=@@\n", lambda p: p.mixed(40)),
    ("ElevenLabs", "xi-api-key: @@", lambda p: "sk_" + p.hex(48)),
    ("Together", "together.api_key = '@@'", lambda p: p.hex(64)),
    ("Fireworks", "FIREWORKS=@@", lambda p: "fw_" + p.mixed(24)),
    ("Pinecone", 'Pinecone(api_key="@@")', lambda p: f"pcsk_{p.mixed(6)}_{p.mixed(64)}"),
    ("Tavily", "search failed with @@, retry", lambda p: "tvly-" + p.mixed(32)),
    ("Render", "the deploy key @@ was revoked", lambda p: "rnd_" + p.mixed(32)),
    ("PlanetScale", "pscale auth @@", lambda p: "pscale_tkn_" + p.mixed(43)),
    ("Square", "Square-Version: 2026-10-01\nAuthorization: Bearer @@", lambda p: "EAAA" + p.mixed(60)),
    ("Facebook", "graph error for @@", lambda p: "EAACEdEose0cBA" + p.mixed(120)),
    ("GitLab job", "CI_JOB_TOKEN=@@", lambda p: "glcbt-64_" + p.mixed(20)),
    ("Slack user", "(@@)", lambda p: f"xoxp-{p.digits(12)}-{p.digits(12)}-{p.digits(12)}-{p.hex(32)}"),
    # Places
    ("compose file", "environment:\n  - POSTGRES_PASSWORD=@@\n", lambda p: f"rabbit{p.digits(3)}Hole"),
    ("Rails", "production:\n  secret_key_base: @@", lambda p: p.hex(128)),
    ("Django", "SECRET_KEY = 'django-insecure-@@'", lambda p: p.mixed(44)),
    ("ini file", "[smtp]\nuser=mailer\npass=@@", lambda p: f"mail{p.digits(4)}Coach"),
    ("Ansible", 'ansible_ssh_pass: "@@"', lambda p: f"ansi{p.digits(4)}Ble!"),
    ("Helm", "helm upgrade x --set auth.rootPassword=@@", lambda p: f"helm{p.digits(4)}Wheel"),
    ("Java", 'DriverManager.getConnection(url, "app", "@@"); // password', lambda p: f"java{p.digits(4)}Bean"),
    ("Go", 'client := New("acme", WithAPIKey("@@"))', lambda p: p.mixed(32)),
    ("JavaScript", "const token = `@@`;", lambda p: p.mixed(36)),
    ("GraphQL", 'mutation { login(user: "jane", password: "@@") { id } }', lambda p: f"graph{p.digits(4)}Node"),
    ("form", "username=jane&password=@@&submit=1", lambda p: f"form{p.digits(3)}Field%21"),
    ("browser", 'type "@@" into input#password', lambda p: f"Click{p.digits(3)}!Me"),
    (
        "tool call",
        '{"name": "fill", "arguments": {"selector": "#pwd", "value": "@@"}}',
        lambda p: f"Fill{p.digits(3)}!Form",
    ),
    ("FTP", "ftp://jane:@@@ftp.acme.com/in", lambda p: f"ftp{p.digits(4)}x"),
    ("HTTPie", "http -a jane:@@ https://api.acme.com/me", lambda p: f"pie{p.digits(4)}Crust"),
    ("Windows", "net use Z: \\\\srv\\share /user:jane @@", lambda p: f"Share{p.digits(4)}!"),
    ("French", "Le mot de passe est @@.", lambda p: f"Jardin{p.digits(3)}!Vert"),
    ("prose", "Log in as admin with the password @@ and open the report.", lambda p: f"Falcon{p.digits(3)}#Sky"),
    (
        "signed address",
        "https://storage.googleapis.com/b/o?X-Goog-Expires=300&X-Goog-Signature=@@",
        lambda p: p.hex(256),
    ),
    # Personal data
    ("e-mail", '<a href="mailto:@@">write</a>', lambda p: f"n.{p.small(5)}@posta.it"),
    ("e-mail in JSON", '{"user": {"email": "@@"}}', lambda p: f"{p.small(7)}7@mail.co.uk"),
    ("telephone", "phone: @@", lambda p: f"0228 {p.digits(6)}1"),
    ("telephone, British", "ring @@ after six", lambda p: f"+44 20 79{p.digits(2)} {p.digits(4)}"),
    ("card", "@@ was declined", lambda p: "4242-4242-4242-4242"),
    ("IBAN", "Konto @@", lambda p: "NL91 ABNA 0417 1643 00"),
)

_INNOCENT: Final[tuple[Callable[[Parts], str], ...]] = (
    lambda p: f"{p.hex(40)} HEAD@{{{p.digits(1)}}}: rebase (finish): returning to refs/heads/main",
    lambda p: f'poetry.lock: {{file = "attrs-25.4.0.tar.gz", hash = "sha256:{p.hex(64)}"}}',
    lambda p: f"cache key: linux-node-modules-{p.hex(64)} restored",
    lambda p: (
        f"ImportError at 0x7f{p.hex(10)}: undefined symbol: _ZN5torch3jit{p.digits(2)}parseSchemaERKNSt7__cxx1112basic"
    ),
    lambda p: f'"id": "run-{p.uuid()}-{p.digits(1)}", "usage_metadata": {{"total_tokens": {p.digits(4)}}}',
    lambda p: f"rs_{p.hex(50)} reasoning; fc_{p.hex(50)} function_call; item_id msg_{p.hex(50)}",
    lambda p: f'"encrypted_content": "gAAAAAB{p.url_safe(150)}"',
    lambda p: f"file-{p.mixed(24)} uploaded to vs_{p.hex(32)}",
    lambda p: f"Bucket acme-prod-{p.small(12)}, KMS key id {p.uuid()}, policy AROA-{p.digits(4)}",
    lambda p: f"wss://browser.local/devtools/page/{p.hex(32).upper()}",
    lambda p: (
        f'<input type="password" id="pw{p.digits(1)}" name="user[password]" autocomplete="current-password" maxlength="{p.digits(2)}">'
    ),
    lambda p: f"[{p.digits(3)}]<button id=submit-{p.small(6)} class='css-{p.small(7)} MuiButton-root'>Log in</button>",
    lambda p: (
        f"def check_password(user, password=None, token=None, retries={p.digits(1)}): return hash_password(password)"
    ),
    lambda p: (
        f"AssertionError: assert token == 'expected_token_{p.digits(1)}' where token = get_token(user_id={p.digits(4)})"
    ),
    lambda p: (
        f"Password for user{p.digits(2)} was changed on 2026-11-{p.of('12', 1)}{p.of('1234567', 1)} at 10:{p.of('12345', 1)}0:00 UTC (Build 26{p.digits(3)})."
    ),
    lambda p: (
        f"npm warn deprecated glob@7.2.{p.digits(1)}: use v9; added {p.digits(3)} packages in {p.digits(2)}s; integrity sha1-{p.base64(20)}"
    ),
    lambda p: (
        f"ISBN 978-0-{p.digits(6)}-{p.digits(2)}-1, DOI 10.1145/{p.digits(7)}.{p.digits(7)}, arXiv:2511.{p.digits(5)}v2"
    ),
    lambda p: f"https://app.acme.com/projects/{p.hex(24)}/board?view={p.small(6)}&card={p.digits(4)}&from=2026-11-01",
    lambda p: f"Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf  {p.digits(2)}.{p.digits(1)} GB  blake3 {p.hex(64)}",
    lambda p: (
        f"translate3d(-{p.digits(3)}.{p.digits(2)}px, 0, 0) rgba({p.digits(2)}, 12, 80, .{p.digits(2)}) cubic-bezier(.4, 0, .{p.digits(1)}, 1)"
    ),
)


def planted_texts() -> list[Planted]:
    """Return the 40 planted texts."""
    return planted(_RECIPES, SEED)


def innocent_texts() -> list[str]:
    """Return the 100 innocent texts: five of each kind."""
    parts = Parts(SEED + 1)
    return [make(parts) for make in _INNOCENT for _ in range(5)]
