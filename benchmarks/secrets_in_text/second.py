"""The set that was written when the finder did well on the first: 40 planted texts and 100 innocent ones.

Of them, 28 and none were found. Then the finder learned the classes of the missed texts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from benchmarks.secrets_in_text.texts import Parts, Planted, Recipe, planted

SEED: Final = 20261130

_RECIPES: Final[tuple[Recipe, ...]] = (
    # Keys of services
    ("Airtable", "airtable.Api('@@')", lambda p: f"pat{p.mixed(14)}.{p.hex(64)}"),
    ("Atlassian", "JIRA_API_TOKEN=@@", lambda p: f"ATATT3xFfGF0{p.mixed(171)}={p.hex(8).upper()}"),
    ("Buildkite", "buildkite said 401 to @@.", lambda p: "bkua_" + p.hex(40)),
    ("Doppler", "doppler run --token @@ -- make", lambda p: "dp.pt." + p.mixed(43)),
    ("Supabase", "supabase login\nsaved @@", lambda p: "sbp_" + p.hex(40)),
    ("Pulumi", "export PULUMI_ACCESS_TOKEN=@@", lambda p: "pul-" + p.hex(40)),
    ("LangSmith", "LANGSMITH_API_KEY: '@@'", lambda p: f"lsv2_pt_{p.hex(32)}_{p.hex(10)}"),
    ("Langfuse", "Langfuse(secret_key='@@')", lambda p: "sk-lf-" + p.uuid()),
    ("Mistral", "MISTRAL_API_KEY=@@ python chat.py", lambda p: p.mixed(32)),
    ("DeepSeek", "the key is @@, please keep it", lambda p: "sk-" + p.hex(32)),
    ("Weights and Biases", "wandb login --relogin\nWANDB_API_KEY=@@", lambda p: p.hex(40)),
    ("Kaggle", '{"username":"jane","key":"@@"}', lambda p: p.hex(32)),
    ("Okta", "Authorization: SSWS @@", lambda p: "00" + p.mixed(40)),
    ("Netlify", "netlify deploy --auth @@ --prod", lambda p: "nfp_" + p.mixed(36)),
    ("Fly", "fly tokens: @@", lambda p: "fo1_" + p.mixed(43)),
    # Places
    ("header of GitHub", "curl -H 'Authorization: token @@' https://api.github.com/user", lambda p: p.hex(40)),
    ("header of a session", "X-Auth-Token: @@", lambda p: p.mixed(32)),
    ("header of git", "git -c http.extraHeader='Authorization: Bearer @@' fetch", lambda p: p.mixed(44)),
    (
        "secret of Kubernetes",
        "kind: Secret\ndata:\n  password: @@",
        lambda p: base64.b64encode(p.mixed(16).encode()).decode(),
    ),
    (
        "literal of Kubernetes",
        "kubectl create secret generic db --from-literal=password=@@",
        lambda p: f"mango{p.digits(4)}Tree",
    ),
    ("PHP", "define('DB_PASSWORD', '@@');", lambda p: f"Php{p.mixed(9)}!"),
    ("C#", '"ConnectionStrings": {"Db": "Host=db;Username=app;Password=@@"}', lambda p: f"cs{p.mixed(10)}"),
    ("PowerShell", "ConvertTo-SecureString '@@' -AsPlainText -Force", lambda p: f"Pow#{p.mixed(8)}"),
    ("variable in JSON", '{"name": "DB_PASSWORD", "value": "@@"}', lambda p: f"json{p.mixed(8)}!"),
    ("wget", "wget --user=jane --password=@@ ftp://files.acme.com/a", lambda p: f"wg{p.mixed(9)}"),
    ("OpenSSL", "openssl rsa -in key.pem -passin pass:@@", lambda p: f"open{p.digits(4)}Sesame"),
    ("Samba", "smbclient //srv/share -U jane%@@", lambda p: f"samba{p.digits(3)}Drum"),
    ("Vault", "vault kv put secret/db password=@@", lambda p: f"vault{p.digits(4)}Door"),
    ("SQL", "ALTER USER app WITH PASSWORD '@@';", lambda p: f"alter{p.digits(4)}Ego"),
    ("Terraform", 'admin_password = "@@"', lambda p: f"Terra{p.mixed(8)}$"),
    ("German", "Das Passwort lautet @@.", lambda p: f"Regen{p.digits(4)}!bogen"),
    ("prose", "pw for the VPN: @@ (same as last year)", lambda p: f"otter{p.digits(3)}River"),
    ("address of MinIO", "mc alias set s3 https://minio:@@@s3.acme.io", lambda p: p.mixed(20)),
    ("confirmation", "https://app.acme.com/verify?email_token=@@&lang=en", lambda p: p.url_safe(32)),
    # Personal data
    ("e-mail", "cc: <@@>", lambda p: f"lea_{p.small(5)}@corp.acme.io"),
    ("e-mail with plus", "login=@@ ok", lambda p: f"sam+{p.small(4)}@gmx.net"),
    ("telephone", "WhatsApp @@", lambda p: f"+33 6 12 34 {p.digits(2)} {p.digits(2)}"),
    ("card", "card @@ declined", lambda p: "5500-0000-0000-0004"),
    ("IBAN", '{"to": "@@"}', lambda p: "FR1420041010050500013M02606"),
    ("social security number", "applicant 1, @@, approved", lambda p: f"123-45-{p.of('123456789', 4)}"),
)

_INNOCENT: Final[tuple[Callable[[Parts], str], ...]] = (
    lambda p: f"index {p.hex(7)}..{p.hex(7)} 100644\n@@ -12,{p.digits(1)} +12,9 @@ def main():",
    lambda p: f"refs/pull/{p.digits(4)}/merge -> {p.hex(40)}",
    lambda p: f"layer {p.hex(12)}: Pull complete\nDigest: sha256:{p.hex(64)}",
    lambda p: f"yarn@4: resolution: lodash@npm:4.17.21 checksum: 10/{p.hex(128)}",
    lambda p: f'"cache_control": {{"type": "ephemeral"}}, "input_tokens": {p.digits(5)}, "cache_read_input_tokens": 0',
    lambda p: f'data: {{"id":"gen-17{p.digits(8)}-{p.mixed(20)}","choices":[]}}',
    lambda p: f"span_id={p.hex(16)} trace_id={p.hex(32)} parent_id={p.hex(16)}",
    lambda p: f"experiment {p.small(8)}/run-20261130_{p.digits(6)}-{p.small(8)} synced",
    lambda p: (
        f'<path d="M{p.digits(2)}.{p.digits(2)}c0-{p.digits(1)}.{p.digits(2)}-.9 0-2 .9-2 2z" fill="#{p.hex(6)}"/>'
    ),
    lambda p: f"font/woff2;base64,d09GMgABAAAAA{p.base64(150)}",
    lambda p: (
        f"node_modules/.pnpm/react-dom@18.3.1_react@18.3.1/node_modules/react-dom/cjs/x.{p.hex(8)}.js:{p.digits(4)}:17"
    ),
    lambda p: f"s3://acme-logs/AWSLogs/{p.digits(12)}/elasticloadbalancing/eu-west-1/2026/11/{p.hex(10)}.log.gz",
    lambda p: f"https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/resolve/{p.hex(40)}/model-00001-of-00004.safetensors",
    lambda p: (
        f"https://www.amazon.de/dp/B0{p.capitals(8)}/ref=sr_1_{p.digits(1)}?keywords=lamp&qid=17{p.digits(8)}&sr=8-1"
    ),
    lambda p: (
        f"next_page_token: page{p.digits(1)}; csrf_token=disabled; id_token_hint unused; token_count 1{p.digits(3)}"
    ),
    lambda p: (
        f"secret_name: prod/db-{p.digits(1)}, key_file=/etc/ssl/key{p.digits(1)}.pem, "
        f"password_field=#login-pass{p.digits(1)}"
    ),
    lambda p: (
        f"The password must contain 12 characters. "
        f"I forgot my password {p.digits(1)} times; the token expired at 09:{p.digits(2)}."
    ),
    lambda p: (
        f"foreign_key=(user_id, order_id_{p.digits(1)}), sort_key: created_at_{p.digits(1)}, key='item-{p.digits(4)}'"
    ),
    lambda p: f"serial {p.capitals(10)}, tracking 00340434{p.digits(12)}9, EAN {p.digits(12)}, flight LH{p.digits(4)}",
    lambda p: f"-rw-r--r-- 1 root root {p.digits(8)} Nov 29 03:{p.digits(2)} libfoo.so.1.{p.digits(2)}.{p.digits(1)}",
)


def planted_texts() -> list[Planted]:
    """Return the 40 planted texts."""
    return planted(_RECIPES, SEED)


def innocent_texts() -> list[str]:
    """Return the 100 innocent texts: five of each kind."""
    parts = Parts(SEED + 1)
    return [make(parts) for make in _INNOCENT for _ in range(5)]
