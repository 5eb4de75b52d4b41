"""`ace view` shows one skillbook, from a file or a store, and changes nothing."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import re
import shutil
import socket
from collections import Counter
from pathlib import Path

import httpx
import pytest

from ace import LiteLLMClient, Skillbook, TraceAnalyser
from ace.protocols import GateVerdict
from tests.server.pages.conftest import View
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.postgres_server import PostgresServer
from tests.support.scripted_server import ScriptedServer


def commands(page: str) -> list[str]:
    """Return the commands that a page shows to copy."""
    return [
        re.sub(r"<[^>]+>", "", html.unescape(command)) for command in re.findall(r'class="command">(.*?)</code>', page)
    ]


def test_a_store_is_shown_and_not_changed(learned: Path, view_command: View, tmp_path: Path) -> None:
    book = Path(shutil.copytree(learned.parent, tmp_path / "copy")) / learned.name
    before = hashlib.sha256(book.read_bytes()).hexdigest()
    url = view_command(book)
    for path in ("/", "/books/skills", "/books/skills/versions", "/books/skills/compare", "/books/skills/runs"):
        assert httpx.get(url + path).status_code == 200, path
    with Skillbook.open(book) as opened:
        newest = [entry for entry in opened.history() if entry.events][-8:]
    shown = re.findall(r"<strong><a href=\"/books/skills/versions/(\d+)", httpx.get(url).text)
    assert shown == [str(entry.version) for entry in reversed(newest)]
    assert "Bills above 800 euros are paid by Okafor." in httpx.get(f"{url}/books/skills").text
    assert hashlib.sha256(book.read_bytes()).hexdigest() == before


def test_the_list_of_versions_says_what_they_changed_and_filters_by_no_author_unasked(
    learned: Path, view: View
) -> None:
    page = httpx.get(f"{view(learned)}/books/skills/versions").text
    assert "Never take back mixed or opened paint; offer 10 % on the next tin instead." in page
    assert '<option value="trace_analyser">trace_analyser</option>' in page and " selected" not in page


def test_every_kind_of_link_leads_to_a_page(learned: Path, view: View) -> None:
    from html.parser import HTMLParser

    class Links(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found += [value for name, value in attrs if name in ("href", "src") and value]

    url = view(learned)
    seen: dict[str, int] = {}
    kinds_seen: Counter[str] = Counter()  # links that differ only in numbers lead to the same kind of page
    waiting = ["/"]
    with httpx.Client(base_url=url) as client:
        while waiting:
            path = waiting.pop()
            kind = re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", path)
            if path in seen or kinds_seen[kind] >= 3:
                continue
            kinds_seen[kind] += 1
            answer = client.get(path)
            seen[path] = answer.status_code
            if answer.headers["content-type"].startswith("text/html"):
                links = Links()
                links.feed(answer.text)
                waiting += [link for link in links.found if link.startswith("/")]
                assert [link for link in links.found if not link.startswith(("/", "#"))] == []
    assert {path: status for path, status in seen.items() if status != 200} == {}
    kinds = ("/books/skills/skills/", "/books/skills/versions/", "/books/skills/trace", "/books/skills/run?")
    assert all(any(path.startswith(kind) for path in seen) for kind in kinds)


def test_the_page_follows_the_book(learned: Path, view: View, tmp_path: Path) -> None:
    book = Path(shutil.copytree(learned.parent, tmp_path / "copy")) / learned.name
    url = view(book)
    version = httpx.get(f"{url}/books/skills/versions").text
    with Skillbook.open(book) as written:
        skill = written.add_skill("weather", "Check the <b>wind</b> first.")
        added = written.version
    assert f"/books/skills/versions/{added}" not in version
    shown = httpx.get(f"{url}/books/skills/skills/{skill.id}").text
    assert "Check the &lt;b&gt;wind&lt;/b&gt; first." in shown
    assert f"/books/skills/versions/{added}" in shown


def test_a_json_file_is_shown_with_the_command_that_gives_it_a_history(view: View, tmp_path: Path) -> None:
    book = Skillbook()
    book.add_skill("maths", "Check the units.")
    book.save_to_file(tmp_path / "team.json")
    url = view("team.json")
    assert "Check the units." in httpx.get(f"{url}/books/team").text
    for page in ("versions", "compare", "runs"):
        assert "skills.db" in httpx.get(f"{url}/books/team/{page}").text
    assert commands(httpx.get(f"{url}/books/team/versions").text) == [
        "ace skillbook merge team.json --output skills.db"
    ]
    book.add_skill("maths", "Round at the end.")
    book.save_to_file(tmp_path / "team.json")
    assert "Round at the end." in httpx.get(f"{url}/books/team").text


def test_a_book_in_postgres_is_shown_without_its_password(view_command: View) -> None:
    with PostgresServer() as server:
        location = f"{server.address}?book=support"
        with Skillbook.open(location) as book:
            skill = book.add_skill("maths", "Check the units.")
            book.tag_skill(skill.id, "helpful")
        url = view_command(location)
        shown = httpx.get(f"{url}/books/skills/skills/{skill.id}").text + httpx.get(url).text
        assert "Check the units." in shown
        assert "/books/skills/versions/2" in shown
        assert "s3cret-pa55word" not in shown


def test_an_empty_store_shows_the_next_command(view: View, tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "new.db") as book:
        assert len(book) == 0
    url = view("new.db")
    for page in ("", "/books/new", "/books/new/versions", "/books/new/compare", "/books/new/runs"):
        assert "ace learn logs/ --skillbook new.db" in commands(httpx.get(url + page).text), page
    add = 'ace skillbook add SECTION "What to do" --skillbook new.db'
    assert add in commands(httpx.get(f"{url}/books/new").text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.db"], "no such skillbook: 'missing.db'"),
        (["--port", "70000", "book.json"], "--port must be a number from 0 to 65535, got 70000"),
        (["nosuch://team"], "no store is installed for 'nosuch://team'"),
    ],
)
def test_a_mistake_is_explained(arguments: list[str], said: str, tmp_path: Path) -> None:
    Skillbook().save_to_file(tmp_path / "book.json")
    done = ace("view", "--no-open", *arguments, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    Skillbook().save_to_file(tmp_path / "book.json")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ace("view", "book.json", "--no-open", "--port", str(port), folder=tmp_path)
    assert done.code == 2
    assert f"127.0.0.1:{port} cannot be opened" in done.err


def test_other_host_names_are_rejected_and_headers_are_set(learned: Path, view: View) -> None:
    url = view(learned)
    rejected = httpx.get(f"{url}/books/skills", headers={"Host": "evil.example"})
    assert rejected.status_code == 400
    assert "Okafor" not in rejected.text
    for answer in (rejected, httpx.get(url), httpx.get(f"{url}/nowhere"), httpx.get(f"{url}/static/ace.css")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    port = url.rpartition(":")[2]
    assert httpx.get(url, headers={"Host": f"localhost:{port}"}).status_code == 200


def test_what_does_not_exist_is_said(learned: Path, view: View) -> None:
    url = view(learned)
    missing = {
        "/books/other": "No skillbook &#39;other&#39; is shown here",
        "/books/skills/skills/no-00001": "no skill &#39;no-00001&#39;",
        "/books/skills?version=9999": "no version 9999",
        "/books/skills/versions/9999": "no changes in a version 9999",
        "/books/skills/run?id=x": "no run &#39;x&#39;",
        "/books/skills/trace?id=x": "nothing from a trace &#39;x&#39;",
        "/books/skills/skills.xml": "the formats are csv and json.",
        "/nothing": "The page /nothing does not exist.",
    }
    for path, said in missing.items():
        answer = httpx.get(url + path)
        assert answer.status_code == 404, path
        assert said in answer.text
        assert 'href="/books/skills/versions"' in answer.text  # the way back
    assert httpx.post(f"{url}/books/skills").status_code == 405


def test_a_table_is_exported_as_it_is_filtered(learned: Path, view: View) -> None:
    url = view(learned)
    rows = list(csv.DictReader(io.StringIO(httpx.get(f"{url}/books/skills/skills.csv?q=send").text)))
    assert {row["content"] for row in rows} >= {"Send glass by courier."}
    assert all("send" in row["content"].casefold() for row in rows)
    skills = json.loads(httpx.get(f"{url}/books/skills/skills.json?proof=proven&sort=-helpful").text)
    assert [skill["proof"] for skill in skills] == ["proven"] * len(skills)
    assert [skill["helpful"] for skill in skills] == sorted((skill["helpful"] for skill in skills), reverse=True)


def test_every_table_of_a_book_is_exported(learned: Path, view: View) -> None:
    client = httpx.Client(base_url=view(learned))

    def rows(path: str) -> list[dict[str, str]]:
        answer = client.get(f"{path}format=csv")
        assert answer.headers["content-disposition"].endswith('.csv"')
        records = client.get(f"{path}format=json").json()
        found = list(csv.DictReader(io.StringIO(answer.text)))
        as_text = [{name: "" if value is None else str(value) for name, value in record.items()} for record in records]
        assert found == as_text
        return found

    versions = rows("/books/skills/versions?q=train.jsonl&")
    assert {row["author"] for row in versions} == {"ace"}
    assert all("train.jsonl" in row["sample"] for row in versions)
    with Skillbook.open(learned) as book:  # how many versions there are depends on what is installed
        edit = next(entry for entry in book.history() if entry.author == "ace skillbook edit")
    [edited] = rows(f"/books/skills/compare?from={edit.version - 1}&to={edit.version}&")
    assert (edited["change"], edited["after"]) == ("changed", "Bills above 800 euros are paid by Okafor.")
    runs = rows("/books/skills/runs?")
    assert [row["state"] for row in runs] == ["finished", "failures", "finished"]
    assert rows("/books/skills/runs?state=failures&") == [runs[1]]
    assert rows("/books/skills/runs?q=monday.jsonl%232&") == [runs[2]]
    assert "No run matches" in client.get("/books/skills/runs?q=nothing").text
    samples = rows(f"/books/skills/run?id={runs[1]['run']}&")
    assert [row["outcome"] for row in samples].count("failed") == 1


def test_a_run_tells_the_samples_that_taught_something_from_the_others(learned: Path, view: View) -> None:
    with Skillbook.open(learned) as book:
        runs = {entry.key.run for entry in book.history() if entry.key is not None}
        [run] = [name for name in runs if name.startswith("train-")]
        entries = [entry for entry in book.history() if entry.key is not None and entry.key.run == run]
    samples = [entry for entry in entries if entry.key is not None and "train.jsonl" in entry.key.sample]
    taught = [entry for entry in samples if entry.events]
    assert 0 < len(taught) < len(samples)
    client = httpx.Client(base_url=view(learned))
    page = client.get("/books/skills/run", params={"id": run}).text
    assert f"{len(taught)} learned, {len(samples) - len(taught)} without a change" in page
    assert page.count('<span class="badge no-change">') == len(samples) - len(taught)
    [row] = csv.DictReader(io.StringIO(client.get(f"/books/skills/runs?format=csv&q={run}").text))
    assert (row["learned"], row["no_change"]) == (str(len(taught)), str(len(samples) - len(taught)))
    skills = [re.findall(r'class="id" href="[^"]*">([^<]+)', row) for row in page.split("<tr>")[2:]]
    assert all(len(skill) == len(set(skill)) for skill in skills)  # a skill that was updated and tagged is named once


def test_a_run_shows_its_times_its_cost_and_why_samples_failed(learned: Path, view: View) -> None:
    client = httpx.Client(base_url=view(learned))
    [failed] = csv.DictReader(io.StringIO(client.get("/books/skills/runs?format=csv&state=failures").text))
    assert (int(failed["model_calls"]) > 0, int(failed["tokens"]) > 0, failed["cost_usd"]) == (True, True, "")
    page = html.unescape(client.get("/books/skills/run", params={"id": failed["run"]}).text)
    assert f"{failed['model_calls']} ({int(failed['tokens']):,} tokens, unpriced)" in page
    steps = page.partition('id="steps"')[2].partition("</section>")[0]
    assert re.search(r'ReflectStep <span class="faint small">4 calls, <span class="down">1 failed', steps)
    assert "UpdateStep" in steps
    assert re.search(r"ReflectStep: [^<]*the record cannot be read", page)
    samples = csv.DictReader(io.StringIO(client.get(f"/books/skills/run?format=csv&id={failed['run']}").text))
    assert ["the record cannot be read" in row["problem"] for row in samples].count(True) == 1


def test_a_comparison_says_what_differs_of_every_changed_skill(learned: Path, view: View) -> None:
    page = httpx.get(f"{view(learned)}/books/skills/compare?from=3").text
    changed = page.partition("<h2>Changed</h2>")[2].partition("</section>")[0].split("<li>")[1:]
    assert len(changed) >= 3
    for change in changed:
        assert "<ins>" in change or change.count("<p") > 1, change


def test_what_was_found_at_the_end_of_a_run_leads_to_the_run(view: View, tmp_path: Path) -> None:
    class KeepsOne:
        def get_similarity_report(self, skillbook: Skillbook) -> str | None:
            return None

        def consolidate(self, skillbook: Skillbook) -> None:
            first, *others = skillbook.skills()
            skillbook.merge_skills(first.id, [skill.id for skill in others])

    with Skillbook.open(tmp_path / "skills.db") as book, ScriptedServer(learning_script()) as server:
        client = LiteLLMClient("openai/scripted", api_base=server.api_base, api_key="k", max_retries=0)
        runner = TraceAnalyser.from_client(client, skillbook=book, dedup_manager=KeepsOne(), unproven="keep")
        runner.run([{"question": "What about tides?", "answer": "unknown", "feedback": "LESSON tides, LESSON winds"}])
        assert runner.failures == []
    pages = httpx.Client(base_url=view("skills.db"))
    versions = pages.get("/books/skills/versions").text
    assert "end after" not in versions
    found = re.search(r'at the end of run <a href="([^"]+)"', versions)
    assert found is not None
    assert pages.get(html.unescape(found[1])).status_code == 200


def test_the_history_of_a_skill_names_its_cases_by_their_questions(learned: Path, view: View) -> None:
    page = httpx.get(f"{view(learned)}/books/skills/skills/house-00002").text
    history = page.partition('id="history"')[2]
    assert "case “Who pays a bill over 700 euros?” passed" in history


def test_a_run_shows_what_a_gate_has_refused(view: View, tmp_path: Path) -> None:
    class NothingNew:
        def judge(self, *, skillbook: object, batch: object) -> GateVerdict:
            return GateVerdict(False, "nothing new before <Friday>", {}, {})

    with (
        Skillbook.open(tmp_path / "skills.db") as book,
        ScriptedServer(learning_script()) as server,
    ):
        client = LiteLLMClient("openai/scripted", api_base=server.api_base, api_key="k", max_retries=0)
        runner = TraceAnalyser.from_client(client, skillbook=book, gate=NothingNew(), prove=False)
        runner.run(
            [{"question": "What about tides?", "answer": "unknown", "feedback": "LESSON tides"}], run_id="monday"
        )
        assert runner.failures == []
    shown = httpx.get(f"{view('skills.db')}/books/skills/run?id=monday").text
    gates = shown.partition('id="gates"')[2].partition("</section>")[0]
    assert "nothing new before &lt;Friday&gt;" in gates
    assert "1 change " in gates
    assert "/books/skills/versions/1" in gates


def test_a_formula_in_a_skill_stays_text_in_a_spreadsheet(view: View, tmp_path: Path) -> None:
    book = Skillbook()
    book.add_skill("maths", '=HYPERLINK("https://evil.example")')
    book.save_to_file(tmp_path / "team.json")
    url = view("team.json")
    [row] = csv.DictReader(io.StringIO(httpx.get(f"{url}/books/team/skills.csv").text))
    assert row["content"] == '\'=HYPERLINK("https://evil.example")'
