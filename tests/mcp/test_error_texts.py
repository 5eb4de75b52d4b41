"""What errors say: nothing that a client must not see, and no more than a reader can use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from tests.mcp.clients import World, content_of, error_of
from tests.support.learning_script import learning_script
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

KEY = "sk-proj-Zx81kQp0Lm27Vt93Rb55Nc64"


def failed(world: World, name: str, given: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    async def converse() -> tuple[str, str, dict[str, Any]]:
        async with world.connect() as client:
            return error_of(await client.call_tool(name, {"session_id": "s", **given}))

    return anyio.run(converse)


def test_a_query_finds_active_skills_only_so_it_excludes_include_invalid(world: World) -> None:
    world.taught("tides")
    code, message, _ = failed(world, "ace.skillbook.get", {"query": "tides", "include_invalid": True})
    assert code == "VALIDATION_ERROR"
    assert "omit query or include_invalid" in message


def test_at_most_twenty_problems_are_listed(world: World) -> None:
    samples = [{"question": "?", "colour": "red"} for _ in range(25)]
    code, message, details = failed(world, "ace.learn.sample", {"samples": samples})
    assert (code, len(details["problems"])) == ("VALIDATION_ERROR", 20)
    assert "samples.0.colour" in message


def test_names_of_unknown_fields_are_cut_and_their_keys_redacted(world: World) -> None:
    for name in ("x" * 500, KEY):
        code, message, details = failed(world, "ace.ask", {"question": "?", name: 1})
        assert code == "VALIDATION_ERROR"
        assert name not in message
        assert name not in str(details)
        assert len(details["problems"][0]["field"]) <= 100


def test_a_key_in_an_argument_is_redacted_in_the_error(world: World, tmp_path: Path) -> None:
    for path in (f"{KEY}.json", f"{KEY}/none.json"):
        code, message, details = failed(world, "ace.skillbook.load", {"path": path})
        assert (code, "path" in message) == ("VALIDATION_ERROR", True)
        assert KEY not in message + str(details)


def test_a_sample_that_fails_is_named_without_keys_and_at_length_only_so_far(tmp_path: Path) -> None:
    """The other sample is learned from, so the failure is reported with the results."""
    teach = learning_script()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if "FAIL" in request.text:
            return HttpError(400, f"no quota for {KEY}: {'long ' * 400}")
        return teach(request)

    with ScriptedServer(script) as model:
        world = World(tmp_path, model)

        async def converse() -> None:
            async with world.connect() as client:
                samples = [{"question": "What? LESSON tides"}, {"question": "FAIL"}]
                result = await client.call_tool("ace.learn.sample", {"session_id": "s", "samples": samples})
                assert KEY not in str(result)
                content = content_of(result)
                assert (content["processed"], content["failed"]) == (1, 1)
                [failure] = content["failures"]
                assert failure["index"] == 1
                assert "no quota for" in failure["what"]
                assert len(failure["what"]) <= 500

        anyio.run(converse)
