"""The guide, line by line: its blocks with real Chromium and a site behind HTTPS, and its commands."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from ace_browser_use import history_to_trace
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.docs.markdown_examples import examples_in, run_examples
from tests.support.command_line import Done, ace
from tests.support.scripted_server import ScriptedServer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "learn-with-browser-use.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""  # it is not beside the tests of a wheel
HOST = "harbour.example"


@pytest.fixture
def office(tmp_path: Path, chromium: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The site of the page, under its own name: the installed browser is one that finds it there."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Site(tls=context) as site:
        rules = f"MAP {HOST}:443 127.0.0.1:{site.port}, MAP * ^NOTFOUND, EXCLUDE 127.0.0.1"
        words = [chromium, "--ignore-certificate-errors", f"--host-resolver-rules={rules}"]
        wrapper = tmp_path / "bin" / "chromium"
        wrapper.parent.mkdir()
        # browser-use does not know the new tab page of Debian's Chromium: it closes it, and may then hang.
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@" about:blank\n', encoding="utf-8")
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
        yield site


@pytest.mark.usefixtures("no_browser_is_left")
def test_the_first_block_learns_at_the_site_that_it_names(
    office: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = re.findall(r"^```py\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with ScriptedServer(harbour.script) as server, contextlib.redirect_stdout(printed):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        page: dict[str, Any] = {}
        exec(compile(block, str(PAGE), "exec"), page)
        models = {request.model for request in server.requests if harbour.is_of_browser(request)}
        learners = {request.model for request in server.requests if request.role}
    assert (models, learners) == ({"gpt-4o"}, {"gpt-4o-mini"})
    assert [result.error for result in page["results"]] == [None, None]
    assert printed.getvalue().startswith("By the agent's own word, the task was done")
    assert office.booked == ["Ada"]
    assert office.asked[0] == "/", "the address in the task is opened first"
    assert harbour.RULE in (folder / "skills.json").read_text(encoding="utf-8")


def test_the_commands_and_blocks_on_skills_of_a_site_and_on_stored_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(PAGE)
    assert len(examples_in(TEXT)) == 2
    commands = [shlex.split(words) for words in re.findall(r"`ace ([^`]+)`", TEXT)]
    assert [words[:2] for words in commands] == [
        ["skillbook", "add"],
        ["skillbook", "log"],
        ["skillbook", "rollback"],
        ["learn"],
    ]
    add, log, rollback, learn = commands

    def run(*words: str, **environ: str) -> Done:
        done = ace(*words, folder=tmp_path, environ=environ)
        assert done.code == 0, done.err
        return done

    run(*add)
    with Skillbook.open(tmp_path / "skills.db") as skills:
        [skill] = skills.skills()
        assert (skill.section, skill.content) == (f"site:{HOST}", "Accept the cookies first.")
        skills.apply_update(UpdateBatch("", [UpdateOperation("REMOVE", skill_id=skill.id)]))  # as an expiry does
    removed = re.search(r"^ +(\d+) .* 1 deleted$", run(*log).out, re.MULTILINE)
    assert removed
    run(*(word.replace("VERSION", str(int(removed[1]) - 1)) for word in rollback), "--yes")
    with Skillbook.open(tmp_path / "skills.db") as skills:
        assert [stored.content for stored in skills.skills()] == ["Accept the cookies first."]

    with ScriptedServer(harbour.script) as server:
        environ = {"OPENAI_API_KEY": "sk-scripted-0123456789", "OPENAI_BASE_URL": server.api_base}
        run(*learn, "run.json", "--model", "openai/scripted", **environ)
        [reflection] = server.by_role("reflector")
    assert "by its own word, the agent did not succeed: I see no form." in reflection.text


def test_the_table_of_failures_says_what_the_feedback_says() -> None:
    def step(number: int, *, error: str = "", **state: Any) -> dict[str, Any]:
        result = {"is_done": False, "error": error or None}
        return {"model_output": None, "result": [result], "state": state, "metadata": {"step_number": number}}

    gave_up = {"is_done": True, "success": False, "extracted_content": "I see no form."}
    unreachable = "Navigation failed - site unavailable: http://127.0.0.1/"
    error = "Error code: 500 - the model is ill"
    for history, row in (
        (
            [{"model_output": None, "result": [gave_up], "state": {}}],
            "`by its own word, the agent did not succeed: ...`",
        ),
        ([step(1, error=unreachable)], "`step 1: a page did not load: Navigation failed - site unavailable: ...`"),
        (
            [step(1, error=error), step(2, error=error), step(3, error=error)],
            "`steps 1 to 3: the model failed: Error code: 500 - ...`",
        ),
    ):
        assert row in TEXT
        told = history_to_trace({"history": history}, "Book a berth")["feedback"]
        assert row.strip("`").removesuffix("...") in told
