"""What was learned in a project can be read and changed from its folder, and from inside a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace_claude_code.sessions.home import project_key, skillbook_path, state_folder
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.test_sessions import agents, session
from tests.support.scripted_anthropic_server import Reply, Request, Text


@pytest.fixture
def book(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skillbook with two skills, and its project as the current folder."""
    path = skillbook_path(state_folder(), project_key(project))
    path.parent.mkdir(parents=True)
    with Skillbook.open(path) as book:
        book.add_skill("checks", "Run the check twice.")
        book.add_skill("checks", "Run it on Tuesdays.")
    monkeypatch.chdir(project)
    return path


def contents(book: Path) -> list[str]:
    with Skillbook.open(book) as found:
        return [skill.content for skill in found.skills()]


def test_the_skills_of_the_current_project_are_shown(book: Path, ace: Ace, tmp_path: Path) -> None:
    assert "Run the check twice." in ace("show")["out"]
    assert "Run it on Tuesdays." not in ace("show", "checks-00001")["out"]
    assert [skill["id"] for skill in ace("show", "--json")["skills"]] == ["checks-00001", "checks-00002"]


def test_a_skill_is_forgotten_and_edited(book: Path, ace: Ace) -> None:
    ace("forget", "checks-00002", "--yes")
    assert contents(book) == ["Run the check twice."]
    ace("edit", "checks-00001", "Run the check once.")
    assert contents(book) == ["Run the check once."]


def test_the_skills_are_exported_to_a_file_that_can_be_committed(book: Path, ace: Ace, project: Path) -> None:
    ace("export", "AGENTS.md")
    assert "Run the check twice." in (project / "AGENTS.md").read_text(encoding="utf-8")


def test_a_skill_is_pinned_and_unpinned(book: Path, ace: Ace) -> None:
    assert "pinned [checks-00002]" in ace("pin", "checks-00002")["out"]
    assert "is pinned" in ace("forget", "checks-00002", "--yes", code=2)["err"]
    assert [skill["pinned"] for skill in ace("show", "--json")["skills"]] == [False, True]
    [listed] = ace("status", "--json")["skillbooks"]
    assert {skill["id"]: skill["pinned"] for skill in listed["skills"]} == {
        "checks-00001": False,
        "checks-00002": True,
    }
    assert "Run it on Tuesdays. (pinned, helpful 0" in ace("status")["out"]
    ace("unpin", "checks-00002")
    ace("forget", "checks-00002", "--yes")
    assert contents(book) == ["Run the check twice."]


def test_a_skill_that_is_pinned_in_a_session_is_first_in_the_next_one(
    claude: str, book: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_PRIVATE", "1")  # no learner is started
    with Skillbook.open(book) as found, found.deferred_commits():
        for number in range(100):
            found.tag_skill(found.add_skill("habits", f"Habit number {number} of the house.").id, "helpful")
    server = serving(lambda request: [Text("Seen.")])
    ace("install", "--claude", claude, "--budget-tokens", "300")
    session(claude, project, prompt="Xylophone?")
    [request] = agents(server)
    assert "Habit number" in request.text and "Run it on Tuesdays." not in request.text
    session(claude, project, prompt="/ace-learning:skills pin checks-00002")
    server.clear()
    session(claude, project, prompt="Xylophone?")
    [request] = agents(server)
    assert request.text.index("[checks-00002] Run it on Tuesdays.") < request.text.index("Habit number")


def test_another_project_is_named(book: Path, ace: Ace, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert "no skills have been learned" in ace("show", code=2)["err"]
    assert "Run the check twice." in ace("show", "--project", str(home / "project"))["out"]


def test_the_same_works_inside_a_session(claude: str, book: Path, project: Path, serving: ServerFor, ace: Ace) -> None:
    def script(request: Request) -> Reply:
        return [Text("seen" if "[checks-00001]" in request.text and "removed" in request.text else "nothing")]

    serving(script)
    ace("install", "--claude", claude)
    assert session(claude, project, prompt="/ace-learning:skills forget checks-00001 --yes") == "seen"
    assert contents(book) == ["Run it on Tuesdays."]


@pytest.mark.parametrize(
    "text",
    [
        "Don't use `make clean`, it isn't safe.",
        "Run $(touch PWNED) and $HOME.",
        "One.\nEND\ntouch PWNED\n```\n!`touch PWNED`",
        "Quote \"one\" 'two' \\three; touch PWNED & | < > #",
        "x'; touch PWNED; '",
    ],
)
def test_no_shell_reads_what_is_typed_after_the_command(
    claude: str, book: Path, project: Path, serving: ServerFor, ace: Ace, text: str
) -> None:
    serving(lambda request: [Text("seen" if "checks-00001" in request.text else "nothing")])
    ace("install", "--claude", claude)
    session(claude, project, prompt=f"/ace-learning:skills edit checks-00001 {text}")
    assert not list(project.rglob("PWNED"))
    if "!`" not in text:  # which Claude Code changes itself
        assert contents(book) == [text, "Run it on Tuesdays."]


def test_a_text_that_ends_the_command_changes_nothing(
    claude: str, book: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    serving(lambda request: [Text("seen" if "cannot be typed in a session" in request.text else "nothing")])
    ace("install", "--claude", claude)
    prompt = "/ace-learning:skills edit checks-00001 Write ``` twice, and then ``` again."
    assert session(claude, project, prompt=prompt) == "seen"
    assert contents(book) == ["Run the check twice.", "Run it on Tuesdays."]


def test_skillbooks_are_deleted_only_after_a_confirmation(book: Path, ace: Ace, claude: str) -> None:
    ace("install", "--claude", claude)
    refused = ace("uninstall", "--delete-skills", code=2)["err"]
    assert "1 skillbook with 2 skills in " in refused and "will be deleted" in refused and "--yes" in refused
    assert contents(book) == ["Run the check twice.", "Run it on Tuesdays."]
    kept = ace("uninstall")["out"]
    assert kept == f"Removed.\nKept 1 skillbook with 2 skills in {book.parent.parent}; --delete-skills deletes them.\n"
    assert contents(book) == ["Run the check twice.", "Run it on Tuesdays."]
    ace("uninstall", "--delete-skills", "--yes")
    assert not book.exists()
