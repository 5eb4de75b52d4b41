"""A person looks at a skillbook with `ace view`, in a real browser, with and without JavaScript."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from ace import Skillbook
from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import SampleKey
from tests.server.pages.checks import (
    check_every_look,
    check_focus_order,
    check_nothing_executed,
    check_screenshot,
    follow,
)
from tests.server.pages.conftest import NewPage, View
from tests.server.pages.learned_book import script
from tests.server.pages.payloads import GROUPS
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

both = pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])
ROOT = Path(__file__).resolve().parents[3]


@both
def test_find_a_skill_and_follow_it_to_its_trace_and_its_proof(
    learned: Path, view: View, new_page: NewPage, scripts: bool
) -> None:
    page = new_page(java_script_enabled=scripts)
    page.goto(view(learned))
    follow(page.get_by_role("link", name="Skills", exact=True))
    page.get_by_label("Search in ids, sections and texts").fill("euros okafor")
    page.get_by_role("button", name="Apply").click()
    rows = page.locator("table.skills tbody tr")
    rows.first.locator("mark").first.wait_for()
    assert rows.count() == 1
    page.wait_for_url(re.compile(r"q=euros\+okafor"))
    follow(rows.first.get_by_role("link").first)
    assert page.locator(".statement").inner_text() == "Bills above 800 euros are paid by Okafor."
    proof = page.locator("#proof")
    assert "Who pays a bill over 700 euros?" in proof.inner_text()
    assert "No, bills above 500 euros are paid by Okafor." in proof.inner_text()
    assert proof.locator(".badge").first.inner_text() == "passed"
    change = page.locator("#history li").filter(has=page.locator("del"))
    assert (change.locator("del").inner_text(), change.locator("ins").inner_text()) == ("500", "800")
    assert "ace skillbook edit" in change.inner_text()
    follow(page.locator("#traces a").first)
    assert page.get_by_role("heading", level=1).inner_text().endswith("monday.jsonl#2")
    assert "Anna" in page.locator("main").inner_text()
    follow(page.get_by_role("link", name=re.compile(r"^version \d+$")))
    assert "added" in page.locator("main").inner_text()
    follow(page.get_by_role("link", name="The skills at this version"))
    assert page.locator("table.skills tbody tr").count() == 2


def test_typing_in_the_search_swaps_the_table_without_a_reload(learned: Path, view: View, new_page: NewPage) -> None:
    page = new_page()
    page.goto(f"{view(learned)}/books/skills")
    page.evaluate("() => { window.same = true; }")
    page.get_by_label("Search in ids, sections and texts").press_sequentially("courier")
    page.wait_for_url("**/books/skills?q=courier*")
    rows = page.locator("table.skills tbody tr")
    rows.nth(1).wait_for(state="detached")  # a slow typist is shown what matches the first letters
    rows.locator("mark").first.wait_for()
    assert rows.count() == 1
    page.get_by_label("Section", exact=True).select_option("house")
    page.get_by_text("No skill matches").wait_for()
    assert page.evaluate("() => window.same")
    follow(page.get_by_role("link", name="Clear all filters"))
    assert page.locator("table.skills tbody tr").count() > 5


@both
def test_compare_two_versions(learned: Path, view: View, new_page: NewPage, scripts: bool) -> None:
    page = new_page(java_script_enabled=scripts)
    page.goto(f"{view(learned)}/books/skills/versions")
    page.get_by_label("From version").fill("2")
    page.get_by_label("To version").fill("4")
    follow(page.get_by_role("button", name="Compare"))
    added = page.locator("section", has=page.get_by_role("heading", name="Added"))
    assert added.locator("ins").all_inner_texts() == [
        "Give a broken crate the label K7-RED.",
        "Never take back mixed or opened paint; offer 10 % on the next tin instead.",
    ]
    follow(page.get_by_role("link", name="Swap"))
    removed = page.locator("section", has=page.get_by_role("heading", name="Removed"))
    assert removed.locator("del").count() == 2
    page.get_by_label("To version").fill("1")
    page.get_by_label("From version").fill("1")
    follow(page.get_by_role("button", name="Compare"))
    assert "The skills are the same in both versions." in page.locator("main").inner_text()


def test_watch_a_run_progress(view: View, new_page: NewPage, tmp_path: Path) -> None:
    gate = threading.Event()

    def waiting(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if "LAST TRACE" in request.text and request.role == "reflector":
            assert gate.wait(300)
        return script(request)

    traces = [{"question": f"Which label gets crate {number}?", "answer": "broken"} for number in range(3)]
    traces.append({"question": "LAST TRACE", "answer": "none"})
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, traces)), encoding="utf-8")
    with ScriptedServer(waiting) as server:
        options = ["--model", "openai/scripted", "--api-base", server.api_base, "--skillbook", "skills.db", "--yes"]
        learning = subprocess.Popen(
            [str(ACE), "learn", "traces.jsonl", *options],
            cwd=tmp_path,
            env=command_environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not server.by_role("reflector"):  # the run has begun
                assert learning.poll() is None
                time.sleep(0.01)
            page = new_page()
            page.goto(f"{view('skills.db')}/books/skills/runs")
            assert page.locator("tbody .badge").inner_text() == "running"
            follow(page.locator("tbody a").first)
            page.evaluate("() => { window.same = true; }")
            page.get_by_text(re.compile(r"3 of 4 done")).wait_for()
            gate.set()
            page.get_by_text(re.compile(r"4 of 4 done")).wait_for()
            page.locator("dd .badge", has_text="finished").wait_for()
            assert page.evaluate("() => window.same")
            assert page.locator("#progress").get_attribute("hx-trigger") is None
        finally:
            gate.set()
            learning.wait()


PAGES = {
    "overview": "/",
    "skills": "/books/skills",
    "no match": "/books/skills?q=nothing+fits+this",
    "skill": "/books/skills/skills/house-00002",
    "versions": "/books/skills/versions",
    "version": "/books/skills/versions/1",
    "compare": "/books/skills/compare",
    "runs": "/books/skills/runs",
    "error": "/books/skills/skills/none",
    "no such page": "/nothing",
}


def test_every_page_looks_right_in_every_way(learned: Path, view: View, new_page: NewPage) -> None:
    url = view(learned)
    page = new_page()
    check_every_look(page, url, [*PAGES.values(), *links_of(page, url)], name="view")


def test_an_empty_book_and_a_file_look_right_too(view: View, new_page: NewPage, tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "new.db"):
        pass
    Skillbook().save_to_file(tmp_path / "team.json")
    pages = ["/", *(f"/books/new{suffix}" for suffix in ("", "/versions", "/compare", "/runs"))]
    check_every_look(new_page(), view("new.db"), pages, name="new.db")
    check_every_look(new_page(), view("team.json"), ["/", "/books/team/versions"], name="team.json")


def links_of(page: Page, url: str) -> list[str]:
    """A trace and a run, whose addresses have names that differ from one book to the next."""
    page.goto(f"{url}/books/skills/runs")
    run = page.locator("tbody a").last.get_attribute("href") or ""
    page.goto(url + run)
    return [run, page.locator("tbody a").first.get_attribute("href") or ""]


def test_the_tab_key_follows_the_page(learned: Path, view: View, new_page: NewPage) -> None:
    url = view(learned)
    page = new_page()
    for path in ("/", "/books/skills", "/books/skills/skills/house-00002", "/books/skills/compare"):
        page.goto(url + path)
        check_focus_order(page)


def test_markup_is_displayed_and_never_executed(view: View, new_page: NewPage, tmp_path: Path) -> None:
    texts = ["\n".join(group) for group in GROUPS]
    with Skillbook.open(tmp_path / "bad.db") as book:
        for number, text in enumerate(texts):
            with book.deferred_commits():
                case = SkillCase.make(text, CaseCheck("contains", text), wrong=text, correction=text)
                source = InsightSource(f"h@{text}", text, 1, 1, text, text, text)
                skill = book.add_skill(
                    text, text, justification=text, evidence=text, insight_source=source, cases=[case]
                )
                book.commit(author=text, key=SampleKey(text, 1, f"h@{text}"))
            book.update_skill(skill.id, content=f"{text} again")
            book.commit(author=f"{text}{number}")
        ids = [skill.id for skill in book.skills()]
    url = view("bad.db")
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    page.goto(f"{url}/books/bad")
    shown = page.locator("table.skills td.text").all_inner_texts()
    assert shown == [" ".join(f"{text} again".split()) for text in texts]
    check_nothing_executed(page)
    for path in ("/", "/books/bad/versions", "/books/bad/compare?from=1", "/books/bad/runs"):
        page.goto(url + path)
        check_nothing_executed(page)
    for skill_id, text in zip(ids, texts, strict=True):
        page.goto(f"{url}/books/bad/skills/{quote(skill_id, safe='')}")
        assert page.locator(".statement").inner_text() == f"{text} again"
        check_nothing_executed(page)
        follow(page.locator("#traces a").first)
        assert page.get_by_role("heading", level=1).inner_text().strip() == " ".join(text.split())
        check_nothing_executed(page)


def test_the_screenshots_of_the_guide_show_what_is_there_now(
    learned: Path, view: View, new_page: NewPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set ACE_UPDATE_SCREENSHOTS=1 to take them again."""
    monkeypatch.chdir(learned.parent)
    url = view(learned.name)
    taken = {
        "overview.png": (1100, "light", "/", "What was learned"),
        "skill.png": (1100, "light", "/books/skills/skills/house-00002", "house-00002"),
        "skills-narrow-dark.png": (360, "dark", "/books/skills?proof=proven", "Skills"),
    }
    for name, (width, scheme, path, heading) in taken.items():
        page = new_page(width, color_scheme=scheme)
        page.goto(url + path)
        assert page.get_by_role("heading", level=1).inner_text() == heading
        check_screenshot(page, name)
    guide = (ROOT / "docs" / "how-to" / "see-what-was-learned.md").read_text(encoding="utf-8")
    service = {"run.png", "review.png"}  # of `test_service.py`
    assert set(re.findall(r"_static/pages/(\S+\.png)", guide)) == {*taken, *service}
