"""The tools, resources and the prompt, called by the client of the SDK over every transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import TextContent, TextResourceContents

from ace import Skillbook
from tests.mcp.clients import TRANSPORTS, World, content_of, error_of


def sample(word: str, **more: Any) -> dict[str, Any]:
    return {"question": f"What about {word}? LESSON {word}", **more}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_was_taught_is_used_by_the_next_answer(world: World, transport: str) -> None:
    async def converse() -> None:
        async with world.connect(transport) as client:
            asked = {"session_id": "s", "question": "What about tides?"}
            first = content_of(await client.call_tool("ace.ask", asked))
            assert first.pop("answer_id")
            assert first == {"session_id": "s", "answer": "unknown", "skill_ids": [], "skill_count": 0}
            feedback = {**asked, "answer": "unknown", "feedback": "Wrong: LESSON tides"}
            learned = content_of(await client.call_tool("ace.learn.feedback", feedback))
            [skill] = learned["skills"]
            assert learned == {
                "session_id": "s",
                "learned": True,
                "failures": [],
                "skill_count_before": 0,
                "skill_count_after": 1,
                "new_skill_count": 1,
                "pending_count": 0,
                "skills": [{"id": skill["id"], "content": "Remember LESSON tides."}],
            }
            second = await client.call_tool("ace.ask", asked)
            content = content_of(second)
            assert (content["answer"], content["skill_ids"]) == ("LESSON tides", [skill["id"]])
            [text] = second.content
            assert isinstance(text, TextContent)
            assert text.text == (f"LESSON tides\n\nSkills used: {skill['id']}\n\nanswer_id: {content['answer_id']}")

    anyio.run(converse)
    assert world.lessons() == ["Remember LESSON tides."]


@pytest.mark.parametrize("transport", ["memory", "http"])
def test_samples_and_traces_teach_and_the_skillbook_shows_what(world: World, transport: str) -> None:
    async def converse() -> None:
        async with world.connect(transport) as client:
            reported: list[tuple[float, float | None]] = []

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                reported.append((progress, total))

            judged = [sample(word, ground_truth=f"LESSON {word}") for word in ("tides", "kelp")]
            samples = [*judged, sample("REFUSED")]
            learned = content_of(
                await client.call_tool(
                    "ace.learn.sample", {"session_id": "s", "samples": samples}, progress_callback=on_progress
                )
            )
            assert (learned["processed"], learned["failed"], learned["new_skill_count"]) == (2, 1, 2)
            assert [failure["index"] for failure in learned["failures"]] == [2]
            assert "refused" in learned["failures"][0]["what"]
            assert [skill["content"].partition(" Example")[0] for skill in learned["skills"]] == [
                "Remember LESSON tides.",
                "Remember LESSON kelp.",
            ]
            assert reported == [(1, 3), (2, 3), (3, 3)]
            judged = [{"question": "?", "answer": f"LESSON {word}", "reward": 0.0} for word in ("foam", "surf")]
            for trace in (*judged, {"question": "?"}):
                given = {"session_id": "t", "trace": trace}
                assert content_of(await client.call_tool("ace.learn.trace", given))["learned"] == (
                    trace != {"question": "?"}
                )
            book = content_of(await client.call_tool("ace.skillbook.get", {"session_id": "other"}))
            assert book["stats"] == {"skills": 4, "sections": 1, "helpful": 2, "harmful": 0, "neutral": 0}
            assert book["skills"][0]["sources"][0]["question"] == "What about tides? LESSON tides"
            found = {"session_id": "s", "query": "surf and kelp"}
            best = content_of(await client.call_tool("ace.skillbook.get", found))["skills"]
            assert sorted(skill["content"].partition(" Example")[0] for skill in best) == [
                "Remember LESSON kelp.",
                "Remember LESSON surf.",
            ]
            one = content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s", "limit": 1}))
            assert len(one["skills"]) == 1
            none = content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s", "section": "other"}))
            assert none["skills"] == []

    anyio.run(converse)


def test_the_sessions_in_one_trace_are_runs_of_their_own(world: World) -> None:
    rows = [
        {"session_id": word, "role": role, "content": text}
        for word in ("tides", "kelp", "UNUSABLE")
        for role, text in (("user", f"What about {word}?"), ("assistant", f"LESSON {word}"))
    ]

    async def converse() -> None:
        async with world.connect("memory") as client:
            given = {"session_id": "s", "trace": rows}
            learned = content_of(await client.call_tool("ace.learn.trace", given))
            assert (learned["pending_count"], [failure["index"] for failure in learned["failures"]]) == (2, [2])
            result = await client.call_tool("ace.learn.trace", {"session_id": "s", "trace": rows[4:]})
            assert "nothing was learned" in error_of(result)[1]

    anyio.run(converse)


@pytest.mark.parametrize("trace", ["A text. LESSON foam", [{"role": "user", "content": "Hm. LESSON foam"}]])
def test_a_lesson_that_no_one_judged_is_listed_as_pending_and_not_used(world: World, trace: object) -> None:
    async def converse() -> None:
        async with world.connect("memory") as client:
            learned = await client.call_tool("ace.learn.trace", {"session_id": "s", "trace": trace})
            content = content_of(learned)
            assert (content["learned"], content["new_skill_count"], content["pending_count"]) == (True, 0, 1)
            assert "LESSON foam" not in str(learned), "the model of the client reads the result"
            asked = {"session_id": "s", "question": "What about foam?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "unknown"
            listed = await client.call_tool("ace.skillbook.get", {"session_id": "s", "include_invalid": True})
            [skill] = content_of(listed)["skills"]
            reason = "no one judged the answer that it was learned from"
            assert (skill["status"], skill["reason"], skill["evidence"]) == ("pending", reason, [])
            assert f"Remember LESSON foam. (pending: {reason})" in str(listed.content)
            assert content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s"}))["skills"] == []

    anyio.run(converse)


def test_the_log_of_a_tool_is_read_as_ace_learn_reads_it(world: World) -> None:
    log = Path(__file__).with_name("codex_rollout.jsonl")
    session = [json.loads(line) for line in log.read_text("utf-8").splitlines()]

    async def converse() -> None:
        async with world.connect("memory") as client:
            given = {"session_id": "s", "trace": session}
            learned = content_of(await client.call_tool("ace.learn.trace", given))
            assert (learned["learned"], learned["failures"]) == (False, [])

    anyio.run(converse)
    [request] = world.model.by_role("reflector")
    assert "How many days may a customer return" in request.text


@pytest.mark.parametrize("transport", ["memory", "stdio-legacy"])
def test_resources_and_the_prompt_show_skills_without_a_model(world: World, transport: str) -> None:
    tides, _ = world.taught("tides", "kelp")

    async def converse() -> None:
        async with world.connect(transport) as client:
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == [
                "ace://skillbook/{session_id}",
                "ace://skill/{session_id}/{id}",
            ]
            [listed] = (await client.list_resources()).resources
            assert str(listed.uri) == "ace://skillbook/default"
            [of_default] = (await client.read_resource(listed.uri)).contents
            [page] = (await client.read_resource("ace://skillbook/s")).contents
            assert of_default.model_dump(exclude={"uri"}) == page.model_dump(exclude={"uri"})
            assert isinstance(page, TextResourceContents)
            assert page.mime_type == "text/markdown"
            assert "Remember LESSON tides." in page.text
            [skill] = (await client.read_resource(f"ace://skill/s/{tides}")).contents
            assert isinstance(skill, TextResourceContents)
            assert skill.text.startswith(f"# {tides}\n\nRemember LESSON tides.\n\nSection lessons, active;")
            assert "## History\n\n- version 1, " in skill.text
            [prompt] = (await client.list_prompts()).prompts
            assert (prompt.name, [argument.name for argument in prompt.arguments or []]) == (
                "use_skills",
                ["question", "session_id"],
            )
            [message] = (await client.get_prompt("use_skills", {"question": "When is the tides?"})).messages
            assert isinstance(message.content, TextContent)
            assert f"[{tides}] Remember LESSON tides." in message.content.text
            assert "kelp" not in message.content.text
            assert message.content.text.endswith("\n\nWhen is the tides?")

    anyio.run(converse)
    assert world.model.requests == []


@pytest.mark.parametrize("transport", ["memory", "http-legacy"])
def test_a_wrong_resource_or_prompt_is_an_error_with_a_code(world: World, transport: str) -> None:
    async def converse() -> None:
        async with world.connect(transport) as client:
            for uri in (
                "ace://skillbook/",
                "ace://skill/s/none-1",
                "ace://other/s",
                "ace://skillbook/s/t",
                "http://x/y",
            ):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(uri)
                assert refused.value.data["code"] == "ACE_MCP_VALIDATION_ERROR", uri
            for name, arguments in (("other", {}), ("use_skills", {}), ("use_skills", {"question": "?", "more": "?"})):
                with pytest.raises(MCPError) as refused:
                    await client.get_prompt(name, arguments)
                assert refused.value.data["code"] == "ACE_MCP_VALIDATION_ERROR", name

    anyio.run(converse)


@pytest.mark.parametrize("transport", ["memory", "stdio"])
def test_the_tools_are_described_and_refuse_unknown_arguments(world: World, transport: str) -> None:
    async def converse() -> None:
        async with world.connect(transport, max_samples_per_call=40) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == [
                "ace.ask",
                "ace.learn.sample",
                "ace.learn.feedback",
                "ace.learn.trace",
                "ace.skillbook.get",
                "ace.skillbook.save",
                "ace.skillbook.load",
            ]
            hints = {
                name.removeprefix("ace."): (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
                for name, tool in tools.items()
                if tool.annotations is not None
            }
            assert hints == {
                "ask": (True, False),
                "learn.sample": (False, False),
                "learn.feedback": (False, False),
                "learn.trace": (False, False),
                "skillbook.get": (True, False),
                "skillbook.save": (False, True),
                "skillbook.load": (False, False),
            }
            for tool in tools.values():
                assert tool.input_schema["additionalProperties"] is False
                assert tool.output_schema is not None
                assert tool.description and tool.title
            assert tools["ace.learn.sample"].input_schema["properties"]["samples"]["maxItems"] == 40
            given = {"session_id": "s", "question": "?", "secret": "sk-0123456789abcdef"}
            code, message, details = error_of(await client.call_tool("ace.ask", given))
            assert code == "VALIDATION_ERROR"
            assert message.startswith("ace.ask: secret: Extra inputs are not permitted; ")
            assert details == {"problems": [{"field": "secret", "problem": "Extra inputs are not permitted"}]}
            assert "0123456789" not in str(await client.call_tool("ace.ask", given))

    anyio.run(converse)


def test_a_limit_that_is_raised_is_raised_and_one_that_is_not_holds(world: World) -> None:
    async def converse(most: int, count: int) -> list[str]:
        async with world.connect(max_samples_per_call=most, max_prompt_chars=30) as client:
            samples = [{"question": "What about tides?"} for _ in range(count)]
            result = await client.call_tool("ace.learn.sample", {"session_id": "s", "samples": samples})
            codes = [error_of(result)[0] if result.is_error else "ok"]
            for name, given in (
                ("ace.ask", {"question": "x" * 31}),
                ("ace.ask", {"question": "?", "context": "x" * 31}),
                ("ace.learn.trace", {"trace": ["x" * 31]}),
            ):
                codes.append(error_of(await client.call_tool(name, {"session_id": "s", **given}))[0])
            return codes

    assert anyio.run(converse, 30, 30) == ["ok", *["VALIDATION_ERROR"] * 3]
    assert anyio.run(converse, 25, 26) == ["VALIDATION_ERROR"] * 4


def test_feedback_counts_skills_as_used_only_for_the_answer_that_it_is_about(world: World) -> None:
    [skill] = world.taught("tides")

    def helpful() -> int:
        with Skillbook.open(world.data / "skills.db") as book:
            found = book.get_skill(skill)
            assert found is not None
            return found.helpful

    async def converse() -> None:
        async with world.connect() as client:

            async def learn(question: str, answer: str, **more: Any) -> Any:
                given = {"session_id": "s", "question": question, "answer": answer, "feedback": "LESSON tides", **more}
                return await client.call_tool("ace.learn.feedback", given)

            asked = {"session_id": "s", "question": "What about tides?"}
            answer = content_of(await client.call_tool("ace.ask", asked))
            cited = f"[{skill}]"
            content_of(await learn("What about tides?", "LESSON tides"))
            assert cited in world.model.by_role("reflector")[-1].text.partition("says so")[0]
            assert "says so" in world.model.by_role("reflector")[-1].text
            content_of(await learn("What about kelp?", "LESSON tides"))
            assert "says so" not in world.model.by_role("reflector")[-1].text
            await client.call_tool("ace.ask", {"session_id": "s", "question": "What about kelp?"})
            content_of(await learn("What about tides?", "LESSON tides"))  # it is not the last one any more
            assert "says so" not in world.model.by_role("reflector")[-1].text
            content_of(await learn("What about tides?", "LESSON  tides\n", answer_id=answer["answer_id"]))
            assert "says so" in world.model.by_role("reflector")[-1].text
            for question, given, answer_id in (
                ("What about kelp?", "LESSON tides", answer["answer_id"]),
                ("What about tides?", "unknown", answer["answer_id"]),
                ("What about tides?", "LESSON tides", "none"),
            ):
                code, message, _ = error_of(await learn(question, given, answer_id=answer_id))
                assert (code, message[:10]) == ("VALIDATION_ERROR", "answer_id:")

    anyio.run(converse)
