"""The server on HTTP: the token, and requests from foreign pages."""

from __future__ import annotations

import anyio
import httpx2
import pytest

from tests.mcp.clients import World, content_of, http_client
from tests.support.command_line import Run

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}


def test_a_page_of_another_site_cannot_use_the_server(world: World) -> None:
    with world.serving() as running, httpx2.Client(timeout=60) as http:
        for headers, status in (
            ({}, 200),
            ({"origin": "http://127.0.0.1:5000"}, 200),
            ({"host": "evil.example:80"}, 421),
            ({"origin": "http://evil.example"}, 403),
        ):
            begin = {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "raw", "version": "1"},
                },
            }
            answer = http.post(running.url, json=begin, headers={**ACCEPT, **headers})
            assert answer.status_code == status, (headers, answer.text)


def test_with_a_token_every_request_must_carry_it(world: World) -> None:
    async def converse(url: str) -> None:
        async with http_client(url, {"authorization": "Bearer open-sesame"}) as client:
            asked = {"session_id": "s", "question": "What about tides?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "unknown"

    with world.serving(http_token="open-sesame") as running, httpx2.Client(timeout=60) as http:
        for wrong in (None, "Bearer", "Bearer open-sesam", "Basic open-sesame", "open-sesame", "Bearer \xff"):
            given = {**ACCEPT, **({} if wrong is None else {"authorization": wrong})}
            headers = {name.encode(): value.encode("latin-1") for name, value in given.items()}
            answer = http.post(running.url, json=PING, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), wrong
        anyio.run(converse, running.url)
    assert "open-sesame" not in world.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "example.org:80"])
def test_other_machines_are_not_served_without_a_token(here: Run, address: str) -> None:
    done = here("mcp", "--http", address)
    assert (done.code, done.out) == (2, "")
    assert "ACE_MCP_HTTP_TOKEN" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http", "8321"], "--http: '8321' is not an address"),
        (["--http", "127.0.0.1:99999"], "is not an address"),
        (["--max-sessions", "0"], "--max-sessions: Input should be greater than or equal to 1"),
        (["--log-level", "LOUD"], "--log-level: Input should be"),
    ],
)
def test_a_wrong_option_is_said_to_be_wrong(here: Run, arguments: list[str], said: str) -> None:
    done = here("mcp", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_wrong_variable_is_named_without_its_value(here: Run) -> None:
    done = here("mcp", environ={"ACE_MCP_MAX_COST": "sk-0123456789abcdef"})
    assert (done.code, done.out) == (2, "")
    assert "the variable ACE_MCP_MAX_COST: " in done.err
    assert "0123456789" not in done.err
