"""A reflection that found nothing costs no request to the skill manager."""

from __future__ import annotations

from typing import Any

import pytest

from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

NOTHING = {
    "reasoning": "The bill was right.",
    "error_identification": "",
    "root_cause_analysis": "",
    "correct_approach": "As it did.",
    "key_insight": "",
    "extracted_learnings": [],
    "skill_tags": [{"id": "a-00001", "tag": "helpful"}],
}
TRACES = [{"question": f"What does invoice {number} say?", "answer": "so", "reward": 1.0} for number in range(4)]


def asked(found: dict[str, Any], together: int) -> list[str]:
    """Return the roles that were asked about traces with this reflection."""

    def script(request: ScriptedRequest) -> dict[str, Any]:
        return found if request.role == "reflector" else {"reasoning": "", "operations": []}

    book = Skillbook()
    book.add_skill("a", "Add from the right.")
    with ScriptedServer(script) as server:
        TraceAnalyser.from_client(client_for(server), skillbook=book, reflections_per_call=together).run(TRACES)
        assert book.skills()[0].helpful + book.skills()[0].harmful == len(TRACES)
        return [request.role for request in server.requests]


@pytest.mark.parametrize("together", [1, 8])
def test_nothing_is_asked_about_an_empty_reflection(together: int) -> None:
    assert asked(NOTHING, together) == ["reflector"] * len(TRACES)


@pytest.mark.parametrize(
    "something",
    [
        {"error_identification": "It guessed."},
        {"key_insight": "Look the number up."},
        {"extracted_learnings": [{"learning": "Look the number up."}]},
        {"skill_tags": [{"id": "a-00001", "tag": "harmful"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_skill_manager_is_asked_about_everything_else(something: dict[str, Any]) -> None:
    assert asked({**NOTHING, **something}, 1).count("skill_manager") == len(TRACES)
