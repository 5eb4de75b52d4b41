"""A proxy in front: whose headers are trusted, and whose are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace.integrations import UsageError
from ace_server import tables
from ace_server.database import Database
from ace_server.proxy import proxy_secret
from ace_server.settings import ServerSettings
from tests.server.api import Api, running_api
from tests.server.conftest import StoppedClock
from tests.support.command_line import Run

SECRET = "s3cret-of-the-proxy"
HEADER = "X-Forwarded-User"
FROM_PROXY = {"X-Ace-Proxy-Secret": SECRET}
ANN = {**FROM_PROXY, HEADER: "ann@example.com"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "server.db")
    found.migrate()
    yield found
    found.close()


@pytest.fixture
def proxied(database: Database, tmp_path: Path) -> Iterator[Api]:
    settings: dict[str, Any] = {"behind_proxy": True, "proxy_user_header": HEADER}
    with running_api(database, tmp_path, with_pages=True, proxy_secret=SECRET, **settings) as found:
        yield found


def status_of(api: Api, headers: dict[str, str] | list[tuple[str, str]], path: str = "/releases") -> int:
    return api.client.get(path, headers=headers, follow_redirects=False).status_code


def test_a_user_of_the_proxy_sees_the_page_with_the_rights_of_the_settings(proxied: Api) -> None:
    response = proxied.client.get("/", headers=ANN)
    assert response.status_code == 200
    assert "ann@example.com" in response.text
    assert status_of(proxied, ANN) == 200
    assert [status_of(proxied, ANN, path) for path in ("/review", "/keys", "/audit")] == [403] * 3
    proxied.client.__exit__()  # stops the app, so that everything is written
    with proxied.service.database.reading() as connection:
        rejected = connection.execute(sa.select(tables.audit).where(tables.audit.c.what == "access.rejected")).all()
    assert {row.who for row in rejected} == {"proxy:ann@example.com"}


@pytest.mark.parametrize(
    "headers",
    [
        [(HEADER, "ann")],
        [(HEADER, "ann"), ("X-Ace-Proxy-Secret", "")],
        [(HEADER, "ann"), ("X-Ace-Proxy-Secret", "s3cret-of-the-prox")],
        [(HEADER, "ann"), ("X-Ace-Proxy-Secret", SECRET), ("X-Ace-Proxy-Secret", SECRET)],
        [("X-Ace-Proxy-Secret", SECRET)],
        [("X-Ace-Proxy-Secret", SECRET), (HEADER, " ")],
        [("X-Ace-Proxy-Secret", SECRET), (HEADER, "ann"), (HEADER, "bob")],
        [("X-Ace-Proxy-Secret", SECRET), ("X-Remote-User", "ann")],
        [("X-Ace-Proxy-Secret", SECRET), (HEADER, "x" * 201)],
    ],
)
def test_a_client_that_sends_the_header_itself_is_not_let_in(proxied: Api, headers: list[tuple[str, str]]) -> None:
    assert status_of(proxied, headers) == 303


@pytest.mark.parametrize(
    ("settings", "secret"),
    [
        ({"behind_proxy": True, "proxy_user_header": HEADER}, None),
        ({"behind_proxy": False, "proxy_user_header": HEADER}, SECRET),
        ({"behind_proxy": True}, SECRET),
    ],
)
def test_without_the_option_or_the_secret_no_user_is_trusted(
    database: Database, tmp_path: Path, settings: dict[str, Any], secret: str | None
) -> None:
    with running_api(database, tmp_path, with_pages=True, proxy_secret=secret, **settings) as api:
        assert status_of(api, ANN) == 303


def test_the_api_is_not_open_to_users_of_the_proxy(proxied: Api) -> None:
    assert status_of(proxied, ANN, "/v1/books") == 401
    assert status_of(proxied, ANN, "/metrics") == 401


def test_a_form_of_one_user_cannot_be_sent_by_another(database: Database, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "behind_proxy": True,
        "proxy_user_header": HEADER,
        "proxy_user_scopes": ("read", "review"),
    }
    with running_api(database, tmp_path, with_pages=True, proxy_secret=SECRET, **settings) as api:
        first, second = api.publish("rain"), api.publish("wind")
        page = api.client.get(f"/releases/{first}/publish", headers=ANN).text
        form = page.partition(f'action="/releases/{first}/publish"')[2]
        token = form.partition('name="csrf" value="')[2].partition('"')[0]
        assert token, page

        def publish(headers: dict[str, str]) -> int:
            path = f"/releases/{first}/publish"
            return api.client.post(path, data={"csrf": token}, headers=headers, follow_redirects=False).status_code

        assert publish({**ANN, HEADER: "eve"}) == 403
        assert publish({**ANN, "Origin": "https://elsewhere.example"}) == 403
        assert publish(ANN) == 303
        published = {row.id: (row.state, row.by) for row in api.rows(tables.release)}
    assert published[first][0] == "published"
    assert published[second][0] == "retired"


def test_a_client_cannot_choose_the_address_that_its_wrong_logins_are_counted_for(
    database: Database, tmp_path: Path, limiter_clock: StoppedClock
) -> None:
    with running_api(database, tmp_path, behind_proxy=True) as api:

        def log_in(number: int) -> int:
            forwarded = f"10.0.{number // 250}.{number % 250}, 203.0.113.9"  # the proxy appends the last one
            headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": forwarded}
            return status_of(api, headers, "/v1/books")

        assert [log_in(number) for number in range(70)] == [401] * 60 + [429] * 10
        other = {"Authorization": "Bearer wrong", "X-Forwarded-For": "203.0.113.10"}
        assert status_of(api, other, "/v1/books") == 401
        api.client.__exit__()  # stops the app, so that everything is written
        with database.reading() as connection:
            origins = connection.scalars(
                sa.select(tables.audit.c.origin).where(tables.audit.c.what == "login.rejected")
            )
            assert set(origins) == {"203.0.113.9", "203.0.113.10"}


def test_forwarded_addresses_and_schemes_need_the_secret_if_there_is_one(proxied: Api) -> None:
    def cookie(headers: dict[str, str]) -> str:
        from ace_server.keys import add_login_token

        with proxied.service.database.writing() as connection:
            token = add_login_token(connection)
        proxied.client.cookies.clear()
        return proxied.client.get("/login", params={"token": token}, headers=headers).headers["set-cookie"]

    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "[2001:db8::1]:443"}
    assert "secure" in cookie({**FROM_PROXY, **forwarded}).lower()
    assert "secure" not in cookie(forwarded).lower()
    proxied.client.cookies.clear()
    with proxied.service.database.reading() as connection:
        origins = list(connection.scalars(sa.select(tables.audit.c.origin).where(tables.audit.c.what == "login")))
    assert origins == ["2001:db8::1", "testclient"]


@pytest.mark.parametrize(
    ("settings", "environ", "said"),
    [
        ({"behind_proxy": True, "proxy_user_header": HEADER}, {}, "requires a secret in ACE_SERVER_PROXY_SECRET"),
        ({"proxy_user_header": HEADER}, {"ACE_SERVER_PROXY_SECRET": SECRET}, "requires --behind-proxy"),
        ({"behind_proxy": True}, {"ACE_SERVER_PROXY_SECRET": "short"}, "at least 16 characters"),
        ({"behind_proxy": True, "host": "10.0.0.5"}, {}, "--host 10.0.0.5 requires a secret in ACE_SERVER_PROXY_SEC"),
        ({"behind_proxy": True, "host": "0.0.0.0"}, {}, "any client could name an address of its own"),
        ({"proxy_user_scopes": ("fly",)}, {}, "no such scope: 'fly'"),
    ],
)
def test_settings_that_would_let_anyone_in_are_refused(
    settings: dict[str, Any], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        proxy_secret(ServerSettings(**settings), environ)


def test_the_service_does_not_start_with_a_header_and_without_a_secret(here: Run, tmp_path: Path) -> None:
    environ = {"ACE_SERVER_PROXY_USER_HEADER": HEADER, "OPENAI_API_KEY": "none"}
    done = here("server", "run", "--behind-proxy", "--model", "openai/none", "--port", "0", environ=environ)
    assert (done.code, "ACE_SERVER_PROXY_SECRET" in done.err) == (2, True), done.err
    assert not (tmp_path / "ace-server").exists()


@pytest.mark.parametrize("line", [f'proxy_user_header = "{HEADER}"', 'proxy_user_scopes = ["admin"]'])
def test_the_file_of_a_project_cannot_open_the_page(here: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "ace.toml").write_text(f"[server]\n{line}\n", encoding="utf-8")
    done = here("server", "status")
    assert (done.code, "not in the file of a project" in done.err) == (2, True), done.err


def test_on_loopback_a_proxy_needs_no_secret() -> None:
    assert proxy_secret(ServerSettings(behind_proxy=True), {}) is None
    elsewhere = ServerSettings(behind_proxy=True, host="10.0.0.5")
    assert proxy_secret(elsewhere, {"ACE_SERVER_PROXY_SECRET": SECRET}) == SECRET
