"""The guide's backend: a real Phoenix, where it is installed, receives a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace_otel import instrument
from tests.otel.test_delivery import closed_port
from tests.requirement import missing
from tests.support.command_line import ace

pytestmark = pytest.mark.thorough

QUESTION = "{ projects { edges { node { name spans(first: 50) { edges { node { name statusCode } } } } } } }"


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """The address of a Phoenix that was started as the guide says, on another port."""
    command = os.environ.get("ACE_PHOENIX") or shutil.which("phoenix")
    if command is None:
        missing("phoenix", "Phoenix is not installed: put its command on the path, or its path into ACE_PHOENIX")
    address = closed_port()
    environ = {
        **os.environ,
        "PHOENIX_PORT": address.rpartition(":")[2],
        "PHOENIX_GRPC_PORT": closed_port().rpartition(":")[2],
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([command, "serve"], env=environ, stdout=log, stderr=log)
    try:
        while process.poll() is None and not is_up(address):
            time.sleep(0.2)
        assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
        yield address
    finally:
        process.terminate()
        process.wait()


def is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(address):
            return True
    except OSError:
        return False


def spans_of(address: str) -> list[tuple[str, str]]:
    body = json.dumps({"query": QUESTION}).encode("utf-8")
    request = urllib.request.Request(f"{address}/graphql", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        data: Any = json.load(answer)
    [project] = [each["node"] for each in data["data"]["projects"]["edges"] if each["node"]["name"] == "default"]
    return [(each["node"]["name"], each["node"]["statusCode"]) for each in project["spans"]["edges"]]


def test_phoenix_receives_a_run(phoenix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"PHOENIX_COLLECTOR_ENDPOINT": phoenix}
    done = ace("otel", "check", "phoenix", folder=tmp_path, environ=where)
    assert (done.code, done.out.partition(":")[0]) == (0, "received")
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", phoenix)
    with instrument("phoenix"):
        runner = TraceAnalyser.from_roles(reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager())
        runner.run(["Repeat the code word kit0001code."])
    while len(spans := spans_of(phoenix)) < 7:  # it stores what it has accepted a moment later
        time.sleep(0.2)
    assert {"ace.otel.check", "ace.run", "ace.sample", "ace.step ReflectStep"} <= {name for name, _ in spans}
