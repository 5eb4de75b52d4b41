"""`ace openclaw` on the files of a user: nothing of theirs is changed, and nothing is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.openclaw.learning_script import learn
from tests.openclaw.samples import CAPTURED, V3, V4, V4_ERROR, events_of, make_database
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learn) as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with OpenClaw in it."""
    make_database(tmp_path / ".openclaw/agents/main/agent/openclaw-agent.sqlite", [events_of(V4), events_of(V4_ERROR)])
    return tmp_path


KEY = {"OPENAI_API_KEY": "sk-scripted-0123456789"}


@pytest.fixture
def openclaw(here: Run) -> Run:
    """Run `ace openclaw` in this process."""
    return partial(here, "openclaw", environ=KEY)


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "config", ["", "{}", "// mine\n{\n  plugins: {entries: {'other': {enabled: true,},},},\n}\n", '{"plugins": {}}']
)
def test_install_learn_and_uninstall_leave_the_users_files_as_they_were(
    openclaw: Run, home: Path, server: ScriptedServer, config: str
) -> None:
    state = home / ".openclaw"
    workspace = state / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_bytes(b"# Mine, without a line end")
    if config:
        (state / "openclaw.json").write_text(config, encoding="utf-8")
    before = files_in(state)
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    assert openclaw("install", "--capture", *model).code == 0
    assert "ace-capture" in (state / "openclaw.json").read_text(encoding="utf-8")
    assert (state / "extensions/ace-capture/index.js").exists()
    assert openclaw("install", "--capture", *model).code == 0
    learned = openclaw("learn")
    assert (learned.code, learned.out) == (0, "2 sessions: 3 turns learned, 0 known already\n")
    assert b"Answer in one sentence." in (workspace / "AGENTS.md").read_bytes()
    status = openclaw("status", "--json").data
    assert (status["installed"], status["capture"], status["skills"]) == (True, True, 3)
    assert sorted(session["turns"] for session in status["sessions"]) == [1, 2]
    assert all(session["skill_ids"] for session in status["sessions"])
    assert openclaw("uninstall", "--delete-skills", "--yes").out == "Removed.\n"
    assert files_in(state) == before
    assert openclaw("uninstall").out == "Nothing was installed.\n"


def test_uninstall_removes_the_workspace_that_learning_had_to_make(
    openclaw: Run, home: Path, server: ScriptedServer
) -> None:
    before = sorted(path.relative_to(home) for path in home.rglob("*"))
    assert openclaw("install", "--model", "openai/scripted", "--api-base", server.api_base).code == 0
    assert openclaw("learn").code == 0
    assert (home / ".openclaw/workspace/AGENTS.md").exists()
    assert openclaw("uninstall", "--delete-skills", "--yes").code == 0
    assert sorted(path.relative_to(home) for path in home.rglob("*")) == before


def test_a_session_that_is_captured_and_stored_is_counted_once(
    openclaw: Run, home: Path, server: ScriptedServer
) -> None:
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    alone = openclaw("learn", str(CAPTURED), *model).out
    assert openclaw("uninstall", "--delete-skills", "--yes").code == 0
    both = openclaw("learn", str(V4), str(CAPTURED), *model).out
    assert both == alone
    assert both.endswith(" 0 known already\n")


def test_without_a_model_it_is_said_how_to_choose_one(
    openclaw: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # as if the extra `local` were not installed
    done = openclaw("learn")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "ace: no model was chosen, and the default one cannot run here: local models require the package "
        "'xllamacpp'; install it with: pip install 'ace-core[local]'; or choose another one with --model, such as "
        "--model openai/gpt-4o-mini\n"
    )
    assert "no model was chosen" not in openclaw("learn", "--model", "local/smollm2-135m").err


def test_the_book_is_kept_unless_its_deletion_is_confirmed(openclaw: Run, home: Path, server: ScriptedServer) -> None:
    openclaw("install", "--model", "openai/scripted", "--api-base", server.api_base)
    openclaw("learn")
    refused = openclaw("uninstall", "--delete-skills")
    assert refused.code == 2 and "with 3 skills will be deleted" in refused.err and "--yes" in refused.err
    kept = openclaw("uninstall").out
    assert kept.startswith("Removed.\nKept 3 skills in ") and str(home / ".openclaw/ace/skillbook.db") in kept
    assert [path.name for path in (home / ".openclaw/ace").iterdir()] == ["skillbook.db"]


def test_uninstall_removes_what_was_learned_without_an_installation(
    openclaw: Run, home: Path, server: ScriptedServer
) -> None:
    before = files_in(home)
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    assert openclaw("learn", *model).code == 0
    assert (home / ".openclaw/ace/skillbook.db").exists()
    assert openclaw("uninstall").out.startswith("Removed.\nKept ")
    assert [path.name for path in (home / ".openclaw/ace").iterdir()] == ["skillbook.db"]
    assert openclaw("uninstall", "--delete-skills", "--yes").out == "Removed.\n"
    assert files_in(home) == before
    assert openclaw("uninstall").out == "Nothing was installed.\n"


def test_problems_are_told_with_exit_code_1_and_the_rest_is_learned(
    openclaw: Run, home: Path, server: ScriptedServer
) -> None:
    broken = home / "broken.jsonl"
    broken.write_text("no json\n", encoding="utf-8")
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    done = openclaw("learn", str(broken), str(V3), *model)
    assert done.code == 1
    assert done.out == "1 session: 2 turns learned, 0 known already\n"
    assert f"{broken}: no events of OpenClaw found" in done.err


def test_a_missing_folder_is_wrong_usage(openclaw: Run, tmp_path: Path) -> None:
    for command in ("install", "learn"):
        done = openclaw(command)
        assert done.code == 2
        assert ".openclaw" in done.err


def test_a_plugin_of_somebody_else_and_a_broken_configuration_are_left_alone(openclaw: Run, home: Path) -> None:
    state = home / ".openclaw"
    config = state / "openclaw.json"
    config.write_text("{ broken", encoding="utf-8")
    before = files_in(state)
    done = openclaw("install", "--capture")
    assert done.code == 2 and "openclaw.json cannot be changed" in done.err
    config.write_text('{"plugins": {"entries": {"ace-capture": {}}}}', encoding="utf-8")
    assert "an entry 'plugins.entries.ace-capture' already" in openclaw("install", "--capture").err
    config.write_text("{ broken", encoding="utf-8")
    assert files_in(state) == before


def test_an_allow_list_without_the_plugin_is_pointed_out(openclaw: Run, home: Path) -> None:
    (home / ".openclaw/openclaw.json").write_text('{"plugins": {"allow": ["other"]}}', encoding="utf-8")
    assert "add 'ace-capture' to plugins.allow" in openclaw("install", "--capture").err


def test_the_workspace_is_the_one_that_the_configuration_names(openclaw: Run, home: Path) -> None:
    (home / ".openclaw/openclaw.json").write_text(
        "// mine\n{agents: {defaults: {workspace: '~/claws'}}}", encoding="utf-8"
    )
    assert f"writes the skills to {home / 'claws'}" in openclaw("install").out
