"""`ace doctor`: one line for each part of an installation, and exit code 1 if one is broken."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedServer


def findings(done: Done) -> dict[str, tuple[str, str]]:
    return {found["part"]: (found["state"], found["detail"]) for found in done.data["findings"]}


def copy_log(name: str, to: Path) -> None:
    to.parent.mkdir(parents=True)
    shutil.copyfile(Path(__file__).parents[1] / "logs" / "data" / name, to)


def model_of(server: ScriptedServer) -> dict[str, Any]:
    return {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "k"}


def test_everything_is_in_order(here: Run, server: ScriptedServer, tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("maths", "Round at the end.")
    copy_log("codex-rollout.jsonl", tmp_path / ".codex" / "sessions" / "2026" / "rollout-1.jsonl")
    done = here("doctor", "--json", environ=model_of(server))
    found = findings(done)
    assert done.code == 0, found
    assert found["python"][0] == found["plugin langchain"][0] == found["disk"][0] == "ok"
    assert found["model"] == ("ok", f"openai/scripted at {server.api_base} answers")
    assert found["skillbook"] == ("ok", "1 skill in skills.db")
    assert found["agents"][0] == "ok" and "Codex" in found["agents"][1]


@pytest.mark.parametrize(
    "folder", [".codex/sessions", ".openhands/sessions", ".local/share/opencode/storage", "logs", "inspect-logs"]
)
def test_a_folder_alone_is_not_the_log_of_an_agent(
    here: Run, server: ScriptedServer, tmp_path: Path, folder: str
) -> None:
    place = tmp_path / folder / "one"
    place.mkdir(parents=True)
    (place / "run.jsonl").write_text('{"question": "2+2?", "answer": "4"}\n')
    (place.parent / "run.eval").write_text('{"question": "2+2?", "answer": "4"}\n')
    environ = {**model_of(server), "INSPECT_LOG_DIR": str(tmp_path / "inspect-logs")}
    assert findings(here("doctor", "--json", environ=environ))["agents"] == (
        "-",
        "no known agent has left logs in its default folder",
    )


def test_logs_in_a_folder_of_any_name_are_recognised_by_their_content(
    here: Run, server: ScriptedServer, tmp_path: Path
) -> None:
    copy_log("inspect.json", tmp_path / "evals" / "2026" / "first.json")
    environ = {**model_of(server), "INSPECT_LOG_DIR": str(tmp_path / "evals")}
    assert findings(here("doctor", "--json", environ=environ))["agents"] == (
        "ok",
        "Inspect evaluations (.eval, .json) (`ace inspect --all` shows their runs)",
    )


def test_what_is_not_there_yet_is_not_broken(here: Run, server: ScriptedServer) -> None:
    done = here("doctor", "--json", environ=model_of(server))
    found = findings(done)
    assert done.code == 0
    assert found["skillbook"][0] == found["agents"][0] == "-"


def test_a_model_that_has_not_been_downloaded_is_not_broken(here: Run) -> None:
    pytest.importorskip("xllamacpp")
    state, detail = findings(here("doctor", "--json"))["model"]
    assert state == "-" and detail.endswith("run: ace models pull qwen2.5-coder-1.5b")


@pytest.mark.parametrize(
    ("environ", "part", "said"),
    [
        ({"ACE_MODEL": "openai/gpt-4o-mini"}, "model", "set the environment variable OPENAI_API_KEY"),
        ({"ACE_MODEL": "openai/m", "ACE_API_BASE": "http://127.0.0.1:9/v1"}, "model", "cannot be reached"),
        ({"ACE_SKILLBOOK": "missing/skills.db"}, "skillbook", "no such folder for the skillbook"),
    ],
)
def test_what_is_broken_gives_exit_code_1(here: Run, environ: dict[str, str], part: str, said: str) -> None:
    done = here("doctor", environ=environ)
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith(f"{part} ")]
    assert " broken " in line and said in line


def test_a_damaged_skillbook_is_named(here: Run, server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "skills.db").write_text("not a database, but long enough to look like one" * 100)
    done = here("doctor", "--json", environ=model_of(server))
    assert done.code == 1 and findings(done)["skillbook"][0] == "broken"
    assert (tmp_path / "skills.db").read_text().startswith("not a database")
