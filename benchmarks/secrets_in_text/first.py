"""The set that was written first: 100 planted texts and 300 innocent ones.

Of them, the patterns that there were found 67 and 5.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from benchmarks.secrets_in_text.texts import Parts, Planted, Recipe, planted

SEED: Final = 20261129

_RECIPES: Final[tuple[Recipe, ...]] = (
    # Keys of services, by their form
    (
        "GitHub",
        "+ git remote set-url origin https://x-access-token:@@@github.com/acme/app.git",
        lambda p: p.checked("ghp_"),
    ),
    ("GitHub, fine-grained", "GH_TOKEN=@@\n", lambda p: "github_pat_" + p.mixed(22) + "_" + p.mixed(59)),
    ("GitHub, of an action", "Run actions/checkout\n  with token @@ failed", lambda p: p.checked("ghs_")),
    ("GitLab", "curl -H 'PRIVATE-TOKEN: @@' https://gitlab.com/api/v4/projects", lambda p: "glpat-" + p.mixed(20)),
    ("GitLab runner", "gitlab-runner register --token @@ --url https://gitlab.com", lambda p: "glrt-" + p.mixed(20)),
    ("npm", "//npm.acme.example/:_authToken=@@\nalways-auth=true", lambda p: p.checked("npm_")),
    ("PyPI", "[pypi]\nusername = __token__\npassword = @@\n", lambda p: "pypi-AgEIcHlwaS5vcmc" + p.url_safe(120)),
    (
        "AWS key id",
        "2026-11-02 ERROR InvalidAccessKeyId: @@ does not exist",
        lambda p: "AKIA" + p.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    ),
    ("AWS secret key", "[default]\naws_secret_access_key = @@\nregion = eu-west-1", lambda p: p.base64(30)),
    ("AWS session token", "export AWS_SESSION_TOKEN=@@", lambda p: "IQoJb3JpZ2luX2Vj" + p.base64(240)),
    ("Slack bot", "slack_sdk.WebClient(token='@@')", lambda p: f"xoxb-{p.digits(12)}-{p.digits(12)}-{p.mixed(24)}"),
    ("Slack app", "SLACK_APP=@@", lambda p: f"xapp-1-A{p.capitals(10)}-{p.digits(13)}-{p.hex(64)}"),
    (
        "Slack webhook",
        "POST https://hooks.slack.com/services/@@ 200",
        lambda p: f"T{p.capitals(10)}/B{p.capitals(10)}/{p.mixed(24)}",
    ),
    ("Discord webhook", "notify(https://discord.com/api/webhooks/1187654321098765432/@@)", lambda p: p.mixed(68)),
    ("Telegram bot", "GET https://api.telegram.org/bot@@/getMe", lambda p: f"{p.digits(9)}1:AA{p.mixed(33)}"),
    ("Stripe", "stripe.api_key = '@@'", lambda p: "sk_live_" + p.mixed(24)),
    ("Stripe restricted", "I put @@ into the form and it works now.", lambda p: "rk_live_" + p.mixed(24)),
    (
        "Stripe webhook",
        "stripe listen\n> Ready! Your webhook signing secret is @@ (^C to quit)",
        lambda p: "whsec_" + p.mixed(32),
    ),
    ("SendGrid", '{"name": "sendgrid", "value": "@@"}', lambda p: f"SG.{p.mixed(22)}.{p.mixed(43)}"),
    ("Twilio", "TWILIO_AUTH_TOKEN: @@", lambda p: p.hex(32)),
    (
        "Mailgun",
        "curl -s --user 'api:@@' https://api.mailgun.net/v3/mg.acme.com/messages",
        lambda p: "key-" + p.hex(32),
    ),
    (
        "OpenAI",
        "openai.AuthenticationError: Incorrect API key provided: @@.",
        lambda p: f"sk-proj-{p.mixed(74)}T3BlbkFJ{p.mixed(74)}",
    ),
    ("OpenAI, old", "client = OpenAI(api_key='@@')", lambda p: f"sk-{p.mixed(20)}T3BlbkFJ{p.mixed(20)}"),
    ("Anthropic", "x-api-key: @@", lambda p: "sk-ant-api03-" + p.url_safe(72)[:93] + "AA"),
    (
        "Hugging Face",
        "huggingface-cli login --token @@",
        lambda p: "hf_" + p.of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 34),
    ),
    ("Groq", "I set the key to @@ as you said", lambda p: "gsk_" + p.mixed(52)),
    ("Replicate", "REPLICATE=@@", lambda p: "r8_" + p.mixed(37)),
    ("Perplexity", "tool result: {'env': {'PPLX': '@@'}}", lambda p: "pplx-" + p.mixed(48)),
    ("xAI", "grok says 401 for @@", lambda p: "xai-" + p.mixed(80)),
    ("OpenRouter", "model: openrouter/auto key: @@", lambda p: "sk-or-v1-" + p.hex(64)),
    (
        "Google API",
        "https://maps.googleapis.com/maps/api/geocode/json?address=Bonn&key=@@",
        lambda p: "AIza" + p.mixed(35),
    ),
    ("Google OAuth", "gcloud auth print-access-token\n@@", lambda p: "ya29." + p.url_safe(100)),
    ("Google client", '"client_secret":"@@","redirect_uris":["http://localhost"]', lambda p: "GOCSPX-" + p.mixed(28)),
    (
        "Azure storage",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=@@;EndpointSuffix=core.windows.net",
        lambda p: p.base64(64),
    ),
    (
        "Azure SAS",
        "https://acme.blob.core.windows.net/c/b.csv?sv=2024-11-04&sp=r&sig=@@&se=2027-01-01",
        lambda p: p.base64(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
    ),
    (
        "Azure client",
        "az login --service-principal -u app -p @@ --tenant acme",
        lambda p: f"{p.mixed(3)}8Q~{p.mixed(34)}",
    ),
    ("DigitalOcean", "doctl auth init -t @@", lambda p: "dop_v1_" + p.hex(64)),
    ("Heroku", "heroku: @@ expired", lambda p: f"HRKU-AA{p.mixed(58)}"),
    ("Vault", "vault login @@", lambda p: "hvs." + p.mixed(90)),
    (
        "Terraform Cloud",
        'credentials "app.terraform.io" { token = "@@" }',
        lambda p: f"{p.mixed(14)}.atlasv1.{p.mixed(67)}",
    ),
    ("Databricks", "databricks configure --host https://adb.net\nToken: @@", lambda p: "dapi" + p.hex(32)),
    ("Datadog", "DD_API_KEY=@@ agent start", lambda p: p.hex(32)),
    ("New Relic", "newrelic @@", lambda p: "NRAK-" + p.capitals(27)),
    ("Grafana", "Authorization: Bearer @@", lambda p: f"glsa_{p.mixed(32)}_{p.hex(8)}"),
    (
        "Sentry",
        "sentry-cli --auth-token @@ releases list",
        lambda p: f"sntrys_eyJpYXQiOjE3{p.mixed(40)}LCJyZWdpb25fdXJs{p.mixed(40)}_{p.mixed(43)}",
    ),
    ("Shopify", "X-Shopify-Access-Token: @@", lambda p: "shpat_" + p.hex(32)),
    ("Linear", "linear key @@ in the ticket", lambda p: "lin_api_" + p.mixed(40)),
    ("Notion", "NOTION=@@", lambda p: "ntn_" + p.digits(11) + p.mixed(35)),
    ("Figma", "figma: @@", lambda p: "figd_" + p.mixed(40)),
    ("Postman", "newman run --postman @@", lambda p: f"PMAK-{p.hex(24)}-{p.hex(34)}"),
    ("Docker Hub", "docker login -u acme -p @@", lambda p: "dckr_pat_" + p.mixed(27)),
    ("age", "# public key: age1xyz\n@@", lambda p: "AGE-SECRET-KEY-1" + p.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    # Tokens and private keys
    ("JWT in a header", "> Authorization: Bearer @@\n> Accept: */*", lambda p: p.jwt()),
    ("JWT in a cookie", "Cookie: theme=dark; auth=@@; lang=de", lambda p: p.jwt()),
    ("JWT of a cluster", "users:\n- name: admin\n  user:\n    token: @@", lambda p: p.jwt()),
    ("session cookie", "Set-Cookie: sessionid=@@; Path=/; HttpOnly", lambda p: p.small(32)),
    ("session cookie of PHP", "curl -b 'PHPSESSID=@@' https://shop.acme.com/admin", lambda p: p.small(26)),
    ("RSA key", "cat id_rsa\n@@\n$", lambda p: p.pem("RSA PRIVATE KEY")),
    ("OpenSSH key", '{"file": "@@"}', lambda p: p.pem("OPENSSH PRIVATE KEY", 300).replace("\n", "\\n")),
    (
        "service account",
        '{"type": "service_account", "private_key": "@@\\n"}',
        lambda p: p.pem("PRIVATE KEY").replace("\n", "\\n"),
    ),
    ("PGP key", "gpg --export-secret-keys\n@@", lambda p: p.pem("PGP PRIVATE KEY BLOCK")),
    ("WireGuard", "[Interface]\nPrivateKey = @@\nAddress = 10.8.0.2/24", lambda p: p.base64(32)),
    # Logins in addresses and connection strings
    ("Postgres address", "DATABASE_URL=postgresql://app:@@@db.acme.io:5432/app", lambda p: p.mixed(14)),
    (
        "MongoDB address",
        "mongosh 'mongodb+srv://root:@@@cluster0.ab1cd.mongodb.net/test'",
        lambda p: "Winter" + p.digits(4),
    ),
    ("Redis address", "REDIS_URL=redis://:@@@cache:6379/0", lambda p: p.mixed(20)),
    (
        "JDBC",
        "jdbc:sqlserver://db:1433;databaseName=crm;user=sa;password=@@;encrypt=true",
        lambda p: "Sun!" + p.mixed(8),
    ),
    ("ADO", "Server=db;Database=crm;User Id=sa;Pwd=@@;TrustServerCertificate=True", lambda p: "Moon#" + p.mixed(8)),
    ("proxy", "pip install --proxy http://jdoe:@@@proxy.acme.com:8080 rich", lambda p: "Herbst" + p.digits(3) + "!"),
    # In the query of an address
    ("?pw=", "GET /login?user=jane&pw=@@&next=%2F 302", lambda p: f"Summer*{p.digits(4)}!"),
    ("?access_token=", "https://graph.acme.com/me?access_token=@@&fields=id", lambda p: p.mixed(40)),
    ("?code=", "http://localhost:8000/callback?code=@@&state=xyz", lambda p: "4/0A" + p.url_safe(52)),
    ("?X-Amz-Signature=", "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature=@@", lambda p: p.hex(64)),
    ("?auth=", "wss://feed.acme.com/stream?auth=@@", lambda p: p.mixed(32)),
    # Commands
    ("sshpass", "sshpass -p '@@' ssh root@10.0.0.5", lambda p: f"Root#{p.digits(4)}x"),
    ("mysql -p", "mysql -h db -u root -p@@ crm -e 'show tables'", lambda p: f"kiwi{p.digits(4)}Tree"),
    ("curl -u", "curl -u jane:@@ https://ci.acme.com/job/1", lambda p: f"11{p.hex(32)}"),
    ("PGPASSWORD", "PGPASSWORD=@@ psql -h db -U app", lambda p: f"lemon{p.digits(3)}Grass"),
    (".netrc", "machine api.heroku.com\n  login jane\n  password @@", lambda p: p.uuid()),
    ("LDAP", "ldapsearch -x -D cn=admin,dc=acme -w @@ -b dc=acme", lambda p: f"Ldap{p.digits(4)}!x"),
    ("Basic header", "Authorization: Basic @@", lambda p: base64.b64encode(f"jane:{p.mixed(12)}".encode()).decode()),
    (
        "login of Docker",
        '{"auths": {"ghcr.io": {"auth": "@@"}}}',
        lambda p: base64.b64encode(f"jane:{p.mixed(12)}".encode()).decode(),
    ),
    # Passwords with a label
    ("password in YAML", "db:\n  user: app\n  db_password: @@\n", lambda p: f"tulip-{p.mixed(8)}"),
    ("password in code", 'conn = connect(user="sa", password="@@")', lambda p: f"P@ss{p.digits(4)}word"),
    (
        "password in JSON",
        r'{"body": "{\"username\": \"jane\", \"password\": \"@@\"}"}',
        lambda p: f"{p.mixed(6)}!{p.mixed(6)}",
    ),
    ("password in XML", "<user>sa</user><password>@@</password>", lambda p: f"Xml{p.mixed(10)}"),
    ("password in properties", "spring.datasource.password=@@\n", lambda p: f"spring{p.digits(3)}Rain"),
    (
        "password in prose",
        "Agent: I logged in. The admin password is @@ as you told me.",
        lambda p: f"sparrow{p.digits(2)}!Hill",
    ),
    (
        "password without digits",
        "MYSQL_ROOT_PASSWORD=@@ docker compose up",
        lambda p: "correcthorse" + p.of("abcdefgh", 6),
    ),
    (
        "key of an authenticator",
        "otpauth://totp/acme:jane?secret=@@&issuer=acme",
        lambda p: p.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32),
    ),
    ("header of a key", '"headers": {"X-Api-Key": "@@", "Accept": "*/*"}', lambda p: p.small(40)),
    # Personal data
    ("e-mail", "escalated by @@ yesterday", lambda p: f"jane.{p.small(6)}@acme.com"),
    ("e-mail in a query", "GET /reset?mail=@@&x=1", lambda p: f"tom{p.digits(2)}%40posta.it"),
    ("e-mail, disguised", "write to @@ please", lambda p: f"m.{p.small(5)}ova (at) uni-bonn.de"),
    ("telephone, international", "callback requested: @@", lambda p: f"+49 228 {p.digits(7)}"),
    ("telephone, American", "My cell is @@.", lambda p: f"(415) 55{p.digits(1)}-{p.digits(4)}"),
    ("card", "charge failed for @@ exp 04/29", lambda p: "4111 1111 1111 1111"),
    ("card, American Express", '"pan": "@@"', lambda p: "378282246310005"),
    ("IBAN", "refund to @@", lambda p: "DE89 3704 0044 0532 0130 00"),
    ("IBAN, compact", "iban=@@;", lambda p: "GB29NWBK60161331926819"),
    ("social security number", "SSN on file: @@", lambda p: f"219-09-{p.of('123456789', 4)}"),
)

_INNOCENT: Final[tuple[Callable[[Parts], str], ...]] = (
    # Hashes and identifiers
    lambda p: f"commit {p.hex(40)}\nMerge: {p.hex(7)} {p.hex(7)}",
    lambda p: f"HEAD is now at {p.hex(8)} Fix the build",
    lambda p: f"sha256:{p.hex(64)}",
    lambda p: f"FROM python:3.12@sha256:{p.hex(64)}",
    lambda p: f'"integrity": "sha512-{p.base64(64)}"',
    lambda p: f"rich-14.1.0-py3-none-any.whl --hash=sha256:{p.hex(64)}",
    lambda p: f"github.com/pkg/errors v0.9.1 h1:{p.base64(32)}",
    lambda p: f'checksum = "{p.hex(64)}"',
    lambda p: f"md5sum backup.tar: {p.hex(32)}",
    lambda p: f"run {p.uuid()} started",
    lambda p: f"traceparent: 00-{p.hex(32)}-{p.hex(16)}-01",
    lambda p: f"X-Request-Id: {p.uuid()}",
    lambda p: f'ETag: "{p.hex(32)}"',
    lambda p: f'{{"id": "chatcmpl-{p.mixed(29)}", "object": "chat.completion"}}',
    lambda p: f'{{"id": "msg_01{p.mixed(22)}", "type": "message"}}',
    lambda p: f'{{"type": "tool_use", "id": "toolu_01{p.mixed(22)}", "name": "Bash"}}',
    lambda p: f'"tool_call_id": "call_{p.mixed(24)}"',
    lambda p: f'"request_id": "req_011C{p.mixed(20)}"',
    lambda p: f'"previous_response_id": "resp_{p.hex(50)}"',
    lambda p: f"thread_{p.mixed(24)} has 3 messages",
    lambda p: f"session 019{p.hex(5)}-{p.hex(4)}-7{p.hex(3)}-9{p.hex(3)}-{p.hex(12)}",
    lambda p: f"customer cus_{p.mixed(14)} paid pi_3{p.mixed(23)}",
    lambda p: f"arn:aws:iam::{p.digits(12)}:role/deploy-{p.small(6)}",
    lambda p: f"i-0{p.hex(16)} is running in subnet-0{p.hex(16)}",
    lambda p: f"object {p.hex(24)} not found in collection users",
    lambda p: f"pod web-{p.hex(9)}-{p.small(5)} CrashLoopBackOff",
    # Encoded data
    lambda p: f"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{p.base64(120)}",
    lambda p: f'{{"type": "image", "data": "/9j/4AAQSkZJRgABAQ{p.base64(150)}"}}',
    lambda p: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{p.base64(33)} laptop",
    lambda p: p.pem("CERTIFICATE"),
    lambda p: p.pem("PUBLIC KEY", 200),
    lambda p: (
        f"!function(e,t){{var n={{}};function r(o){{if(n[o])return n[o].exports;"
        f"var i=n[o]={{i:o,l:!1}}}}}}({p.digits(3)});"
    ),
    lambda p: f"00000010  {' '.join(p.hex(2) for _ in range(16))}  |................|",
    lambda p: f"segfault at {p.hex(12)} ip 0x{p.hex(12)} sp 0x{p.hex(12)} error 4",
    lambda p: f'"signature": "Er{p.base64(90)}", "type": "thinking"',
    lambda p: f"embedding[0:4] = [0.{p.digits(8)}, -0.{p.digits(8)}, 0.{p.digits(8)}]",
    # Paths, addresses, names
    lambda p: f"/home/app/.cache/huggingface/hub/models--Qwen--Qwen2.5/snapshots/{p.hex(40)}/config.json",
    lambda p: f"https://cdn.acme.com/assets/main.{p.hex(8)}.js?v={p.digits(10)}",
    lambda p: f"https://files.acme.example/packages/{p.hex(2)}/{p.hex(2)}/{p.hex(60)}/rich-14.1.0.tar.gz",
    lambda p: f"GET /search?q=blue+lamp&page={p.digits(1)}&sort=price_asc&utm_source=news{p.digits(2)}",
    lambda p: f"https://www.youtube.com/watch?v={p.mixed(11)}",
    lambda p: f"https://docs.google.com/document/d/1{p.mixed(43)}/edit",
    lambda p: f"model='claude-sonnet-4-5-2025{p.digits(4)}', fallback='gpt-4o-2024-08-06'",
    lambda p: f"Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M (rev {p.hex(7)})",
    lambda p: f"tests/core/test_token_budget.py::test_case[sk-model-{p.digits(2)}] PASSED",
    lambda p: f"chunk-vendors~{p.hex(8)}.min.css  {p.digits(3)}.{p.digits(2)} KiB",
    # Words after a label
    lambda p: f"max_tokens={p.digits(5)}, token_budget: {p.digits(6)}, total_tokens={p.digits(4)}",
    lambda p: "The token is EndOfSequence2, and the next token: Unexpected3rdBracket",
    lambda p: f'{{"token": "Ġhello{p.digits(1)}", "logprob": -0.{p.digits(4)}}}',
    lambda p: f"SyntaxError: Unexpected token '<', \"<!DOCTYPE{p.digits(2)} \"... is not valid JSON",
    lambda p: f"tokenizer=cl100k_base token_type=bearer expires_in={p.digits(4)}",
    lambda p: f'password = os.environ["DB_PASSWORD{p.digits(1)}"]\napi_key = settings.api_key_v{p.digits(1)}',
    lambda p: "password: ${DB_PASSWORD} api_key: <your-api-key-1> token=$GITHUB_TOKEN_2",
    lambda p: (
        f"Password must have at least {p.digits(1)} characters and 1 digit. Password reset sent to user{p.digits(3)}."
    ),
    lambda p: f"key: ArrowDown{p.digits(1)}, cache_key=user:{p.digits(4)}:profile, primary_key=order_id_{p.digits(1)}",
    lambda p: f"env:\n  TOKEN: ${{{{ secrets.GITHUB_TOKEN }}}}\n  API_KEY: sk-...\n  OTHER: ghp_{'x' * 36}",
    # Numbers
    lambda p: f"order {p.digits(8)}, invoice 2026-{p.digits(6)}, article {p.digits(13)}1",
    lambda p: (
        f"2026-11-{p.of('12', 1)}{p.of('123456789', 1)}T09:{p.of('12345', 1)}1:07.{p.digits(6)}Z "
        f"took {p.digits(3)}.{p.digits(3)} ms"
    ),
    lambda p: (
        f"10.{p.of('123456789', 2)}.0.{p.of('123456789', 2)} - 52:54:00:{p.hex(2)}:{p.hex(2)}:{p.hex(2)} "
        f"v{p.digits(1)}.{p.digits(2)}.{p.digits(1)}"
    ),
    lambda p: f"lat 52.{p.digits(7)}, lon 13.{p.digits(7)}; epoch 17{p.digits(11)}; pid {p.digits(5)}",
)


def planted_texts() -> list[Planted]:
    """Return the 100 planted texts."""
    return planted(_RECIPES, SEED)


def innocent_texts() -> list[str]:
    """Return the 300 innocent texts: five of each kind."""
    parts = Parts(SEED + 1)
    return [make(parts) for make in _INNOCENT for _ in range(5)]
