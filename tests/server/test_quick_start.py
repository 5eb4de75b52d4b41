"""The quick start: one command in an empty folder, an answer, feedback, a batch, and a better answer."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from ace import Skillbook
from ace_server.seal import new_key
from tests.server.server_process import ServerProcess, wait_for
from tests.support.command_line import Run, ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as server:
        yield server


def teach_rain(server: ServerProcess) -> None:
    """Give feedback on an answer, publish what was learned from it, and see the new answer."""
    before = server.post("/v1/answers", {"question": "What about rain?"})
    assert before["answer"] == "unknown"
    feedback = {"request_id": before["request_id"], "thumb": "down", "correction": "LESSON rain"}
    assert server.post("/v1/feedback", feedback)["feedback_id"]
    releases = wait_for(lambda: server.get("/v1/books/default/releases")["items"])
    [release] = releases
    assert release["state"] == "candidate"
    [review] = server.get("/v1/review")["items"]
    assert review["release"] == release["id"]
    decided = server.post(f"/v1/review/{review['id']}", {"decision": "accept"})
    assert decided["state"] == "accepted"

    def better() -> object:
        found = server.post("/v1/answers", {"question": "What about rain?"})
        return found if found["answer"] == "LESSON rain" else None

    after = wait_for(better)
    assert isinstance(after, dict)
    assert after["release"] == release["id"]
    assert after["skill_ids"] == [server.get("/v1/books/default/skills")["items"][0]["id"]]
    [run] = server.get("/v1/runs")["items"]
    assert (run["state"], run["learned"], run["release"]) == ("learned", 1, release["id"])


def check_link(server: ServerProcess) -> None:
    """The printed link opens the page once."""
    link = server.said.partition("ace: open ")[2].split()[0]
    with httpx2.Client(timeout=60, trust_env=False, follow_redirects=True) as browser:
        assert browser.get(link).status_code == 200
        assert "default" in browser.get(server.address).text
    with httpx2.Client(timeout=60, trust_env=False) as another:
        assert another.get(link).status_code in (401, 403)
        assert "default" not in another.get(server.address).text


def test_one_command_in_an_empty_folder_answers_and_learns(here: Run, tmp_path: Path, model: ScriptedServer) -> None:
    with ServerProcess(tmp_path, model.api_base) as server:
        data = tmp_path / "ace-server"
        assert stat.filemode(data.stat().st_mode) == "drwx------"
        assert {stat.filemode(path.stat().st_mode) for path in data.rglob("*") if path.is_file()} == {"-rw-------"}
        assert server.client.get("/v1/books", headers={"Authorization": "none"}).status_code == 401
        check_link(server)
        teach_rain(server)
        assert server.stop() == 0
    said = server.said
    assert "Traceback" not in said
    log = (data / "logs" / "server.log").read_text(encoding="utf-8")
    assert "POST /v1/answers 200" in log
    assert "rain" not in log
    status = here("server", "status", "--json").data
    assert status["books"][0]["release"]
    assert status["problems"] == []
    with ServerProcess(tmp_path, model.api_base, "--no-worker") as again:  # everything is there after a restart
        assert again.post("/v1/answers", {"question": "What about rain?"})["answer"] == "LESSON rain"
        assert again.stop() == 0


def test_the_same_works_on_postgres(tmp_path: Path, model: ScriptedServer, postgres_database: str) -> None:
    environ: Mapping[str, str] = {"ACE_SERVER_DATABASE": postgres_database, "ACE_SERVER_KEYS": new_key()}
    refused = ace("server", "run", folder=tmp_path, environ={**environ, "ACE_SERVER_KEYS": ""})
    assert refused.code == 2
    assert "ace server seal new" in refused.err
    with ServerProcess(tmp_path, model.api_base, environ=environ) as server:
        teach_rain(server)
        assert server.stop() == 0


def test_an_existing_book_is_served_in_place(tmp_path: Path, model: ScriptedServer) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("lessons", "Remember LESSON snow.")
    with ServerProcess(tmp_path, model.api_base, "--no-worker", "--skillbook", "skills.db") as server:
        found = server.post("/v1/answers", {"question": "What about snow?"})
        assert (found["answer"], found["skill_ids"]) == ("LESSON snow", ["lessons-00001"])
        assert server.stop() == 0


def test_a_misspelt_skillbook_is_not_created(here: Run, tmp_path: Path) -> None:
    done = here("server", "run", "--skillbook", "skils.db", "--model", "openai/scripted")
    assert done.code == 2
    assert "no such skillbook: 'skils.db'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_others_reach_needs_encryption(here: Run, tmp_path: Path) -> None:
    done = here("server", "run", "--host", "0.0.0.0")
    assert done.code == 2
    assert "--tls-cert" in done.err
    assert not (tmp_path / "ace-server").exists()
