"""Pending lessons that plugins keep for projects, on the page of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ace.plugins import FileChange, KeptSkillbook, SkillbooksSpec, hookimpl, temporary
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from ace_server import tables
from tests.server.pages.checks import check_every_look, check_nothing_executed
from tests.server.pages.conftest import NewPage
from tests.server.pages.service_world import World, running_world
from tests.server.pages.test_service import form_token, log_in, logged_in

PROOF = "PROVEN by running (grade A), seen in 2 sessions (Claude Code 1, Codex CLI 1)\n  make check   exit 0"
MARKUP = "Never write <script>alert(1)</script>."


def skillbooks_of(folder: Path) -> Iterator[KeptSkillbook]:
    """What a plugin of a third party keeps: a book in the folder, whose active skills are in AGENTS.md."""
    file = folder / "AGENTS.md"

    def text(accepted: str = "") -> str:
        with Skillbook.open(folder / "kept.db") as book:
            live = [*book.skills(), *(skill for skill in book.pending_skills() if skill.id == accepted)]
        return "".join(f"- {skill.content}\n" for skill in live)

    def publish() -> list[Path]:
        if (folder / "full").exists():
            raise OSError("the disk is full")
        file.write_text(text(), encoding="utf-8")
        return [file]

    def preview(accepted: str) -> list[FileChange]:
        return [FileChange(file, file.read_text("utf-8") if file.exists() else "", text(accepted))]

    if (folder / "kept.db").exists():
        yield KeptSkillbook(str(folder / "kept.db"), f"lessons of {folder.name}", publish, preview)


class Hooks:
    ACE_API = 1

    @hookimpl
    def ace_skillbooks(self) -> Iterator[SkillbooksSpec]:
        yield SkillbooksSpec(name="acme", target=f"{__name__}:skillbooks_of")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """A project with two pending lessons."""
    folder = tmp_path / "shop"
    folder.mkdir()
    with Skillbook.open(folder / "kept.db") as book:
        texts = ["Run `make check`.", MARKUP]
        adds = [UpdateOperation("ADD", "commands", text, evidence=PROOF, pending="a person decides") for text in texts]
        book.apply_update(UpdateBatch("", adds))
    with temporary(Hooks(), name="acme"):
        yield folder


@pytest.fixture
def world(shop: Path, learned: Path, tmp_path: Path) -> Iterator[World]:
    data = tmp_path / "data"
    data.mkdir()
    with running_world(data, learned, projects=(str(shop), str(shop / "gone"))) as started:
        yield started


def reviewer(world: World) -> httpx.Client:
    return logged_in(world, world.key("Maren", "review"))


def paths_in(client: httpx.Client) -> list[str]:
    text = client.get("/review/lessons").text
    return [part.partition('"')[0] for part in text.split('href="')[1:] if part.startswith("/review/lessons/")]


def decide(client: httpx.Client, path: str, **form: str) -> httpx.Response:
    return client.post(path, data={**form, "csrf": form_token(client.get(path), path)})


def test_pending_lessons_are_shown_with_their_proof_and_the_exact_change(world: World, shop: Path) -> None:
    client = reviewer(world)
    assert 'href="/review/lessons"' in client.get("/review").text
    first, second = paths_in(client)
    assert "lessons of shop" in client.get("/review/lessons").text
    shown = client.get(first).text
    for text in (
        "Run `make check`.",
        "make check   exit 0",
        str(shop / "AGENTS.md"),
        "<ins>+ - Run `make check`.</ins>",
    ):
        assert text in shown, shown
    assert "&lt;script&gt;alert" in client.get(second).text
    assert not (shop / "AGENTS.md").exists()
    read = world.rows(tables.audit, tables.audit.c.what == "text.read")
    assert [row.object for row in read] == [f"{shop}/kept.db#commands-0000{number}" for number in (1, 2)]


def test_a_lesson_is_accepted_or_rejected_with_a_reason(world: World, shop: Path) -> None:
    client = reviewer(world)
    first, second = paths_in(client)
    assert decide(client, second, decision="reject").status_code == 400
    assert decide(client, first, decision="burn").status_code == 400
    accepted = decide(client, first, decision="accept", because="of a form that was filled in first")
    assert (accepted.status_code, accepted.headers["location"]) == (303, second)
    assert (shop / "AGENTS.md").read_text("utf-8") == "- Run `make check`.\n"
    assert decide(client, second, decision="reject", because="No.").headers["location"] == "/review/lessons"
    with Skillbook.open(shop / "kept.db") as book:
        assert [(skill.content, skill.reason) for skill in book.rejected_skills()] == [(MARKUP, "No.")]
        assert [entry.author for entry in book.history()][-2:] == ["Maren", "Maren"]
    assert paths_in(client) == []
    recorded = [row.what for row in world.rows(tables.audit) if row.what.startswith("lesson.")]
    assert recorded == ["lesson.accept", "lesson.reject"]


def test_what_someone_else_has_decided_is_not_decided_again(world: World, shop: Path) -> None:
    client = reviewer(world)
    [first, _] = paths_in(client)
    page = client.get(first)
    with Skillbook.open(shop / "kept.db") as book:
        book.reject_skill("commands-00001", "in a terminal")
    answer = client.post(first, data={"decision": "accept", "csrf": form_token(page, first)})
    assert answer.status_code == 409 and "was decided already" in answer.text
    assert not (shop / "AGENTS.md").exists()
    assert client.get("/review/lessons/0123/commands-00001").status_code == 404


def test_a_decision_that_no_file_could_show_is_saved_and_reported(world: World, shop: Path) -> None:
    client = reviewer(world)
    [first, _] = paths_in(client)
    (shop / "full").touch()
    answer = decide(client, first, decision="accept")
    assert answer.status_code == 409
    assert "The decision is saved, but agents cannot be shown it yet: the disk is full" in answer.text
    assert len(paths_in(client)) == 1


def test_a_folder_that_is_missing_and_a_book_that_is_damaged_are_named(world: World, shop: Path) -> None:
    client = reviewer(world)
    assert f"{shop / 'gone'} is not a folder on this machine." in client.get("/review/lessons").text
    (shop / "kept.db").write_bytes(b"no database")
    shown = client.get("/review/lessons").text
    assert f"{shop / 'kept.db'} cannot be read" in shown
    assert client.get("/review").status_code == 200


def test_keys_of_one_book_and_keys_that_only_read_do_not_see_lessons(world: World) -> None:
    path = paths_in(reviewer(world))[0]
    for options in ({"book": "default"}, {}):
        scopes = ["read", "review"] if options else ["read"]
        client = logged_in(world, world.key("Ole", *scopes, **options))
        for address in ("/review/lessons", path):
            answer = client.get(address)
            assert answer.status_code == 403 and "make check" not in answer.text
    assert "/review/lessons" not in logged_in(world, world.key("Pia", "review", book="default")).get("/review").text


def test_without_folders_the_page_says_what_it_cannot_show(learned: Path, tmp_path: Path) -> None:
    with running_world(tmp_path, learned) as world:
        shown = reviewer(world).get("/review/lessons").text
        assert "No folder of a project is named" in shown
        assert "The lessons of a project on another machine, or of another user, cannot be shown here" in shown


def test_decide_in_a_browser(world: World, shop: Path, new_page: NewPage) -> None:
    page = new_page(390)
    log_in(page, world)
    page.goto(f"{world.url}/review/lessons")
    page.get_by_role("link", name="Run `make check`.").click()
    page.get_by_text("2 left").wait_for()
    page.keyboard.press("a")
    page.get_by_text("1 left").wait_for()
    page.keyboard.press("r")
    page.keyboard.type("Not here.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing is pending").wait_for()
    assert (shop / "AGENTS.md").read_text("utf-8") == "- Run `make check`.\n"


def test_the_pages_look_right_in_every_way(world: World, new_page: NewPage) -> None:
    paths = ["/review/lessons", *paths_in(reviewer(world))]
    page = new_page()
    log_in(page, world)
    check_every_look(page, world.url, paths, name="lessons")
    for path in paths:
        page.goto(world.url + path)
        check_nothing_executed(page)
