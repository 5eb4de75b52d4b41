"""There is one skillbook for a repository: its sub-folders and its worktrees share it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ace_claude_code.sessions.home import project_key, repository_of
from tests.claude_code.conftest import Ace
from tests.claude_code.stored_world import store, turn
from tests.claude_code.test_spend import lessons
from tests.support.scripted_server import ScriptedServer


def git(folder: Path, *arguments: str) -> None:
    author = ["-c", "user.name=dev", "-c", "user.email=dev@example.com", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(home: Path) -> Path:
    """A repository with a sub-folder, a worktree beside it, and a submodule."""
    for folder in (home / "repo" / "src", home / "other"):
        folder.mkdir(parents=True)
    for folder in (home / "other", home / "repo"):
        git(folder, "init", "--quiet")
        (folder / "file.txt").write_text("x", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "First")
    git(home / "repo", "worktree", "add", "--quiet", str(home / "tree"))
    git(home / "repo", "submodule", "--quiet", "add", str(home / "other"), "part")
    return home / "repo"


def test_the_repository_of_a_folder(home: Path, repository: Path) -> None:
    (home / "tree" / "deep").mkdir()
    for folder in (repository, repository / "src", home / "tree", home / "tree" / "deep", repository / "gone" / "far"):
        assert repository_of(folder) == repository
    assert repository_of(repository / "part") == repository / "part"
    assert repository_of(home / "other") == home / "other"


def test_a_folder_outside_of_any_repository_is_its_own(home: Path) -> None:
    (home / "plain" / "below").mkdir(parents=True)
    assert repository_of(home / "plain" / "below") == home / "plain" / "below"
    (home / "plain" / ".git").write_text("nonsense", encoding="utf-8")
    assert repository_of(home / "plain" / "below") == home / "plain"


def test_all_sessions_of_a_repository_teach_one_book_and_are_shown_it(
    home: Path, repository: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("ACE_UNPROVEN", "keep")
    paths = [
        store(folder, name, *turn(name), root=home)
        for name, folder in (("root", repository), ("sub", repository / "src"), ("tree", home / "tree"))
    ]
    stranger = store(home / "other", "stranger", *turn("stranger"), root=home)
    with ScriptedServer(lessons) as server:
        model = ("--model", "openai/x", "--api-base", server.api_base)
        ace("install", *model)
        report = ace("learn", "--all", "--project", str(home / "tree"), "--json", *model)
    assert (report["sessions"], report["turns_learned"]) == (3, 3)
    [book] = (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")
    assert book.parent.name == project_key(repository)
    for path, folder, shows in [(paths[2], home / "tree", True), (stranger, home / "other", False)]:
        said = json.dumps({"session_id": "new", "transcript_path": str(path), "cwd": str(folder)})
        command = [sys.executable, "-m", "ace_claude_code.sessions.hook", "start"]
        done = subprocess.run(
            command, input=said, encoding="utf-8", check=True, env={**os.environ}, stdout=subprocess.PIPE
        )
        assert ("Look twice." in done.stdout) is shows


def test_an_installation_for_one_project_takes_its_worktrees(
    home: Path, repository: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ace_claude_code.sessions.home import state_folder
    from ace_claude_code.sessions.settings import read_settings

    monkeypatch.chdir(repository)
    ace("install", "--project", "--model", "openai/x")
    settings = read_settings(state_folder())
    assert settings is not None
    assert settings.takes(home / "tree")
    assert not settings.takes(home / "other")
