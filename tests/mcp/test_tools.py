"""The tools of `ace mcp`, called by the client of the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ace import Skillbook
from tests.mcp.clients import content_of, stdio
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as started:
        yield started


def taught(folder: Path, *words: str) -> list[str]:
    """Teach the skillbook of the user some words; returns the ids of the skills."""
    place = folder / ".local/share/ace/skills.db"
    place.parent.mkdir(parents=True, exist_ok=True)
    with Skillbook.open(place) as book:
        return [book.add_skill("lessons", f"Remember LESSON {word}.").id for word in words]


def test_an_answer_uses_the_skills_of_the_users_skillbook(tmp_path: Path, server: ScriptedServer) -> None:
    [skill] = taught(tmp_path, "tides")

    async def converse() -> None:
        async with stdio(tmp_path, server.api_base) as client:
            answer = content_of(await client.call_tool("ace.ask", {"session_id": "s", "question": "What about tides?"}))
            assert answer.pop("answer_id")
            assert answer == {"session_id": "s", "answer": "LESSON tides", "skill_ids": [skill], "skill_count": 1}
            book = content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s"}))
            assert [(each["id"], each["content"]) for each in book["skills"]] == [(skill, "Remember LESSON tides.")]

    anyio.run(converse)
