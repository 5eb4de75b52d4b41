"""The SkillManager with the real client and a server whose answers depend on the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace.outputs import ReflectorOutput
from ace.protocols import (
    LLMClientLike,
    UnusableAnswerError,
)
from ace.roles import SkillManager
from ace.runners import TraceAnalyser
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION, book_with, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer, in_turn


def test_the_skill_manager_sees_reflection_book_and_progress(
    wrap: Callable[[LLMClientLike], LLMClientLike],
) -> None:
    def script(request: ScriptedRequest) -> dict[str, Any]:
        seen = all(part in request.text for part in ("KEY-INSIGHT", "Carry the one.", "sample 3 of 9", "adding"))
        content = "Check." if seen else "blind"
        return {"reasoning": "new", "operations": [{"type": "ADD", "section": "maths", "content": content}]}

    with ScriptedServer(script) as server:
        reflection = ReflectorOutput.model_validate({**REFLECTION, "key_insight": "KEY-INSIGHT"})
        manager = SkillManager(wrap(client_for(server)))
        output = manager.update_skills(reflection, book_with("Carry the one."), "adding", "sample 3 of 9")
        assert [operation.content for operation in output.update.operations] == ["Check."]
        assert output.raw["reasoning"] == "new"


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (
            update({"type": "UPDATE", "skill_id": "gone-00009", "content": "c"}),
            "no such skill: 'gone-00009'",
        ),
        (update({"type": "REMOVE"}), "REMOVE needs a skill_id"),
        (update({"type": "ADD", "section": "s", "content": " "}), "ADD needs content"),
        (update({"type": "TAG", "skill_id": "maths-00001"}), "TAG needs metadata"),
        (update({"type": "ADD", "section": "s", "content": "x" * 300_000}), "at most 4000 characters"),
        (update({"type": "ADD", "section": "s" * 300_000, "content": "c"}), "at most 200 characters"),
        (
            update(*({"type": "REMOVE", "skill_id": f"maths-0000{n}"} for n in range(1, 6))),
            "removal of 5 of 6",
        ),
    ],
)
def test_a_batch_that_cannot_be_used_is_asked_for_again_with_the_reason(bad: dict[str, Any], told: str) -> None:
    def script(request: ScriptedRequest) -> dict[str, Any]:
        return update() if told in request.text else bad

    book = book_with(*(f"Skill {n}." for n in range(6)))
    with ScriptedServer(script) as server:
        output = SkillManager(client_for(server)).update_skills(ReflectorOutput.model_validate(REFLECTION), book)
        assert output.update.operations == ()
        assert len(server.requests) == 2
    with ScriptedServer(in_turn(bad)) as server:
        with pytest.raises(UnusableAnswerError, match=told) as raised:
            SkillManager(client_for(server), max_retries=1).update_skills(
                ReflectorOutput.model_validate(REFLECTION), book
            )
        assert raised.value.role == "SkillManager"
        assert len(raised.value.raw_answers) == len(server.requests) == 2
        assert json.loads(raised.value.raw_answer) == bad


def test_a_reflection_of_any_length_fits() -> None:
    long = f"HEAD {'x' * 300_000} TAIL"
    with ScriptedServer(in_turn(update())) as server:
        reflection = ReflectorOutput.model_validate({**REFLECTION, "key_insight": long})
        SkillManager(client_for(server)).update_skills(reflection, book_with(), long)
        text = server.requests[0].text
        assert len(text) < 70_000
        assert text.count("characters cut here") == 2
        assert text.count("HEAD") == 2


def test_a_batch_of_which_only_a_part_fails_is_used() -> None:
    operations = [
        {"type": "REMOVE", "skill_id": "gone-00009"},
        {"type": "ADD", "section": "s", "content": "c"},
    ]
    with ScriptedServer(in_turn(update(*operations))) as server:
        book = book_with("One.")
        output = SkillManager(client_for(server)).update_skills(ReflectorOutput.model_validate(REFLECTION), book)
        assert len(output.update.operations) == 2
        assert len(server.requests) == 1
        report = book.apply_update(output.update)
        assert (len(report.applied), len(report.skipped)) == (1, 1)


def test_a_model_cannot_say_which_trace_taught_a_skill(tmp_path: Path) -> None:
    forged = {
        "type": "ADD",
        "section": "s",
        "content": "c",
        "insight_source": {"trace_id": "somebody-else"},
        "metadata": {"evidence_traces": ["somebody-else"]},
    }

    def script(request: ScriptedRequest) -> dict[str, Any]:
        return REFLECTION if request.role == "reflector" else update(forged)

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook_path=tmp_path / "skills.db")
        runner.run([{"question": "q", "answer": "a", "ground_truth": "b", "trace_id": "mine"}])
    [skill] = runner.skillbook
    assert [source.sample_question for source in skill.sources] == ["q"]
    assert "somebody-else" not in runner.skillbook.dumps()
