"""The guide's backend: a real Phoenix, where it is installed, receives a run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirement import missing
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

QUESTION = "{ projects { edges { node { name spans(first: 50) { edges { node { name statusCode } } } } } } }"


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """The address of a Phoenix that was started as the guide says, on another port."""
    command = os.environ.get("ACE_PHOENIX") or shutil.which("phoenix")
    if command is None:
        missing("phoenix", "Phoenix is not installed: put its command on the path, or its path into ACE_PHOENIX")
    address = free_port()
    environ = {
        **os.environ,
        "PHOENIX_PORT": address.rpartition(":")[2],
        "PHOENIX_GRPC_PORT": free_port().rpartition(":")[2],
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [command, *command_of_the_guide("phoenix/bin/phoenix")], env=environ, stdout=log, stderr=log
        )
    try:
        while process.poll() is None and not is_up(address):
            time.sleep(0.2)
        assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
        yield address
    finally:
        process.terminate()
        process.wait()


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


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
    [project] = [edge["node"] for edge in data["data"]["projects"]["edges"] if edge["node"]["name"] == "default"]
    return [(edge["node"]["name"], edge["node"]["statusCode"]) for edge in project["spans"]["edges"]]


def command_of_the_guide(beginning: str) -> list[str]:
    """The arguments of a command of the guide."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "see-runs-in-your-tools.md"
    if not guide.exists():
        missing("phoenix", "the guide is not next to an installed wheel")
    [line] = [line for line in guide.read_text(encoding="utf-8").splitlines() if line.startswith(f"    {beginning}")]
    return line.split()[1:]


def test_phoenix_receives_a_run(phoenix: str, tmp_path: Path) -> None:
    where = {"PHOENIX_COLLECTOR_ENDPOINT": phoenix}
    done = ace(*command_of_the_guide("ace otel check"), folder=tmp_path, environ=where)
    assert (done.code, done.out.partition(":")[0]) == (0, "received")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_text(json.dumps({"task": "t1", "answer": "LESSON w1"}), encoding="utf-8")
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = ace(*command_of_the_guide("ace learn logs/"), *model, folder=tmp_path, environ=where)
    assert done.code == 0 and "lost" not in done.err, done.err
    expected = {"ace.otel.check", "ace.run", "ace.sample", "ace.step ReflectStep", "chat scripted"}
    while not expected <= {name for name, _ in spans_of(phoenix)}:  # it stores what it has accepted a moment later
        time.sleep(0.2)
    assert ("ace.run", "OK") in spans_of(phoenix) or ("ace.run", "UNSET") in spans_of(phoenix)
