"""Secrets that the agent types come back in addresses and on pages, as a browser writes them."""

from __future__ import annotations

import html
import json
import subprocess
from pathlib import Path

import pytest

from ace.redaction import redact
from ace_browser_use import history_to_trace


def test_what_chromium_writes_is_found(chromium: str, tmp_path: Path) -> None:
    """A real form, sent with GET by a real browser: the address that it asks for, and the page that it shows."""
    secret = "Sum*mer ~2026!'(tom&jerry)\"<é€>"
    page = tmp_path / "form.html"
    page.write_text(
        f'<meta charset="utf-8"><form action="done.html"><input name="pw" value="{html.escape(secret)}"></form>'
        "<script>document.forms[0].submit()</script>",
        encoding="utf-8",
    )
    (tmp_path / "done.html").write_text(
        "<p></p><a></a><script>document.querySelector('p').textContent = location.href;"
        "document.querySelector('a').href = location.href;"
        "document.querySelector('a').title = new URL(location).searchParams.get('pw');</script>",
        encoding="utf-8",
    )
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [
            chromium,
            *arguments,
            "--allow-file-access-from-files",
            "--virtual-time-budget=3000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "pw=" in done.stdout, done.stderr
    assert "Sum*mer" in done.stdout and "%7E2026" in done.stdout
    redacted = redact(done.stdout, [secret])
    assert redacted.count("[hidden: secret]") == 3
    assert "2026" not in redacted and "jerry" not in redacted


def login(field: dict[str, str] | None, typed: str, address: str) -> dict[str, object]:
    """A history of two steps, as browser-use stores it: the agent types into a field, and is on another page then."""
    element = None if field is None else {"node_name": "INPUT", "attributes": field}
    first = {
        "model_output": {"action": [{"input": {"index": 2, "text": typed}}]},
        "result": [{"extracted_content": f"Typed {typed}"}],
        "state": {"url": "http://shop.test/", "title": "Login", "tabs": [], "interacted_element": [element]},
    }
    second = {
        "model_output": {"action": [{"done": {"text": f"I am on {address}", "success": True}}]},
        "result": [{"is_done": True, "success": True, "extracted_content": f"I am on {address}"}],
        "state": {"url": address, "title": "Shop", "tabs": [{"url": address}], "interacted_element": [None]},
    }
    return {"history": [first, second]}


@pytest.mark.parametrize(
    ("field", "typed", "address", "secret"),
    [
        (
            {"type": "password", "name": "pw"},
            "<secret>shop</secret>",
            "http://x.test/?user=a&pw=plainword",
            "plainword",
        ),
        ({"type": "text", "name": "door"}, "<secret>code</secret>", "http://x.test/in?door=North%20gate&x=1", "North"),
        ({"type": "text", "id": "answer"}, "<secret>pet</secret>", "http://x.test/#answer=Rex", "Rex"),
        (None, "<secret>kennel</secret>", "http://x.test/?kennel=Rex+the+dog", "Rex"),
        ({"type": "password"}, "correct horse", "http://x.test/", "correct horse"),
        ({"type": "password", "name": "k"}, "plainword", "http://x.test/?k=plainword", "plainword"),
        ({"type": "password", "name": "k"}, "Rex & dog", "http://x.test/?q=Rex+%26+dog", "Rex"),
    ],
)
def test_what_a_stored_history_shows_to_be_secret_is_hidden(
    field: dict[str, str] | None, typed: str, address: str, secret: str
) -> None:
    trace = history_to_trace(login(field, typed, address), "Log in.")
    assert secret not in json.dumps(trace)
    assert "x.test" in json.dumps(trace)


def test_what_is_typed_into_other_fields_is_kept() -> None:
    trace = history_to_trace(login({"type": "text", "name": "q"}, "red lamp", "http://x.test/?q=red+lamp"), "Search.")
    assert "red lamp" in json.dumps(trace) and "q=red+lamp" in json.dumps(trace)
