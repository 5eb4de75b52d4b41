"""A model server that fails in the middle of a run: what is paid, what is retried, and when the run stops."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Done, ace
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

TRACES = 40


class Outage:
    """A script whose server can be down, for all requests after some, or for some."""

    def __init__(self) -> None:
        self.status = 0
        """The HTTP status of failing requests; 0 while all is well."""
        self.after = 0
        """How many requests are answered before the server fails."""
        self.only = re.compile("")
        """Which requests fail."""
        self.seen = 0

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        self.seen += 1
        if self.status and self.seen > self.after and self.only.search(request.text):
            return HttpError(self.status, headers={"retry-after": "0"})
        number = (re.findall(r"job (\d+)", request.text) or ["0"])[-1]
        if request.role == "reflector":
            lesson = f"Rule {number} of {chr(97 + int(number) % 26) * 5}."
            return {
                "reasoning": "r",
                "correct_approach": "",
                "key_insight": "k",
                "error_identification": "",
                "root_cause_analysis": "",
                "extracted_learnings": [{"learning": lesson}],
            }
        if request.role == "skill_manager":
            lessons = re.findall(r'"learning": "(.+?)"', request.text)
            added = [{"type": "ADD", "section": "jobs", "content": lesson} for lesson in lessons]
            return {"reasoning": "r", "operations": added}
        if request.role == "agent":
            return {"reasoning": "r", "final_answer": "no idea"}
        return '{"consolidation_operations": []}' if "consolidation" in request.text else "ready"

    def goes_down(self, after: int, status: int = 500, only: str = "") -> None:
        self.seen, self.after, self.status, self.only = 0, after, status, re.compile(only)

    def comes_up(self) -> None:
        self.status = 0


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(TRACES):
        record = {"task": f"Do job {number}.", "feedback": "wrong"}
        (folder / f"{number:02}.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path


def learn(server: ScriptedServer, here: Path, *arguments: str, command: str = "learn") -> Done:
    model = ["--model", "openai/x", "--api-base", server.api_base, "--no-prove", "--json"]
    return ace(command, *(arguments or ["t"]), *model, folder=here, environ={"OPENAI_API_KEY": "k"})


def answers_by_role(server: ScriptedServer) -> Counter[str]:
    return Counter(request.role for request in server.answered if request.role)


def test_what_failed_in_an_outage_is_retried_and_nothing_is_paid_for_twice(here: Path) -> None:
    outage = Outage()
    with ScriptedServer(outage) as server:
        outage.goes_down(after=21)
        first = learn(server, here, "t")
        assert first.code == 1
        assert first.data["stopped_by"] == "server_failures"
        assert "--resume" in first.err
        traces = first.data["traces"]
        assert traces["learned"] < TRACES
        # Those that are under way when the fifth fails ask up to four times as well: with all others it would be 141.
        assert len(server.requests) < 21 + 4 * (5 + 8), "the run did not stop after five failures in a row"
        outage.comes_up()
        second = learn(server, here, "t", "--resume")
        assert second.code == 0, second.err
        assert second.data["run"] == first.data["run"]
        assert second.data["traces"]["already_learned"] == traces["learned"]
        assert second.data["traces"]["learned"] == TRACES - traces["learned"]
        assert answers_by_role(server) == {"reflector": TRACES, "skill_manager": TRACES}
        assert second.data["skills"]["total"] == TRACES


def test_a_run_that_went_through_with_failures_can_be_resumed(here: Path) -> None:
    outage = Outage()
    with ScriptedServer(outage) as server:
        outage.goes_down(after=0, only=r"job (3|7)\.")
        first = learn(server, here, "t")
        assert (first.code, first.data["stopped_by"]) == (1, "")
        assert sorted(failure["place"] for failure in first.data["failures"]) == ["t/03.json", "t/07.json"]
        assert "--resume" in first.err
        outage.comes_up()
        answered = len(server.answered)
        second = learn(server, here, "t", "--resume")
        assert second.code == 0, second.err
        assert second.data["traces"]["learned"] == 2
        assert len(server.answered) == answered + 1 + 4, "the check of the model, and two calls for each"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("command", ["learn", "train"])
def test_a_refused_key_stops_the_run_at_once(here: Path, command: str, status: int) -> None:
    samples = [{"question": f"Do job {number}.", "target": "yes"} for number in range(TRACES)]
    (here / "samples.json").write_text(json.dumps(samples), encoding="utf-8")
    source = "t" if command == "learn" else "samples.json"
    outage = Outage()
    with ScriptedServer(outage) as server:
        outage.goes_down(after=9, status=status)
        first = learn(server, here, source, command=command)
        assert (first.code, first.data["stopped_by"]) == (1, "authentication")
        assert "key" in first.err and "--resume" in first.err
        # Samples under way at the first refusal may each ask once more; with all others it would be more than 80.
        assert len(server.requests) < 9 + 16, "the run did not stop at the first refusal"
        outage.comes_up()
        second = learn(server, here, source, "--resume", command=command)
        assert second.code == 0, second.err
        per_sample = {"reflector": TRACES, "skill_manager": TRACES}
        assert answers_by_role(server) == per_sample | ({"agent": TRACES} if command == "train" else {})
