"""The set that was written after the fourth, without a look at the finder: 40 planted texts and 80 innocent ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.secrets_in_text.texts import Parts, Planted, Recipe, planted

SEED: Final = 20261203

_RECIPES: Final[tuple[Recipe, ...]] = (
    # Headers
    ("bearer header", "> POST /v2/charges HTTP/1.1\n> Authorization: Bearer @@\n> Accept: */*", lambda p: p.mixed(43)),
    ("vendor header", "requests.get(url, headers={'X-Vault-Token': '@@'})", lambda p: "hvs." + p.url_safe(68)),
    ("signature header", "X-Hub-Signature-Secret: @@", lambda p: p.hex(40)),
    ("cookie", "< Set-Cookie: connect.sid=s%3A@@; Path=/; HttpOnly", lambda p: f"{p.mixed(32)}.{p.mixed(43)}"),
    ("CSRF and session", "Cookie: theme=dark; JSESSIONID=@@; lang=de", lambda p: p.capitals(32)),
    ("proxy header", "Proxy-Authorization: Basic @@", lambda p: p.base64(21)),
    # Command lines
    ("mysqldump", "$ mysqldump -h db3 -u report -p@@ shop > shop.sql", lambda p: f"Kv{p.mixed(9)}!"),
    ("sshpass", "sshpass -p '@@' ssh deploy@10.4.0.17 uptime", lambda p: f"{p.small(5)}#{p.digits(4)}Q"),
    ("redis-cli", "redis-cli -h cache.internal -a @@ PING", lambda p: p.mixed(20)),
    ("docker run", "docker run -d -e POSTGRES_PASSWORD=@@ postgres:16", lambda p: f"pg-{p.mixed(10)}"),
    ("helm", "helm upgrade web ./chart --set auth.rootPassword=@@,replicas=2", lambda p: p.mixed(14)),
    ("openssl", "openssl enc -d -aes-256-cbc -in dump.enc -pass pass:@@", lambda p: p.mixed(18)),
    ("curl user", "curl -s -u ci-bot:@@ https://nexus.example.org/service/rest/v1/status", lambda p: p.mixed(16)),
    # URLs
    ("AMQP URL", "broker_url = amqp://worker:@@@rabbit:5672/jobs", lambda p: p.mixed(15)),
    ("signed URL", "GET /media/7.png?Expires=1790000000&Signature=@@&Key-Pair-Id=K2", lambda p: p.url_safe(64)),
    (
        "Azure SAS",
        "https://acme.blob.core.windows.net/logs?sv=2024-11-04&sp=r&sig=@@",
        lambda p: p.base64(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
    ),
    (
        "webhook",
        "curl -d @alert.json https://discord.com/api/webhooks/@@",
        lambda p: f"1{p.digits(18)}/{p.url_safe(51)}",
    ),
    ("Telegram", "https://api.telegram.org/bot@@/sendMessage", lambda p: f"{p.digits(10)}:AA{p.mixed(33)}"),
    # Files of settings
    ("dotenv URL", "NODE_ENV=production\nMAILGUN_KEY=@@\nPORT=8080", lambda p: f"{p.hex(32)}-{p.hex(8)}-{p.hex(8)}"),
    ("shell export", 'export SNOWFLAKE_PWD="@@"', lambda p: f"{p.mixed(8)}$x{p.digits(2)}"),
    ("npmrc", "//registry.example.org/:_authToken=@@", lambda p: p.uuid()),
    ("netrc", "machine git.example.org login build password @@", lambda p: p.mixed(22)),
    ("properties", "spring.datasource.username=app\nspring.datasource.password=@@", lambda p: p.mixed(12)),
    ("Kubernetes", "kind: Secret\ndata:\n  tls-passphrase: @@", lambda p: p.base64(15)),
    ("YAML block", "smtp:\n  host: mail.example.org\n  user: noreply\n  pass: @@", lambda p: p.mixed(13)),
    ("INI", "[rabbit]\nuser = guest\nsecretkey = @@", lambda p: p.hex(48)),
    ("Terraform", 'variable "db_pass" {\n  default = "@@"\n}', lambda p: f"Tf{p.mixed(11)}"),
    ("JSON", '{"host": "ldap://dc1", "bindDN": "cn=svc", "bindCredentials": "@@"}', lambda p: p.mixed(17)),
    ("escaped JSON", r'body: "{\"client_id\": \"web\", \"client_secret\": \"@@\"}"', lambda p: p.mixed(36)),
    ("list of JSON", '[{"name": "STRIPE_WEBHOOK_SECRET", "value": "@@"}]', lambda p: "whsec_" + p.mixed(32)),
    # Labels and sentences
    ("German", "Das Passwort für den Testzugang lautet @@, bitte danach ändern.", lambda p: f"Haus{p.digits(4)}!berg"),
    ("French", "Mot de passe : @@", lambda p: f"{p.mixed(9)}-fr"),
    ("Spanish", "La contraseña es @@ y caduca mañana", lambda p: f"sol{p.digits(3)}{p.capitals(4)}"),
    ("Italian", "Chiave segreta: @@", lambda p: p.mixed(28)),
    ("Polish", "hasło: @@", lambda p: f"zima{p.digits(5)}"),
    ("English", "use the PIN @@ for the door and the same passphrase", lambda p: p.digits(6)),
    # Logs and tracebacks
    ("log line", "2026-11-03T08:12:44Z DEBUG auth - refreshed token=@@ ttl=3600", lambda p: p.url_safe(30)),
    (
        "traceback",
        "psycopg.OperationalError: connection failed: user=app password=@@ host=10.0.0.5 dbname=x",
        lambda p: p.mixed(16),
    ),
    (
        "repr",
        "File \"app.py\", line 9, in login\n  Settings(user='ann', api_secret='@@', retries=3)",
        lambda p: p.mixed(30),
    ),
    ("key in PEM", "loaded key:\n@@\nok", lambda p: p.pem("EC PRIVATE KEY", 120)),
)

_INNOCENT: Final[tuple[Callable[[Parts], str], ...]] = (
    # Hashes and identifiers
    lambda p: f"sha256:{p.hex(64)}  dist/app-1.2.{p.digits(2)}.tar.gz",
    lambda p: f"commit {p.hex(40)}\nAuthor: bot\nDate: Mon Nov 2",
    lambda p: f"integrity sha512-{p.base64(64)}",
    lambda p: f"request_id={p.uuid()} status=200 in 14 ms",
    lambda p: f"{p.hex(7)}..{p.hex(7)} main -> origin/main",
    lambda p: f'ETag: W/"{p.hex(32)}"',
    lambda p: f'<img src="data:image/png;base64,{p.base64(300)}">',
    lambda p: f"tests/test_token_refresh.py::test_password_is_hashed[{p.hex(8)}-case{p.digits(2)}] PASSED",
    # Versions and packages
    lambda p: f"Successfully installed tokenizers-0.{p.digits(2)}.1 secretstorage-3.3.{p.digits(1)}",
    lambda p: f"auth-token-parser@{p.digits(1)}.{p.digits(2)}.0-rc.{p.hex(8)}",
    # Code and words about secrets
    lambda p: f"password = getpass.getpass('Password for user {p.digits(4)}: ')",
    lambda p: f"if token is None or len(token) != {p.digits(2)}: raise ValueError('token must not be empty')",
    lambda p: f"api_key=os.environ['SERVICE_{p.capitals(5)}_KEY']",
    lambda p: f"secretKeyRef:\n  name: db-{p.small(5)}\n  key: password",
    lambda p: f"max_tokens: {p.digits(4)}, prompt_tokens: {p.digits(3)}, total_tokens: {p.digits(4)}",
    lambda p: f"Authorization: Bearer $TOKEN_{p.capitals(4)}",
    # Logs and addresses
    lambda p: f"arn:aws:iam::{p.digits(12)}:role/build-{p.small(6)}",
    lambda p: f"https://cdn.example.org/assets/main.{p.hex(20)}.js?v={p.digits(10)}",
    lambda p: f"kernel: [{p.digits(5)}.{p.digits(6)}] usb 1-2: SerialNumber: {p.capitals(12)}",
    lambda p: f"trace_id={p.hex(32)} span_id={p.hex(16)} key=orders:{p.digits(6)}",
)


def planted_texts() -> list[Planted]:
    """Return the 40 planted texts."""
    return planted(_RECIPES, SEED)


def innocent_texts() -> list[str]:
    """Return the 80 innocent texts: four of each kind."""
    parts = Parts(SEED + 1)
    return [make(parts) for make in _INNOCENT for _ in range(4)]
