"""Secrets and personal data are replaced before anything is sent to the learning model, and before it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.environments import Sample, SimpleEnvironment
from ace.runners import ACE, RecordedTrace, TraceAnalyser, has_run
from ace.skillbook import Skillbook
from ace.steps import GuardedKind
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

MAIL, KEY, CARD, PHONE = "jane.doe@acme.com", "sk-proj-a1B2c3D4e5F6g7H8i9J0", "4111 1111 1111 1111", "+49 170 1234567"
PRIVATE = {"email_address": MAIL, "secret": KEY, "card_number": CARD, "phone_number": PHONE}
QUESTION = f"Refund jane.doe%40acme.com ({MAIL}), card {CARD}, key {KEY}, call {PHONE}. What comes first?"
TRACE = {
    "question": QUESTION,
    "answer": f"I wrote to {MAIL}.",
    "success": False,
    "feedback": f"Wrong: {CARD} is not her card.",
    "reasoning": f"The key is {KEY}.",
    "steps": [{"kind": "action", "name": "call", "content": f"dial {PHONE}"}],
    "customer": {"mail": MAIL, "phones": [PHONE]},
}


def script(request: ScriptedRequest) -> Mapping[str, Any]:
    if request.role == "agent":
        return {"reasoning": "", "final_answer": f"First write to {MAIL}."}
    if request.role == "reflector":
        return {**REFLECTION, "error_identification": f"It wrote to {MAIL} with {KEY}."}
    operation = {"type": "ADD", "section": "refunds", "content": "Check the owner of the card first."}
    return {"reasoning": "", "operations": [] if "refunds-0" in request.text else [operation]}


def stored_in(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


def found_in(text: str) -> set[str]:
    return {kind for kind, value in PRIVATE.items() if value in text}


@pytest.mark.parametrize("suffix", ["db", "json"])
def test_nothing_private_of_a_trace_is_sent_or_stored(suffix: str, tmp_path: Path) -> None:
    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(
            client_for(server),
            skillbook_path=tmp_path / f"skills.{suffix}",
            checkpoint_dir=tmp_path / "checkpoints",
            checkpoint_interval=1,
        )
        [result] = runner.run([TRACE])
        assert result.error is None
        assert {request.role for request in server.requests} == {"reflector", "skill_manager"}
        sent = "\n".join(request.text for request in server.requests)
        [skill] = runner.skillbook.skills()
        [source] = skill.sources
        runner.skillbook.close()
    assert found_in(sent) == set()
    assert [kind for kind in PRIVATE if f"[hidden: {kind}]" not in sent] == []
    assert found_in(stored_in(tmp_path)) == set()
    assert source.sample_question.startswith("Refund [hidden: email_address] ([hidden: email_address]), card [hidden: ")
    assert source.error_identification == "It wrote to [hidden: email_address] with [hidden: secret]."


def test_the_agent_is_asked_the_real_question_and_its_real_answer_is_judged(tmp_path: Path) -> None:
    sample = Sample(QUESTION, ground_truth=MAIL, id="refund")
    with ScriptedServer(script) as server:
        runner = ACE.from_client(
            client_for(server), environment=SimpleEnvironment(), skillbook_path=tmp_path / "skills.db"
        )
        [result] = runner.run([sample])
        assert result.output is not None
        assert isinstance(result.output.trace, dict)
        assert result.output.trace["answer"] == f"First write to {MAIL}."
        assert result.output.trace["metrics"]["correct"] == 1.0
        asked = {request.role: request.text for request in server.requests}
        runner.skillbook.close()
    assert QUESTION in asked["agent"]
    assert found_in(asked["reflector"] + asked["skill_manager"]) == set()
    assert found_in(stored_in(tmp_path)) == set()


@pytest.mark.parametrize(
    ("allow", "kept"),
    [
        (["email_address"], {"email_address"}),
        (["personal_data"], {"email_address", "card_number", "phone_number"}),
        (["secret"], {"secret"}),
        (["copied_answer"], set()),
    ],
)
def test_each_class_can_be_allowed(allow: list[GuardedKind], kept: set[str], tmp_path: Path) -> None:
    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook_path=tmp_path / "skills.db", allow=allow)
        runner.run([TRACE])
        asked = {request.role: request.text for request in server.requests}
        runner.skillbook.close()
    assert found_in(asked["reflector"]) == kept
    assert found_in(asked["skill_manager"]) == kept
    assert found_in(stored_in(tmp_path)) == kept


def test_a_failed_sample_is_stored_without_it(tmp_path: Path) -> None:
    def broken(request: ScriptedRequest) -> Mapping[str, Any]:
        return {"no": f"such field {MAIL}"}

    with ScriptedServer(broken) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook_path=tmp_path / "skills.json")
        runner.run([TRACE, {"record": "x " * 248 + KEY}], max_in_flight=1)
    lines = (tmp_path / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    assert "[hidden: email_address]" in json.loads(lines[0])["sample"]
    assert found_in(stored_in(tmp_path)) == set()
    assert KEY[:12] not in lines[1]


def test_the_names_of_traces_are_stored_without_it_and_stay_different(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    record = {"question": "Two and two?", "answer": "5"}
    traces = [RecordedTrace(record, f"logs/{name}@acme.com.json") for name in ("jane.doe", "john.roe")]
    with ScriptedServer(script) as server:
        for _ in range(2):
            runner = TraceAnalyser.from_client(client_for(server), skillbook=Skillbook.open(path))
            results = runner.run(traces, run_id="r", resume=has_run(runner.skillbook, "r"))
            samples = [entry.key.sample for entry in runner.skillbook.history() if entry.key is not None]
            runner.skillbook.close()
            assert [result.error for result in results] == [None, None]
            assert stored_in(tmp_path).count("acme.com") == 0
        assert [request.role for request in server.requests].count("reflector") == 2
    assert [result.output and result.output.metadata["already_learned"] for result in results] == [True, True]
    assert "logs/[hidden: email_address]" in samples[0]
    assert len(set(samples)) == len(samples)
    assert results[0].output and str(results[0].output.metadata["trace_id"]).endswith("logs/jane.doe@acme.com.json")


def test_what_a_resumed_run_takes_from_the_record_lacks_it(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    is_down = True

    def flaky(request: ScriptedRequest) -> Any:
        if is_down and request.role == "skill_manager":
            return HttpError(503)
        return script(request)

    with ScriptedServer(flaky) as server:
        client = client_for(server, max_retries=0)
        runner = TraceAnalyser.from_client(client, skillbook_path=path)
        [result] = runner.run([TRACE], run_id="r")
        assert result.error is not None
        runner.skillbook.close()
        assert found_in(stored_in(tmp_path)) == set()
        is_down = False
        runner = TraceAnalyser.from_client(client, skillbook=Skillbook.open(path))
        [result] = runner.run([TRACE], run_id="r", resume=True)
        assert result.error is None, result.error
        assert [request.role for request in server.requests].count("reflector") == 1
        runner.skillbook.close()
    assert found_in(stored_in(tmp_path)) == set()
