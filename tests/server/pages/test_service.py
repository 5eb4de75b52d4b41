"""The pages of the service: login, forms, and what a person does with them in a real browser."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from sqlalchemy import event

import ace_server.pages
from ace.runners import run_summaries
from ace.skill import InsightSource
from ace.skillbook import SampleKey
from ace_server import audit, reviews, tables
from ace_server.experiments import Arm, arms_to_json
from ace_server.pages.sessions import COOKIE
from tests.server.conftest import StoppedClock
from tests.server.pages.checks import (
    check_every_look,
    check_focus_order,
    check_nothing_executed,
    check_screenshot,
    follow,
)
from tests.server.pages.conftest import NewPage
from tests.server.pages.payloads import GROUPS
from tests.server.pages.service_world import World, running_world
from tests.support.command_line import Run

TEMPLATES = sorted((Path(ace_server.pages.__file__).parent / "templates").glob("*.html"))
STEPS = json.dumps(
    {
        "ReflectStep": {"calls": 4, "failed": 1, "seconds": 61.25},
        "UpdateStep": {"calls": 3, "failed": 0, "seconds": 14.5},
        "GateStep": {"calls": 3, "failed": 0, "seconds": 0.012},
    }
)
TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
both = pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])


@pytest.fixture
def world(learned: Path, tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path, learned) as started:
        yield started


def logged_in(world: World, secret: str) -> httpx.Client:
    client = httpx.Client(base_url=world.url)
    token = form_token(client.get("/login"))
    assert client.post("/login", data={"key": secret, "csrf": token}).status_code == 303
    return client


def form_token(answer: httpx.Response, action: str = "") -> str:
    """The token of the form with an action; without one, of the last form."""
    text = answer.text
    start = text.index(f'action="{action}"') if action else text.rindex('name="csrf"') - 5
    found = TOKEN.search(text, start)
    assert found is not None
    return found[1]


def log_in(page: object, world: World) -> None:
    from playwright.sync_api import Page

    assert isinstance(page, Page)
    page.goto(world.login())
    page.wait_for_url(f"{world.url}/")


# Login


def test_nothing_is_shown_without_a_login(world: World) -> None:
    for path in (
        "/",
        "/books/default",
        "/books/default/skills.json",
        "/review",
        "/releases",
        "/runs",
        "/audit",
        "/keys",
    ):
        answer = httpx.get(world.url + path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login"), path
        assert "Okafor" not in answer.text
    assert httpx.post(f"{world.url}/keys", data={"name": "x", "admin": "1"}).status_code == 403


def test_a_key_logs_in_with_a_cookie_that_scripts_and_other_sites_do_not_get(world: World) -> None:
    client = logged_in(world, world.key("Maren", "read"))
    assert client.get("/").status_code == 200
    token = form_token(client.get("/login"))
    again = client.post("/login", data={"key": world.key("Ole", "read"), "csrf": token})
    cookie = again.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "max-age=43200" in cookie
    assert "secure" not in cookie  # on loopback, without TLS
    assert again.headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'none'")


def test_a_wrong_key_is_rejected_recorded_and_limited(world: World, limiter_clock: StoppedClock) -> None:
    client = httpx.Client(base_url=world.url)
    for secret in ("", "ace_wrong", f"ace_{'x' * 43}", world.key("Service", "infer")):
        answer = client.post("/login", data={"key": secret, "csrf": form_token(client.get("/login"))})
        assert answer.status_code == 401
        assert COOKIE not in client.cookies
    rejected = world.rows(tables.audit, tables.audit.c.what == "login.rejected")
    assert len(rejected) == 4
    for _ in range(60):
        answer = client.post("/login", data={"key": "x", "csrf": form_token(client.get("/login"))})
        if answer.status_code == 429:
            break
    assert answer.status_code == 429


def test_a_token_logs_in_once(world: World) -> None:
    address = world.login()
    first, second = httpx.get(address), httpx.get(address)
    assert (first.status_code, COOKIE in first.cookies) == (200, True)
    assert (second.status_code, COOKIE in second.cookies) == (401, False)
    assert httpx.get(f"{world.url}/keys", cookies=dict(first.cookies)).status_code == 200


def test_a_forged_cookie_is_rejected(world: World) -> None:
    client = logged_in(world, world.key("Maren", "read"))
    value = client.cookies[COOKIE]
    payload, _, signature = value.partition(".")
    others = world.service.seal.seal('["command", "x"]').decode("ascii", "replace")
    for forged in (f"{payload[:-2]}AA.{signature}", payload, "", "x" * 500, others, f"{value}x"):
        answer = httpx.get(f"{world.url}/books/default", cookies={COOKIE: forged})
        assert answer.status_code == 303, forged


def test_a_revoked_key_ends_its_login(world: World) -> None:
    client = logged_in(world, world.key("Maren", "read"))
    admin = logged_in(world, world.key("Ada", "admin"))
    [row] = world.rows(tables.key, tables.key.c.name == "Maren")
    path = f"/keys/{row.id}/revoke"
    assert admin.post(path, data={"csrf": form_token(admin.get(path), path)}).status_code == 303
    assert client.get("/").status_code == 303


def test_a_key_that_may_only_review_logs_in_to_the_review_and_out_again(world: World) -> None:
    client = httpx.Client(base_url=world.url)
    form = {"key": world.key("Maren", "review"), "csrf": form_token(client.get("/login"))}
    first = client.post("/login", data=form).headers["location"]
    page = client.get(first)
    assert (first, page.status_code) == ("/review", 200)
    answer = client.post("/logout", data={"csrf": form_token(page, "/logout")})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert client.get("/review").status_code == 303


def test_a_cookie_is_worthless_after_the_logout(world: World) -> None:
    client, other = (logged_in(world, world.key("Maren", "review")) for _ in range(2))
    kept = dict(client.cookies)
    client.post("/logout", data={"csrf": form_token(client.get("/review"), "/logout")})
    thief = httpx.Client(base_url=world.url, cookies=kept)
    assert thief.get("/review").status_code == 303
    assert other.get("/review").status_code == 200, "another login of the same key goes on"


def test_logins_with_one_time_tokens_can_be_ended(world: World, here: Run) -> None:
    visitor = httpx.Client(base_url=world.url)
    visitor.get(world.login())
    admin = logged_in(world, world.key("Ada", "admin"))
    assert [client.get("/keys").status_code for client in (visitor, admin)] == [200, 200]
    assert here("server", "keys", "revoke", "command", "--data", world.service.settings.data).code == 0
    assert [client.get("/keys").status_code for client in (visitor, admin)] == [303, 200]


# Forms


def test_what_changed_nothing_is_not_recorded_as_a_change(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    world.key("Maren", "read")
    [key] = world.rows(tables.key, tables.key.c.name == "Maren")
    for path in (f"/releases/{world.release(1)}/publish", f"/keys/{key.id}/revoke"):
        tokens = [form_token(admin.get(path), path) for _ in range(2)]  # of two windows
        statuses = [admin.post(path, data={"csrf": token}).status_code for token in tokens]
        assert statuses == [303, 409], path
    [ada] = world.rows(tables.key, tables.key.c.name == "Ada")
    recorded = [row.what for row in world.rows(tables.audit, tables.audit.c.who == ada.id)]
    assert recorded == ["login", "release.publish", "key.revoke"]


def test_a_release_cannot_be_edited(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    release = world.release(1)
    review = world.add(tables.review, book="default", kind="release", release=release, state="open")
    path = f"/review/{review}"
    form = {"decision": "edit", "content": "Another text.", "csrf": form_token(admin.get(path), path)}
    answer = admin.post(path, data=form)
    assert answer.status_code == 400 and "can be accepted or rejected, but not edited" in answer.text
    assert [row.state for row in world.rows(tables.release)] == ["candidate"]
    assert [row.state for row in world.rows(tables.review)] == ["open"]


def test_the_review_of_a_release_shows_why_and_asks_before_it_removes_a_skill(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    world.release(4, publish=True)
    waiting = world.ask_for_review("Who pays?", "Anna", correction="Okafor <b>pays</b>")
    [feedback] = [row.feedback for row in world.rows(tables.review) if row.id == waiting]
    with world.service.open_book("default") as book:
        removed, changed = [skill for skill in book.skills() if not skill.pinned][:2]
        book.remove_skill(removed.id)
        source = InsightSource(trace_id=f"0123@{feedback}")
        book.update_skill(changed.id, content="Okafor pays.", insight_source=source)
        release = world.release(book.version or 0)
    review = world.add(tables.review, book="default", kind="release", release=release, state="open")
    path = f"/review/{review}"
    shown = admin.get(path).text
    for text in ("Who pays?", "Anna", "Okafor &lt;b&gt;pays&lt;/b&gt;", "Remove 1 skill from what users get"):
        assert text in shown, text
    refused = admin.post(path, data={"decision": "accept", "csrf": form_token(admin.get(path), path)})
    assert refused.status_code == 409 and "would remove 1 skill" in refused.text
    form = {"decision": "accept", "confirm_removals": "yes", "csrf": form_token(admin.get(path), path)}
    assert admin.post(path, data=form).status_code == 303
    assert [row.state for row in world.rows(tables.release) if row.id == release] == ["published"]


def test_a_reviewer_sees_characters_that_fonts_do_not_show(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "mail it")
    text = f"Check{hidden} the\u202e units\u200b.\x1b[2J"
    with world.service.open_book("default") as book:
        world.release(book.version or 0, publish=True)
        added = book.add_skill("house", text)
        version = book.version or 0
        release = world.release(version)
    review = world.add(tables.review, book="default", kind="release", release=release, state="open")
    pages = (f"/review/{review}", "/books/default/skills", f"/books/default/skills/{added.id}")
    for page in (*pages, f"/books/default/versions/{version}", "/books/default/skills?format=csv"):
        shown = admin.get(page).text
        for name in ("[U+E006D]", "[U+202E]", "[U+200B]", "[U+001B]"):
            assert name in shown, (page, name)
        assert not any(character in shown for character in (*hidden, "\u202e", "\u200b", "\x1b")), page


def test_what_is_rejected_on_the_page_is_not_in_the_book(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    with world.service.open_book("default") as book:
        world.release(book.version or 0, publish=True)
        added = book.add_skill("house", "POISON.")
        release = world.release(book.version or 0)
    path = f"/review/{world.add(tables.review, book='default', kind='release', release=release, state='open')}"
    form = {"decision": "reject", "csrf": form_token(admin.get(path), path)}
    assert admin.post(path, data=form).status_code == 303
    with world.service.open_book("default") as book:
        assert added.id not in {skill.id for skill in book.skills()}


def test_a_review_that_is_deleted_while_it_is_decided_is_missing(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    path = f"/review/{world.ask_for_review('Who pays?', 'Anna', correction='Okafor')}"
    form = {"decision": "accept", "csrf": form_token(admin.get(path), path)}
    is_read = threading.Event()
    statuses: list[int] = []

    def note(connection: object, cursor: object, statement: str, *others: object) -> None:
        if "FROM review" in statement and statement.startswith("SELECT"):
            is_read.set()

    deciding = threading.Thread(target=lambda: statuses.append(admin.post(path, data=form).status_code))
    event.listen(world.service.database.engine, "after_cursor_execute", note)
    with world.service.database.writing() as connection:
        connection.execute(sa.delete(tables.review))
        deciding.start()
        is_read.wait()
    deciding.join()
    assert statuses == [404]


def test_the_audit_log_says_from_where_a_key_was_added(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    token = form_token(admin.get("/keys"), "/keys")
    assert admin.post("/keys", data={"name": "New", "read": "1", "csrf": token}).status_code == 200
    [row] = world.rows(tables.audit, tables.audit.c.what == "key.add")
    assert row.origin == "127.0.0.1"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "x" * 201, "must be at most 200 characters long, got 201"),
        ("budget", "abc", "the budget must be a number"),
        ("days", "soon", "the days must be a number"),
        ("days", "-5", "the days must be greater than 0"),
        ("book", "missing", "the book does not exist"),
    ],
)
def test_a_key_that_makes_no_request_possible_is_not_added(world: World, field: str, value: str, said: str) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    token = form_token(admin.get("/keys"), "/keys")
    answer = admin.post("/keys", data={"name": "New", "read": "1", field: value, "csrf": token})
    assert (answer.status_code, said in answer.text) == (400, True), answer.text
    assert len(world.rows(tables.key)) == 1


def test_a_form_token_is_for_one_form_of_one_login_and_one_time(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    other = logged_in(world, world.key("Eve", "admin"))
    token = form_token(admin.get("/keys"), "/keys")
    form = {"name": "New", "read": "1"}
    assert other.post("/keys", data={**form, "csrf": token}).status_code == 403  # of another login
    assert admin.post("/keys", data=form).status_code == 403
    assert admin.post("/keys", data={**form, "csrf": f"{token}x"}).status_code == 403
    logout = form_token(admin.get("/keys"), "/logout")
    assert admin.post("/keys", data={**form, "csrf": logout}).status_code == 403  # of another form
    assert (
        admin.post("/keys", data={**form, "csrf": token}, headers={"Origin": "http://evil.example"}).status_code == 403
    )
    assert admin.post("/keys", data={**form, "csrf": token}).status_code == 200
    assert admin.post("/keys", data={**form, "csrf": token}).status_code == 403  # sent again
    assert [row.name for row in world.rows(tables.key)].count("New") == 1


def test_a_visitor_sees_what_the_key_allows(world: World) -> None:
    reader = logged_in(world, world.key("Maren", "read"))
    assert "/review" not in reader.get("/").text
    for path in ("/review", "/audit", "/keys", "/experiments"):
        assert reader.get(path).status_code == 403, path
    elsewhere = logged_in(world, world.key("Ole", "read", "review", book="other"))
    assert "default" not in elsewhere.get("/releases").text
    assert elsewhere.get("/books/default").status_code == 403
    review = world.ask_for_review("Who pays?", "Anna")
    assert elsewhere.get(f"/review/{review}").status_code == 404
    rejected = world.rows(tables.audit, tables.audit.c.what == "access.rejected")
    assert len(rejected) == 5


def test_other_host_names_and_paths_are_rejected(world: World) -> None:
    assert httpx.get(f"{world.url}/login", headers={"Host": "evil.example"}).status_code == 400
    missing = httpx.get(f"{world.url}/v1/nothing")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert httpx.get(f"{world.url}/healthz").json() == {"status": "ok"}


# What a person does


def test_review_twenty_items_by_keyboard(world: World, new_page: NewPage) -> None:
    ids = [world.ask_for_review(f"Question {number}?", "Anna", correction="Okafor") for number in range(20)]
    page = new_page()
    log_in(page, world)
    page.goto(f"{world.url}/review")
    page.evaluate("() => { window.same = true; }")
    for number, left in enumerate(range(20, 0, -1)):
        page.get_by_text(f"{left} left").wait_for()
        page.get_by_text(f"Question {number}?").wait_for()
        if number % 3 == 2:
            page.keyboard.press("e")
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.type(f"Petersen {number}")
            for _ in range(3):
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
        else:
            page.keyboard.press("ar"[number % 3])
    page.get_by_text("Nothing waits for you").wait_for()
    assert page.evaluate("() => window.same")  # without a reload
    rows = {row.id: row for row in world.rows(tables.review)}
    assert [rows[id].state for id in ids[:3]] == ["accepted", "rejected", "edited"]
    feedback = {row.id: row for row in world.rows(tables.feedback)}
    states = [feedback[rows[id].feedback].state for id in ids[:3]]
    assert states == ["new", "rejected", "new"]
    assert world.service.seal.open(feedback[rows[ids[2]].feedback].correction) == "Petersen 2"
    page.reload()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export decisions").click()
    exported = [json.loads(line) for line in download.value.path().read_text(encoding="utf-8").splitlines()]
    assert [record["decision"] for record in exported[:3]] == ["accepted", "rejected", "edited"]
    assert (exported[2]["question"], exported[2]["ground_truth"]) == ("Question 2?", "Petersen 2")
    newest = world.rows(tables.audit, tables.audit.c.what == "text.read")[-1]
    assert newest.object.split() == [record["id"] for record in exported]  # it names what was read
    assert audit.check(world.service.database).problem is None


@both
def test_the_keys_j_and_k_and_the_links_lead_through_the_items(world: World, new_page: NewPage, scripts: bool) -> None:
    for number in range(3):
        world.ask_for_review(f"Question {number}?", "Anna", comment="wrong")
    page = new_page(java_script_enabled=scripts)
    log_in(page, world)
    page.goto(f"{world.url}/review")
    for key, link, question in (("j", "Next", 1), ("j", "Next", 2), ("k", "Previous", 1)):
        if scripts:
            page.wait_for_load_state()
            page.keyboard.press(key)
        else:
            follow(page.get_by_role("link", name=link))
        page.get_by_text(f"Question {question}?").wait_for()
    assert page.get_by_text("Keys:").is_visible() == scripts  # without JavaScript, they would do nothing
    assert page.locator(".review-bar kbd").first.is_visible() == scripts
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("Question 2?").wait_for()
    assert page.get_by_text("2 left").count() == 1


@both
def test_the_second_reviewer_learns_who_has_decided(world: World, new_page: NewPage, scripts: bool) -> None:
    review = world.ask_for_review("Who pays?", "Anna", correction="Okafor")
    pages = []
    for name in ("Maren", "Ole"):
        page = new_page(java_script_enabled=scripts)
        page.goto(f"{world.url}/login")
        page.get_by_label("A key with the scope read or review").fill(world.key(name, "read", "review"))
        follow(page.get_by_role("button", name="Log in"))
        page.goto(f"{world.url}/review")
        pages.append(page)
    for page in pages:
        page.get_by_role("button", name="Accept").click()
        page.locator(".empty").wait_for()
    assert "Nothing waits for you" in pages[0].locator("#item").inner_text()
    assert "Already accepted\nDecided by Maren" in pages[1].locator("#item").inner_text().replace("\n\n", "\n")
    assert [row.who for row in world.rows(tables.audit, tables.audit.c.what == "review.decide")] == [
        row.decided_by for row in world.rows(tables.review, tables.review.c.id == review)
    ]


@both
def test_publish_a_candidate_and_roll_back(world: World, new_page: NewPage, scripts: bool) -> None:
    first = world.release(11, publish=True, score=0.6)
    second = world.release(30, score=0.8)
    page = new_page(java_script_enabled=scripts)
    log_in(page, world)
    follow(page.get_by_role("link", name="1 candidate to publish"))
    assert page.locator("svg.curve").count() == 1  # the score by release
    follow(page.get_by_role("link", name="Publish", exact=True))
    assert page.get_by_role("heading", level=1).inner_text() == "Publish version 30 of default?"
    assert "Send glass by courier." in page.locator("main ins").all_inner_texts()
    follow(page.get_by_role("link", name="Cancel"))
    assert {row.id: row.state for row in world.rows(tables.release)} == {first: "published", second: "candidate"}
    follow(page.get_by_role("link", name="Publish", exact=True))
    follow(page.get_by_role("button", name="Publish version 30"))
    page.wait_for_url("**/releases")
    assert {row.id: row.state for row in world.rows(tables.release)} == {first: "retired", second: "published"}
    follow(page.get_by_role("link", name="Roll back"))
    assert "Send glass by courier." in page.locator("main del").all_inner_texts()
    follow(page.get_by_role("button", name="Roll back to version 11"))
    page.wait_for_url("**/releases")
    assert {row.id: row.state for row in world.rows(tables.release)} == {first: "published", second: "retired"}
    published = world.rows(tables.audit, tables.audit.c.what == "release.publish")
    assert [row.object for row in published][-2:] == [second, first]


def test_roll_the_skillbook_back_to_a_version(world: World, new_page: NewPage) -> None:
    page = new_page()
    log_in(page, world)
    page.goto(f"{world.url}/books/default/versions/3")
    follow(page.get_by_role("link", name="Roll back to this version"))
    assert "Send glass by courier." in page.locator("main del").all_inner_texts()
    follow(page.get_by_role("button", name="Roll back to version 3"))
    page.get_by_text("rolled back to version 3").first.wait_for()
    with world.service.open_book("default") as book:
        assert len(book) == 3
        [release] = world.rows(tables.release)
        assert (release.version, release.state) == (book.version, "published")
        assert book.history()[-1].author == "one-time token"
    assert [row.object for row in world.rows(tables.audit, tables.audit.c.what == "book.restore")] == ["default 3"]


@both
def test_publish_what_was_changed_on_the_command_line(world: World, new_page: NewPage, scripts: bool) -> None:
    world.release(30, publish=True)
    with world.service.open_book("default") as book:
        book.remove_skill("house-00002")
        book.commit(author="ace skillbook remove")
        newest = book.version
    page = new_page(java_script_enabled=scripts)
    log_in(page, world)
    page.goto(f"{world.url}/books/default/versions/{newest}")
    follow(page.get_by_role("link", name="Publish this version"))
    assert page.get_by_role("heading", level=1).inner_text() == f"Publish version {newest} of default?"
    assert any("paid by Okafor" in text for text in page.locator("main del").all_inner_texts())
    follow(page.get_by_role("button", name=f"Publish version {newest}"))
    page.wait_for_url(f"**/versions/{newest}")
    published = {row.version: row.state for row in world.rows(tables.release)}
    assert published == {30: "retired", newest: "published"}
    with world.service.open_book("default") as book:
        assert book.version == newest  # no further version was made
    assert [row.object for row in world.rows(tables.audit, tables.audit.c.what == "book.publish")] == [
        f"default {newest}"
    ]
    follow(page.get_by_role("link", name="Publish this version"))
    follow(page.get_by_role("button", name=f"Publish version {newest}"))
    assert "This version is published already." in page.locator("main").inner_text()


def test_watch_a_batch_progress(world: World, new_page: NewPage) -> None:
    batch = world.add(tables.batch, book="default", state="running", samples=4, started_at=1.0)
    page = new_page()
    log_in(page, world)
    page.goto(f"{world.url}/runs")
    follow(page.locator("#runs tbody a").first)
    page.wait_for_url(f"**/runs/{batch}")
    page.evaluate("() => { window.same = true; }")
    changes: list[dict[str, object]] = [
        {"learned": 2, "model_calls": 5, "accepted": 1, "refused": 1, "steps": STEPS},
        {"learned": 3, "failed": 1, "state": "learned", "ended_at": 9.5},
    ]
    for values, text in zip(changes, ("2 of 4 done", "4 of 4 done: 3 learned, 1 failed"), strict=True):
        with world.service.database.writing() as connection:
            connection.execute(sa.update(tables.batch).values(values))
        page.get_by_text(text).wait_for()
    assert page.evaluate("() => window.same")
    assert "8.5 s" in page.locator("#progress").inner_text()
    steps = page.locator("#steps li").all_inner_texts()
    assert [" ".join(step.split()) for step in steps] == [
        "ReflectStep 4 calls, 1 failed 61.2 s 15.3 s each",
        "UpdateStep 3 calls 14.5 s 4.8 s each",
        "GateStep 3 calls 12 ms 4 ms each",
    ]
    assert "accepted for 1 sample, refused for 1" in page.locator("#gates").inner_text()
    assert page.locator("#progress").get_attribute("hx-trigger") is None


def test_watch_a_batch_progress_without_javascript(world: World, new_page: NewPage) -> None:
    batch = world.add(tables.batch, book="default", state="running", samples=4, started_at=1.0)
    page = new_page(java_script_enabled=False)
    log_in(page, world)
    page.goto(f"{world.url}/runs/{batch}")
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.batch).values(learned=4, state="learned", ended_at=9.5))
    page.get_by_text("4 of 4 done: 4 learned, 0 failed").wait_for()  # the page reloads itself until the batch has ended
    assert "http-equiv" not in page.content()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"state": "learned", "learned": 2}, True),
        ({"state": "failed", "learned": 1, "failed": 1}, True),
        ({"state": "failed", "failed": 2}, False),
        ({"state": "running", "learned": 1}, False),
    ],
)
def test_a_batch_that_has_changed_no_skill_says_so(world: World, values: dict[str, str | int], says: bool) -> None:
    reader = logged_in(world, world.key("Maren", "read"))
    batch = world.add(tables.batch, book="default", samples=2, accepted=1, **values)
    assert ("the batch has not changed any skill" in reader.get(f"/runs/{batch}").text) is says
    release = world.release(11)
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.batch).values(release=release))
    assert "the batch has not changed any skill" not in reader.get(f"/runs/{batch}").text


def test_a_skill_from_feedback_says_what_shows_it_and_reviewers_what_was_said(world: World) -> None:
    world.ask_for_review("With which carrier?", "PostNord", correction="Bring only")
    [feedback] = world.rows(tables.feedback)
    with world.service.open_book("default") as book:
        source = InsightSource(f"b4778e4e02ba5701@{feedback.id}", "", 1, 1, "trace_analyser", evidence="person")
        skill = book.add_skill("shipping", "Ship to Norway with Bring.", insight_source=source)
    for scopes, sees in ((["read"], False), (["read", "review"], True)):
        reader = logged_in(world, world.key("-".join(scopes), *scopes))
        page = reader.get(f"/books/default/skills/{skill.id}").text
        assert "A person corrected the answer of the agent." in page
        assert "unproven" not in page and "trace_analyser" not in page
        assert f"feedback {feedback.id[-6:]}</a>" in page
        assert ("With which carrier?" in page and "Bring only" in page) is sees
    read = world.rows(tables.audit, tables.audit.c.what == "text.read")
    assert [row.object for row in read] == [feedback.id]


def test_a_run_shows_reviewers_the_questions_of_its_samples(world: World) -> None:
    world.ask_for_review("With which carrier?", "PostNord", correction="Bring only")
    [said] = world.rows(tables.feedback)
    with world.service.open_book("default") as book:
        run = next(run for run in run_summaries(book) if run.samples)
    place = run.samples[0].key.sample.rpartition("@")[2]
    batch = world.add(tables.batch, id=run.run_id, book="default", state="running", samples=2)
    feedback = {"book": "default", "kind": "feedback", "request": said.request, "key": "key_1", "state": "failed"}
    world.add(tables.feedback, id=place, batch=batch, problem="LLMCallError in ReflectStep", **feedback)

    def page(*scopes: str) -> str:
        return logged_in(world, world.key("-".join(scopes), *scopes)).get(f"/runs/{batch}").text

    assert "With which carrier?" not in page("read", "review")  # it reloads itself, and would fill the audit log
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.batch).values(state="failed"))
    assert page("read", "review", "infer").count("With which carrier?") == 2  # in the failures, and in the samples
    assert "With which carrier?" not in page("read", "infer")
    read = world.rows(tables.audit, tables.audit.c.what == "text.read")
    assert [row.object for row in read] == [place]


def test_changes_are_named_by_the_questions_that_they_come_from_to_reviewers(world: World) -> None:
    world.ask_for_review("With which carrier?", "PostNord", correction="Bring only")
    [said] = world.rows(tables.feedback)
    with world.service.open_book("default") as book:
        with book.deferred_commits():
            book.add_skill("shipping", "Ship to Norway with Bring.")
            book.commit(author="ace", key=SampleKey("bat_1", 1, f"b4778e4e02ba5701@{said.id}"))
        version = book.version
    link = re.compile(r"from <a [^>]*>With which carrier\?</a>")
    pages = ["/", "/books/default/versions"]
    reviewer = logged_in(world, world.key("reviewer", "read", "review"))
    assert [len(link.findall(reviewer.get(page).text)) for page in pages] == [1, 1]
    assert "With which carrier?" in reviewer.get(f"/books/default/versions/{version}").text
    reader = logged_in(world, world.key("reader", "read"))
    for page in [*pages, f"/books/default/versions/{version}"]:
        assert "With which carrier?" not in reader.get(page).text
    read = world.rows(tables.audit, tables.audit.c.what == "text.read")
    assert [row.object for row in read] == [said.id] * 3


def test_the_releases_have_one_primary_action_and_short_ids(world: World) -> None:
    world.release(11, publish=True)
    older, newest = world.release(20), world.release(30)
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.release).values(reason="batch bat_01a22754e6c20000ea9dd3fdd5983853"))
    page = logged_in(world, world.key("Maren", "read", "review")).get("/releases").text
    assert re.findall(r'class="button main" href="/releases/(\w+)/publish"', page) == [newest]
    assert older in page and "batch 983853" in page and "bat_01a2" not in page


def test_what_answers_have_cost_is_not_invented(world: World) -> None:
    reader = logged_in(world, world.key("Maren", "read"))

    def shown() -> str:
        found = re.search(r"<dt>Answers today</dt><dd>(.*?)</dd>", reader.get("/").text)
        assert found is not None
        return re.sub("<.*?>", "", found[1])

    assert shown() == "0 $0.00"
    world.ask_for_review("Who pays?", "Anna")
    with world.service.database.writing() as connection:  # so it is of today even if the day ends meanwhile
        connection.execute(sa.update(tables.request).values(at=tables.request.c.at + 86_400))
    assert shown() == "1 $0.01"
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.request).values(cost=None))  # the price of the model is not known
    assert shown() == "1 unpriced"


def test_try_a_failed_batch_again(world: World, new_page: NewPage) -> None:
    world.ask_for_review("Who pays?", "Anna", comment="wrong")
    batch = world.add(tables.batch, book="default", state="failed", samples=1, failed=1, problem="the model is down")
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.feedback).values(state="failed", batch=batch))
    page = new_page()
    log_in(page, world)
    page.goto(f"{world.url}/runs/{batch}")
    assert "the model is down" in page.locator("main").inner_text()
    follow(page.get_by_role("button", name="Try again"))
    page.wait_for_url("**/runs")
    [row] = world.rows(tables.feedback)
    assert row.state == "batched"
    assert [row.state for row in world.rows(tables.batch)] == ["queued"]
    assert [row.object for row in world.rows(tables.audit, tables.audit.c.what == "batch.retry")] == [batch]


def test_add_and_revoke_a_key_and_start_and_stop_an_experiment(world: World, new_page: NewPage) -> None:
    releases = [world.release(11, publish=True), world.release(30)]
    page = new_page()
    log_in(page, world)
    page.goto(f"{world.url}/keys")
    page.get_by_label("Name").fill("Telephone")
    page.get_by_label("Rate (such as 60/minute)").fill("lots")
    page.get_by_label("infer").check()
    follow(page.get_by_role("button", name="Add the key"))
    assert "the rate must be a number and a time" in page.locator("main").inner_text()
    page.go_back()
    page.reload()
    page.get_by_label("Name").fill("Telephone")
    page.get_by_label("infer").check()
    follow(page.get_by_role("button", name="Add the key"))
    secret = page.locator("#secret").inner_text()
    assert re.fullmatch(r"ace_[\w-]{43}", secret)
    page.goto(f"{world.url}/keys")
    assert secret not in page.content()
    follow(page.get_by_role("row", name="Telephone").get_by_role("link", name="Revoke"))
    follow(page.get_by_role("button", name="Revoke the key"))
    assert page.get_by_role("row", name="Telephone").locator(".badge").inner_text() == "revoked"
    page.goto(f"{world.url}/experiments")
    page.get_by_label("First release").select_option(releases[0])
    page.get_by_label("Second release").select_option(releases[1])
    page.get_by_label("Share of the second (%)").fill("20")
    follow(page.get_by_role("button", name="Start"))
    assert page.locator("tbody td[data-label=share]").all_inner_texts() == ["80 %", "20 %"]
    assert page.locator("tbody td:first-child").all_inner_texts() == ["version 11", "version 30"]
    assert page.get_by_text("Start one for default").count() == 0  # before this one has been stopped
    page.get_by_label("Publish").select_option("1")
    follow(page.get_by_role("button", name="Stop the experiment"))
    page.get_by_text("winner").wait_for()
    assert {row.id: row.state for row in world.rows(tables.release)} == {
        releases[0]: "retired",
        releases[1]: "published",
    }


def test_a_review_of_a_release_says_which_one_and_what_it_scored(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    world.release(11, publish=True)
    for version, score, said in ((30, 0.8, "held-out score is 80.0 %"), (37, None, "score was not measured")):
        release = world.release(version, score=score)
        with world.service.database.writing() as connection:
            review = reviews.add_review(connection, "default", "release", reason="gate", release=release)
        page = admin.get(f"/review/{review}").text
        assert f"What publishing version {version} would change" in page
        assert said in page


def test_every_object_of_the_audit_log_leads_to_its_page(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    [ada] = [row.id for row in world.rows(tables.key)]
    objects = {
        "release.publish": world.release(11, publish=True),
        "text.read": world.ask_for_review("Who pays?", "Anna"),
        "batch.retry": world.add(tables.batch, book="default", state="queued", samples=1),
        "key.add": ada,
        "subject.delete": "anything else",
    }
    with world.service.database.writing() as connection:
        for what, target in objects.items():
            audit.record(connection, who=ada, what=what, target=target)
    page = admin.get("/audit").text
    for what, target in objects.items():
        link = re.search(rf'{what}</td><td class="text">(?:<a href="([^"]+)">)?', page)
        assert link is not None
        if what == "subject.delete":
            assert link[1] is None
            continue
        path, _, place = link[1].partition("#")
        answer = admin.get(path)
        assert answer.status_code == 200
        assert target in (place or path)
        assert not place or f'id="{place}"' in answer.text
    assert '">version 11 of default</a>' in page
    assert '">Ada</a>' in page
    batch = objects["batch.retry"]
    assert f'<code title="{batch}">batch {batch[-6:]}</code>' in page


def test_a_missing_page_keeps_the_way_back_for_those_who_are_logged_in(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin"))
    for path in ("/nothing", "/runs/bat_none", "/books/none"):
        answer = admin.get(path)
        assert (answer.status_code, 'href="/releases"' in answer.text) == (404, True), path
    assert 'href="/releases"' not in httpx.get(f"{world.url}/nothing").text


def test_the_audit_log_shows_what_was_manipulated(world: World, new_page: NewPage) -> None:
    page = new_page()
    log_in(page, world)
    follow(page.get_by_role("link", name="Audit"))
    follow(page.get_by_role("link", name="Check the chain"))
    assert "are right" in page.locator(".notice").inner_text()
    page.get_by_label("What").select_option("login")
    follow(page.get_by_role("button", name="Apply"))
    assert "what=login" in page.url
    assert page.locator("tbody tr").count() == 1
    with world.service.database.writing() as connection:
        connection.execute(sa.update(tables.audit).where(tables.audit.c.number == 1).values(who="nobody"))
    follow(page.get_by_role("link", name="Check the chain"))
    assert page.get_by_role("alert").inner_text() == "The log was manipulated: row 1 was changed."


def test_every_table_of_the_service_is_exported_to_those_who_may_see_it(world: World) -> None:
    admin = logged_in(world, world.key("Ada", "admin", rate="5/minute"))
    releases = [world.release(11, publish=True, score=0.6), world.release(30)]
    world.add(tables.batch, book="default", state="failed", samples=4, failed=4, problem="=the model is down")
    arms = [Arm(release, 50) for release in releases]
    world.add(tables.experiment, book="default", by="key_1", arms=arms_to_json(arms), state="running")

    def rows(path: str) -> list[dict[str, str]]:
        answer = admin.get(path)
        assert answer.headers["content-disposition"].endswith('.csv"')
        return list(csv.DictReader(io.StringIO(answer.text)))

    found = rows("/releases?format=csv")
    assert [(row["release"], row["state"], row["score"]) for row in found] == [
        (releases[1], "candidate", ""),
        (releases[0], "published", "0.6"),
    ]
    [run] = rows("/runs?format=csv")
    assert (run["state"], run["failed"], run["problem"]) == ("failed", "4", "'=the model is down")
    assert (rows("/runs?format=csv&state=failed"), rows("/runs?format=csv&state=learned")) == ([run], [])
    assert [row["release"] for row in rows("/experiments?format=csv")] == releases
    [key] = rows("/keys?format=csv")
    assert (key["name"], key["scopes"], key["rate"], "hash" in key) == ("Ada", "admin", "5/minute", False)
    audited = rows("/audit?format=csv&what=login")
    assert [(row["what"], row["who"]) for row in audited] == [("login", key["id"])]
    assert admin.get("/keys?format=json").json()[0]["name"] == "Ada"
    reader = logged_in(world, world.key("Maren", "read"))
    assert [reader.get(f"{path}?format=csv").status_code for path in ("/keys", "/audit", "/runs")] == [403, 403, 200]


# What holds for every page


def test_every_page_looks_right_in_every_way(world: World, new_page: NewPage) -> None:
    page = new_page()
    check_every_look(page, world.url, ["/login"], name="login")
    log_in(page, world)
    check_every_look(page, world.url, ["/", "/review", "/runs", "/releases", "/experiments"], name="empty")
    releases = [world.release(11, publish=True, score=0.6), world.release(30, score=0.8)]
    batch = world.add(
        tables.batch, book="default", state="failed", samples=4, failed=4, problem="the model is down", steps=STEPS,
        accepted=3, refused=1, release=releases[1], started_at=1_772_442_000.0, ended_at=1_772_442_075.0,
    )  # fmt: skip
    check_every_look(page, world.url, ["/experiments"], name="start-an-experiment")
    arms = [Arm(release, 50) for release in releases]
    world.add(tables.experiment, book="default", by="key_1", arms=arms_to_json(arms), state="running")
    decided = world.ask_for_review("Who pays?", "Anna", correction="Okafor")
    with world.service.database.writing() as connection:
        reviews.decide(connection, world.service.seal, decided, "accept", by="key_1")
    world.ask_for_review("Who pays?", "Anna", correction="Okafor", comment="Anna left.")
    world.key("Telephone", "infer", rate="60/minute", budget=2.5)
    [key] = world.rows(tables.key)
    check_every_look(
        page,
        world.url,
        [
            "/", "/review", "/releases", f"/releases/{releases[1]}/publish", "/runs", f"/runs/{batch}", "/experiments",
            "/audit/check", "/keys", "/books/default", "/books/default/versions",
            "/books/default/versions/3/restore", "/books/default/skills/house-00002", f"/review/{decided}",
            f"/keys/{key.id}/revoke", "/nothing",
        ],
        name="service",
    )  # fmt: skip


def test_the_tab_key_follows_the_pages_of_the_service(world: World, new_page: NewPage) -> None:
    world.release(11, publish=True)
    world.release(30)
    world.ask_for_review("Who pays?", "Anna", correction="Okafor")
    page = new_page()
    log_in(page, world)
    for path in ("/", "/review", "/releases", "/experiments", "/keys"):
        page.goto(world.url + path)
        check_focus_order(page)


def test_the_screenshots_of_the_guide_show_the_service(world: World, new_page: NewPage) -> None:
    """Set ACE_UPDATE_SCREENSHOTS=1 to take them again."""
    at = 1_772_442_000.0
    release = world.release(30, score=0.8)
    batch = world.add(
        tables.batch, id="bat_019cb01d4e01", at=at - 60, book="default", state="learned", samples=4, learned=4,
        model_calls=11, tokens=18_240, cost=0.0312, steps=STEPS, accepted=3, refused=1, release=release,
        started_at=at, ended_at=at + 41, attempts=1, worker="worker-1",
    )  # fmt: skip
    world.ask_for_review(
        "Who pays a bill over 700 euros?", "Bills over 700 euros are paid by Anna.",
        correction="Bills over 700 euros are paid by Okafor.", comment="Anna left in March.",
    )  # fmt: skip
    page = new_page(1100)
    log_in(page, world)
    for name, path in (("run.png", f"/runs/{batch}"), ("review.png", "/review")):
        page.goto(world.url + path)
        check_screenshot(page, name)


def test_markup_of_users_is_displayed_and_never_executed(world: World, new_page: NewPage) -> None:
    texts = ["\n".join(group) for group in GROUPS]
    for text in texts:
        world.ask_for_review(text, f"{text} answered", comment=text, correction=f"{text} corrected")
        for line in text.splitlines():  # the names of keys are short
            world.key(line, "read")
        world.add(tables.batch, book="default", state="failed", samples=1, problem=text)
        world.add(
            tables.release, book="default", version=len(world.rows(tables.release)), by=text, state="candidate",
            reason=text,
        )  # fmt: skip
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    log_in(page, world)
    for row, text in zip(world.rows(tables.review), texts, strict=True):
        page.goto(f"{world.url}/review/{row.id}")
        assert page.locator(".quote").first.inner_text().strip() == text
        check_nothing_executed(page)
    for row in world.rows(tables.batch):
        page.goto(f"{world.url}/runs/{row.id}")
        check_nothing_executed(page)
    for path in ("/", "/releases", "/keys", "/audit", "/runs"):
        page.goto(world.url + path)
        check_nothing_executed(page)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.name))
def test_a_template_escapes_everything_and_has_nothing_inline(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert re.findall(r"\|\s*safe|autoescape|Markup|<style|\sstyle=|\son\w+=|javascript:|hx-on|hx-vals", text) == []
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_htmx_is_the_file_that_the_reference_names() -> None:
    static = Path(ace_server.pages.__file__).parent / "static"
    digest = hashlib.sha256((static / "htmx-4.0.1.min.js").read_bytes()).hexdigest()
    assert digest == "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
    assert "Zero-Clause BSD" in (static / "htmx-LICENSE.txt").read_text(encoding="utf-8")


def test_only_the_charts_of_the_core_are_markup() -> None:
    sources = Path(ace_server.pages.__file__).parent.glob("*.py")
    marked = {path.name: len(re.findall(r"\bMarkup\(", path.read_text(encoding="utf-8"))) for path in sources}
    assert {name: count for name, count in marked.items() if count} == {"rendering.py": 2}
