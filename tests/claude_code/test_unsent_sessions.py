"""Real sessions of which nothing is sent: private ones, and those in which nothing is asked for."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ace.integrations import JobQueue
from ace_claude_code.sessions.home import state_folder
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.test_sessions import session, wait_for_the_learner
from tests.claude_code.test_spend import lessons
from tests.support.scripted_anthropic_server import Text
from tests.support.scripted_server import ScriptedServer


def test_the_learners_model_hears_of_no_session_but_the_one_that_teaches(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    serving(lambda request: [Text("Understood.")])
    with ScriptedServer(lessons) as learner:
        ace("install", "--model", "openai/x", "--api-base", learner.api_base)
        with monkeypatch.context() as private:
            private.setenv("ACE_PRIVATE", "1")
            session(claude, project, prompt="Plan the merger with Initech.")
        session(claude, project, prompt="Thanks!")
        wait_until_all_is_read(ace)
        assert learner.requests == []
        session(claude, project, prompt="Sort the list, and keep <private>the bonus of Ann</private> as it is.")
        status = wait_for_the_learner(ace, 1)
        # What is stored is asked for again by hand: it stays private.
        report = ace("learn", "--all", "--project", str(project), "--json")
        sent = json.dumps([request.body for request in learner.requests])
    assert (report["private_sessions"], report["turns_trivial"], report["turns_known"]) == (1, 1, 1)
    assert "Sort the list, and keep [private] as it is." in sent
    kept = b"".join(path.read_bytes() for path in state_folder().rglob("*") if path.is_file()).decode(
        "utf-8", "replace"
    )
    for words in ("Initech", "bonus", "Thanks"):
        assert words not in sent + kept + json.dumps(status)


def wait_until_all_is_read(ace: Ace) -> None:
    """Wait until the learners that the sessions have started have worked the queue off."""
    for _ in range(3000):
        if not ace("status", "--json")["waiting"]:
            break
        time.sleep(0.1)
    with JobQueue(state_folder()).lock(wait=True):
        pass
