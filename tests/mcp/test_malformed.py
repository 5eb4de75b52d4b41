"""A thousand malformed requests, made from the schemas, and bytes that are not requests at all."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import anyio
import jsonschema
import pytest

from ace_mcp.errors import ErrorCode
from tests.mcp.clients import World, content_of, error_of
from tests.support.command_line import ACE

SECRET = "sk-live-0123456789abcdef0123456789abcdef"
CODES = {code.value.removeprefix("ACE_MCP_") for code in ErrorCode} - {"INTERNAL_ERROR"}
WRONG: list[Any] = [None, True, -1, 0, 3.5, 10**30, "", SECRET, "\ud800", "\0", [], {}, [SECRET], {"a": SECRET}, [[]]]
VALID: dict[str, dict[str, Any]] = {
    "ace.ask": {
        "session_id": "s",
        "question": "?",
        "context": "",
        "session_config": {"model": "openai/x", "temperature": 1.0, "max_tokens": 5},
        "metadata": {},
    },
    "ace.learn.sample": {
        "session_id": "s",
        "samples": [{"question": "?", "context": "", "ground_truth": "!", "metadata": {}}],
        "epochs": 1,
        "session_config": {"model": "openai/x"},
    },
    "ace.learn.feedback": {"session_id": "s", "question": "?", "answer": "!", "feedback": "no", "answer_id": "x"},
    "ace.learn.trace": {"session_id": "s", "trace": {}},
    "ace.skillbook.get": {
        "session_id": "s",
        "limit": 5,
        "query": "?",
        "section": "x",
        "include_invalid": False,
    },
    "ace.skillbook.save": {"session_id": "s", "path": "../x"},
    "ace.skillbook.load": {"session_id": "s", "path": "../x"},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a JSON value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in entries:
        yield from places(part, (*path, name))


def spoiled(valid: dict[str, Any], chance: random.Random) -> Any:
    """The arguments with one part replaced, removed or added."""
    found = copy.deepcopy(valid)
    path = chance.choice(list(places(found))[1:])
    parent: Any = found
    for name in path[:-1]:
        parent = parent[name]
    kind = chance.choice(["replace", "replace", "remove", "add", "long"])
    if kind == "replace":
        parent[path[-1]] = chance.choice(WRONG)
    elif kind == "remove":
        del parent[path[-1]]
    elif kind == "long":
        parent[path[-1]] = chance.choice(["x" * 100_001, [{"question": "?"}] * 26, {"question": "?" * 100_001}])
    elif isinstance(parent, dict):
        parent[chance.choice(["extra", "Session_id", SECRET, ""])] = chance.choice(WRONG)
    else:
        parent.append(chance.choice(WRONG))
    return found


@pytest.mark.parametrize("transport", ["memory", "stdio"])
def test_a_thousand_malformed_requests_are_refused_with_a_code(world: World, transport: str) -> None:
    async def converse() -> None:
        async with world.connect(transport) as client:
            schemas = {
                tool.name: jsonschema.Draft202012Validator(tool.input_schema)
                for tool in (await client.list_tools()).tools
            }
            chance = random.Random(20)
            sent = 0
            codes = set()
            while sent < 1000:
                name = chance.choice(list(VALID))
                given = spoiled(VALID[name], chance)
                if schemas[name].is_valid(given) or "\\ud800" in json.dumps(given):
                    continue
                sent += 1
                result = await client.call_tool(name, given)
                code, _, _ = error_of(result)
                codes.add(code)
                assert code in CODES, (name, given)
                assert SECRET not in result.model_dump_json(), (name, given)
            assert codes == {"VALIDATION_ERROR"}
            for name in ("", "ask", "ace.ask ", "ace.skillbook.delete"):
                assert error_of(await client.call_tool(name, {}))[0] == "VALIDATION_ERROR"
            asked = {"session_id": "s", "question": "What about tides?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "unknown"

    anyio.run(converse)
    assert "Traceback" not in (world.log.read_text(encoding="utf-8") if world.log.exists() else "")


def test_standard_output_contains_nothing_but_the_protocol(world: World) -> None:
    lines = [
        b"not json",
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"jsonrpc": "2.0", "id": 1}',
        b'{"jsonrpc": "1.0", "id": 2, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "none"}',
        b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": 5}}',
        b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": 6, "method": "ping"}',
    ]
    begin = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}).encode()
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    process = subprocess.Popen(
        [ACE, "mcp"],
        env=world.environment(log_level="DEBUG", skillbook="none://nowhere"),
        cwd=world.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process.stdin, process.stdout, process.stderr:
        for line in [hello, ready, *lines]:
            process.stdin.write(line + b"\n")
        process.stdin.flush()
        received: list[dict[str, Any]] = []
        while not any(answer.get("id") == 6 for answer in received):
            received.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait() == 0
        log = process.stderr.read().decode()
    received += [json.loads(line) for line in rest.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in received)
    assert [message["result"] for message in received if message.get("id") == 6] == [{}]
    assert "Traceback" not in log
