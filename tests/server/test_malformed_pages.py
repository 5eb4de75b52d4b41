"""Addresses and forms of the pages with whatever a browser can send: an error says so, and it is never status 500."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus, urlencode

import pytest

from ace_server import tables
from ace_server.database import Database
from ace_server.reviews import add_review
from tests.server.api import Api, running_api

VALUES = (
    b"\0",
    b"a\0b",
    b"\xff\xfe",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"9" * 30,
    b"9" * 5_000,
    b"-1",
    b"1e400",
    b"nan",
    b"x" * 3_000,
    b"../../../etc/passwd",
    b"' OR 1=1 --",
    b"{{ 7 * 7 }}",
    b"\r\nSet-Cookie: a=b",
)
PATHS = (
    "/books/{}",
    "/books/{}/skills.json",
    "/books/default/skills.{}",
    "/books/default/skills/{}",
    "/books/{}/versions",
    "/books/default/versions/{}",
    "/books/default/versions/{}/restore",
    "/books/{}/versions/1/restore",
    "/books/{}/compare",
    "/books/{}/runs",
    "/runs/{}",
    "/review/{}",
    "/releases/{}/publish",
    "/keys/{}/revoke",
    "/static/{}",
    "/{}",
)
QUERIES = (
    "/books/default?q={0}&section={0}&status={0}&sort={0}&page={0}&version={0}&proof={0}",
    "/books/default/skills.json?section={0}&version={0}",
    "/books/default/versions?before={0}&after={0}&page={0}",
    "/books/default/compare?from={0}&to={0}&old={0}&new={0}",
    "/books/default/run?run={0}&name={0}&id={0}",
    "/books/default/trace?trace={0}&id={0}",
    "/runs?book={0}&state={0}&before={0}&format={0}",
    "/review?book={0}&kind={0}&state={0}&before={0}",
    "/releases?book={0}&format={0}",
    "/audit?what={0}&who={0}&before={0}",
    "/audit?before={0}&format=csv",
    "/experiments?book={0}&format={0}",
    "/keys?format={0}",
    "/login?token={0}",
)


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with running_api(database, tmp_path, with_pages=True) as found:
        found.publish("rain")
        page = found.client.get("/login").text
        found.client.post("/login", data={"key": found.key, "csrf": form_token(page, "/login")})
        yield found


def form_token(page: str, action: str) -> str:
    start = max(0, page.find(f'action="{action}"'))
    found = re.search(r'name="csrf" value="([^"]+)"', page[start:])
    return "" if found is None else found[1]


def test_no_address_is_answered_with_a_server_error(api: Api) -> None:
    for value in VALUES:
        for address in (query.format(quote_plus(value)) for query in (*PATHS, *QUERIES)):
            status = api.client.get(address, follow_redirects=False).status_code
            assert status < 500, address[:200]


def test_no_form_is_answered_with_a_server_error(api: Api) -> None:
    first, second = (api.publish(lesson) for lesson in ("snow", "wind"))
    valid = {"read": "1", "name": "Ann", "decision": "edit", "first": first, "second": second}

    def send(page: str, action: str, field: str, value: bytes) -> int:
        token = form_token(api.client.get(page).text, action)
        assert token, page
        body = urlencode({"csrf": token, **valid, field: value})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status = api.client.post(action, content=body, headers=headers, follow_redirects=False).status_code
        assert status < 500, (action, field, value[:20])
        return status

    for value in VALUES:
        for field in ("name", "book", "rate", "budget", "days"):
            send("/keys", "/keys", field, value)
        for field in ("decision", "content", "note"):
            with api.service.database.writing() as connection:
                review = add_review(connection, "default", "feedback", reason="test")
            send(f"/review/{review}", f"/review/{review}", field, value)
        for field in ("first", "second", "share"):
            send("/experiments", "/experiments", field, value)
    assert send("/experiments", "/experiments", "share", b"50") == 303
    [experiment] = api.rows(tables.experiment)
    stop = f"/experiments/{experiment.id}/stop"
    assert send("/experiments", stop, "winner", b"9" * 5_000) == 303
    assert api.client.get("/keys").status_code == 200  # nothing was stored that it cannot show
