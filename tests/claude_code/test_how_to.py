"""Each command of the guide and of the README, in order, with the real binary."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace_claude_code.sessions.home import project_key, skillbook_path, state_folder
from tests.claude_code import check_world
from tests.claude_code.conftest import Ace, ServerFor, files_in
from tests.claude_code.test_sessions import session, wait_for_the_learner

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "docs" / "how-to" / "learn-from-claude-code.md", ROOT / "ace-claude-code" / "README.md")
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[list[str]]:
    """Return the words of each `ace claude-code` line in the blocks of a page, without `ace claude-code`."""
    lines = [line for block in _BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [words[2:] for line in lines if (words := shlex.split(line, comments=True))[:2] == ["ace", "claude-code"]]


def test_the_commands_of_the_pages_work_as_they_are_written(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide, readme = map(commands_of, PAGES)
    assert [words[0] for words in guide] == [
        *("install", "status", "learn", "uninstall"),
        *("show", "forget", "edit", "pin", "export"),
    ]
    install, status, learn, uninstall, *of_skills = guide
    assert readme == [["install"]]

    monkeypatch.setenv("ACE_CLAUDE_BINARY", claude)
    monkeypatch.setenv("ACE_UNPROVEN", "keep")
    monkeypatch.chdir(project)
    check_world.lay_out(project)
    server = serving(check_world.play)
    session(claude, project)  # before the installation
    ace(*install)
    session(claude, project)
    wait_for_the_learner(ace, 1)
    ace(*learn)
    found = wait_for_the_learner(ace, 2)
    book = skillbook_path(state_folder(), project_key(project))
    shown = ace(*status)["out"]
    for said in (check_world.RULE, str(book), "shown in", "cited in", "Spent today", " of 1 USD", " tokens in"):
        assert said in shown
    assert len(found["sessions"]) == 2

    with Skillbook.open(book) as skills:
        assert skills.add_skill("checks", "Run it on Tuesdays.").id == "checks-00002"
    monkeypatch.setenv("ACE_PRIVATE", "1")  # what follows is not learned from
    for words in of_skills:
        ace(*words)
    in_session = [words for words in of_skills if words[0] in ("edit", "export")]
    for words in in_session:
        session(claude, project, prompt=f"/ace-learning:skills {shlex.join(words)}")
        assert any("[checks-00001]" in request.text or "AGENTS.md" in request.text for request in server.requests)
    with Skillbook.open(book) as skills:
        assert [(skill.content, skill.pinned) for skill in skills.skills()] == [("Run the check twice.", True)]
    assert "- [checks-00001] Run the check twice." in (project / "AGENTS.md").read_text(encoding="utf-8")

    ace(*uninstall)
    assert not [name for name in files_in(home / ".claude") if "ace-learning" in name]
    assert book.exists()
