"""Secrets that the agent types come back in addresses and on pages, as a browser writes them."""

from __future__ import annotations

import html
import subprocess
from pathlib import Path

from ace.redaction import redact


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
