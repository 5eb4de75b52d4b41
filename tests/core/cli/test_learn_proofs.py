"""`ace learn` proves what it learns, and reports what that cost and rejected."""

from __future__ import annotations

import json
from pathlib import Path

from ace.skillbook import Skillbook
from tests.support.command_line import ace
from tests.support.corrected_chats import TIDE, chat, correcting_script
from tests.support.scripted_server import ScriptedServer


def learn(folder: Path, server: ScriptedServer, *options: str) -> dict[str, object]:
    (folder / "chat.json").write_text(json.dumps({"messages": chat(TIDE)}), encoding="utf-8")
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    done = ace("learn", "chat.json", *model, *options, "--json", folder=folder, environ={"OPENAI_API_KEY": "k" * 9})
    assert done.code == 0, done.err
    data: dict[str, object] = done.data
    return data


def test_the_report_says_what_was_proven_and_what_it_cost(tmp_path: Path) -> None:
    with ScriptedServer(correcting_script(TIDE)) as server:
        proofs = learn(tmp_path, server)["proofs"]
        assert isinstance(proofs, dict)
        assert (proofs["proven"], proofs["rejected"], proofs["failing"]) == (1, 0, 0)
        assert proofs["use"]["calls"] == len(server.by_role("agent")) == 1
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert [skill.proof for skill in book.skills()] == ["proven"]


def test_a_skill_that_never_proves_is_dropped_if_wanted(tmp_path: Path) -> None:
    with ScriptedServer(correcting_script(TIDE, broken_by={TIDE.question: ""})) as server:
        report = learn(tmp_path, server, "--unproven", "drop", "--no-final-test")
    assert isinstance(report["proofs"], dict) and report["proofs"]["rejected"] == 1
    assert isinstance(report["left_out"], list) and "the case that taught it" in report["left_out"][0]["reason"]
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert len(book) == 0


def test_proving_can_be_switched_off(tmp_path: Path) -> None:
    with ScriptedServer(correcting_script(TIDE)) as server:
        learn(tmp_path, server, "--no-prove")
        assert server.by_role("agent") == []
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert [skill.proof for skill in book.skills()] == ["unproven"]
