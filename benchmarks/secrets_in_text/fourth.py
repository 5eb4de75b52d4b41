# ruff: noqa: E501  # a text of a trace is one line
"""The set that was written after the third: 40 planted texts and 100 innocent ones.

Of them, 30 and none were found. Then the finder learned most classes of the missed texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.secrets_in_text.texts import Parts, Planted, Recipe, planted

SEED: Final = 20261202

_RECIPES: Final[tuple[Recipe, ...]] = (
    # Keys of services
    ("Slack", "bot = App(token=os.getenv('T', '@@'))", lambda p: f"xoxb-{p.digits(11)}-{p.digits(13)}-{p.mixed(24)}"),
    ("Stripe", "Stripe key (@@) is of test mode", lambda p: "sk_test_51" + p.mixed(97)),
    ("Brevo", "api-key: @@", lambda p: f"xkeysib-{p.hex(64)}-{p.mixed(16)}"),
    ("Cloudflare", "curl -H 'X-Auth-Key: @@' https://api.cloudflare.com/client/v4/zones", lambda p: p.hex(37)),
    ("RapidAPI", '"X-RapidAPI-Key": "@@"', lambda p: f"{p.hex(10)}msh{p.hex(15)}p1{p.hex(5)}jsn{p.hex(12)}"),
    ("OpenWeather", "GET /data/2.5/weather?q=Bonn&appid=@@", lambda p: p.hex(32)),
    ("Airtable, old", "base appX key @@", lambda p: "key" + p.mixed(14)),
    ("Mapbox", "mapboxgl.accessToken = '@@'", lambda p: f"sk.eyJ1Ijoi{p.mixed(60)}.{p.mixed(22)}"),
    ("Twitch", "PASS oauth:@@", lambda p: p.small(30)),
    ("HubSpot", "hubspot client with @@", lambda p: f"pat-eu1-{p.uuid()}"),
    ("JFrog", "jf c add --access-token @@", lambda p: "AKCp8" + p.mixed(68)),
    ("Sonar", "sonar-scanner -Dsonar.login=@@", lambda p: "sqp_" + p.hex(40)),
    ("Deepgram", "Authorization: Token @@", lambda p: p.hex(40)),
    ("Zapier", "POST https://hooks.zapier.com/hooks/catch/@@/", lambda p: f"{p.digits(7)}/{p.small(7)}"),
    ("Vercel", "vercel --token=@@ --prod", lambda p: p.mixed(24)),
    # Places
    ("dotenv", "# .env\nJWT_SECRET=@@\nPORT=3000", lambda p: p.base64(32)),
    ("YAML list", "users:\n  - name: jane\n    passwd: '@@'", lambda p: f"Yaml{p.digits(3)}-list"),
    ("TOML", '[auth]\nclient-secret = "@@"', lambda p: p.mixed(32)),
    ("HTTP body", '{"grant_type": "refresh_token", "refresh_token": "@@"}', lambda p: p.mixed(48)),
    ("token response", '{"access_token": "@@", "token_type": "Bearer", "expires_in": 3600}', lambda p: p.url_safe(32)),
    ("fragment", "http://localhost/#access_token=@@&state=1", lambda p: p.mixed(40)),
    ("XML attribute", '<add key="ApiKey" value="@@" />', lambda p: p.mixed(32)),
    ("SSH", "ssh deploy@10.0.0.5\ndeploy@10.0.0.5's password: @@", lambda p: f"deploy{p.digits(4)}Now"),
    ("rsync", "RSYNC_PASSWORD=@@ rsync -a src/ backup::data", lambda p: f"sync{p.digits(5)}"),
    ("zip", "7z x -p@@ archive.7z", lambda p: f"zip{p.digits(4)}Lock"),
    (
        "Kafka",
        'sasl.jaas.config=PlainLoginModule required username="app" password="@@";',
        lambda p: f"kafka{p.digits(4)}Log",
    ),
    ("traceback", "sqlalchemy.exc.OperationalError: (postgresql://app:@@@db/x) timed out", lambda p: p.mixed(16)),
    ("clone", "git clone https://oauth2:@@@gitlab.acme.com/a/b.git", lambda p: p.mixed(20)),
    ("step of a browser", "input_text(index=4, text='@@') # the password field", lambda p: f"Step{p.digits(3)}!Two"),
    ("notes", "Remember: WiFi guest-net, password is @@, valid until Friday.", lambda p: f"guest{p.digits(4)}pass"),
    ("Spanish", "La contrase\u00f1a es @@.", lambda p: f"Verano{p.digits(4)}!Sol"),
    ("chat", "user: here you go: login jane.d / pass @@", lambda p: f"Chat{p.digits(3)}!Room"),
    ("crontab", "0 3 * * * BACKUP_PASSPHRASE=@@ borg create ::x /etc", lambda p: f"night-owl-{p.digits(4)}-sings"),
    ("query", "SELECT * FROM t -- dsn: Driver=ODBC;UID=sa;PWD=@@;", lambda p: f"Odbc{p.digits(4)}Link"),
    # Personal data
    ("e-mail", "From: Olu <@@>", lambda p: f"olu.{p.small(6)}@acme.com"),
    ("e-mail of a commit", "Author: Jane Doe <@@>", lambda p: f"{p.small(6)}@uni-bonn.de"),
    ("telephone", "reach me on @@", lambda p: f"+1-415-555-{p.digits(4)}"),
    ("card", "Visa @@", lambda p: "4012888888881881"),
    ("IBAN", "IBAN: @@", lambda p: "ES91 2100 0418 4502 0005 1332"),
    ("social security number", "ssn=@@&dob=", lambda p: f"321-54-{p.of('123456789', 4)}"),
)

_INNOCENT: Final[tuple[Callable[[Parts], str], ...]] = (
    lambda p: f"git show {p.hex(12)} --stat | head; tree {p.hex(40)}; author date 17{p.digits(8)} +0100",
    lambda p: f'resolved "https://yarn.acme.example/ms/-/ms-2.1.3.tgz#{p.hex(40)}"',
    lambda p: f"go: downloading golang.org/x/net v0.0.0-2026{p.digits(10)}-{p.hex(12)}",
    lambda p: f"image: ghcr.io/acme/app:sha-{p.hex(7)}@sha256:{p.hex(64)}",
    lambda p: f'{{"type":"tool_result","tool_use_id":"toolu_01{p.mixed(22)}","is_error":false}}',
    lambda p: f"openai-organization: acme-{p.small(5)}; x-request-id: req_{p.hex(32)}; cf-ray: {p.hex(16)}-FRA",
    lambda p: f"conversation_id={p.uuid()} turn={p.digits(1)} model=gpt-5-mini-2026-03-{p.digits(2)}",
    lambda p: f"PK\u0003\u0004 {p.base64(30)} JVBERi0xLjQKJ{p.base64(90)}",
    lambda p: (
        f's.push("a"),r["{p.mixed(5)}"]=function(){{return t.e({p.digits(3)}).then(t.bind(null,{p.digits(4)}))}};//# sourceMappingURL=app.{p.hex(8)}.js.map'
    ),
    lambda p: f"C:\\Users\\jane\\AppData\\Local\\Temp\\tmp{p.small(8)}\\build_{p.digits(4)}\\obj\\Debug\\net8.0",
    lambda p: f"/nix/store/{p.small(32)}-python3-3.12.{p.digits(1)}/bin/python3",
    lambda p: f"https://github.com/acme/app/blob/{p.hex(40)}/src/auth/token_store.py#L{p.digits(2)}",
    lambda p: f"https://news.acme.com/a/lamp-sale-{p.digits(6)}?fbclid=none&utm_campaign=nov{p.digits(2)}&ref=rss",
    lambda p: (
        f"token 'class{p.digits(1)}' at line {p.digits(2)}; secrets: inherit; passwords: 3 checked, keys={p.digits(2)}"
    ),
    lambda p: (
        f"assert response.json()['token'] is not None and len(token) == {p.digits(2)} and key in ('id{p.digits(1)}', 'name')"
    ),
    lambda p: f"Enter the password sent to your phone (attempt {p.digits(1)} of 5), or press key F{p.digits(1)}.",
    lambda p: f"vocab_size={p.digits(6)} bos_token='<|begin_of_text|>' eos_token_id=1{p.digits(5)} pad_token=None",
    lambda p: f"volume pvc-{p.uuid()} bound to claim data-db-{p.digits(1)}; secretName: tls-{p.small(5)}-{p.digits(1)}",
    lambda p: (
        f"{p.digits(2)}.{p.digits(3)} s, {p.digits(4)}/{p.digits(5)} items, 0x{p.hex(8)}, 1e-{p.digits(2)}, {p.digits(3)},{p.digits(3)} EUR"
    ),
    lambda p: (
        f"Order 302-{p.digits(7)}-{p.digits(7)} of 30.11.2026, customer 10{p.digits(6)}, parcel JJD{p.digits(18)}"
    ),
)


def planted_texts() -> list[Planted]:
    """Return the 40 planted texts."""
    return planted(_RECIPES, SEED)


def innocent_texts() -> list[str]:
    """Return the 100 innocent texts: five of each kind."""
    parts = Parts(SEED + 1)
    return [make(parts) for make in _INNOCENT for _ in range(5)]
