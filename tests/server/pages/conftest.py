"""What the tests of the pages share: a learned skillbook, `ace view` as a process, and a real browser."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx
import pytest

from ace import Skillbook
from ace.skillbook import has_scheme
from ace_server.pages.book_reader import BookReader
from ace_server.view import view_app
from tests.requirement import missing
from tests.server.pages.learned_book import learn_book
from tests.server.pages.serving import served
from tests.support.command_line import ACE, command_environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
View = Callable[..., str]
NewPage = Callable[..., "Page"]


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The learned skillbook, which all processes of the test run share; tests that change it copy its folder."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if root.name.startswith("popen-") else root) / "learned-book"
    with _locked(folder.with_suffix(".lock")):
        if not (folder / "skills.db").exists():
            shutil.rmtree(folder, ignore_errors=True)
            learn_book(folder)
    return folder / "skills.db"


@pytest.fixture(autouse=True)
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let httpx wait longer than five seconds for a page: the machine is shared."""
    for function in (httpx.get, httpx.post, httpx.Client.__init__):
        monkeypatch.setitem(function.__kwdefaults__ or {}, "timeout", 120.0)


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[View]:
    """Serve the pages of `ace view` for a skillbook from this process, and return their address."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as started:

        def start(skillbook: Path | str) -> str:
            location = str(skillbook)
            name = "skills" if has_scheme(location) else Path(location).stem
            reader = BookReader(name, location, lambda: Skillbook.open(location))
            started.callback(reader.close)
            return started.enter_context(served(view_app(reader)))

        yield start


@pytest.fixture
def view_command(tmp_path: Path) -> Iterator[View]:
    """Start `ace view` for a skillbook, and return its address."""
    with ExitStack() as started:

        def start(skillbook: Path | str, *options: str) -> str:
            command = [str(ACE), "view", str(skillbook), "--no-open", "--port", "0", *options]
            process = subprocess.Popen(
                command, cwd=tmp_path, env=command_environment(tmp_path), stdout=subprocess.PIPE, text=True
            )
            started.callback(_end, process)
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " is shown at http://127.0.0.1:" in line, line
            return line.partition(" is shown at ")[2].split()[0].rstrip("/")

        yield start


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 0, out


# Of a module: while it is open, its event loop runs on the main thread, where other tests start workers.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("chromium", "there is no Chromium on this machine; install it with apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=0)
        yield started
        started.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Open a page in a profile of its own. At the end, no page may have asked another host or reported an error."""
    with ExitStack() as opened:
        seen: list[str] = []

        def open_page(width: int = 1280, **options: Any) -> Page:
            context = browser.new_context(viewport={"width": width, "height": 800}, **options)
            opened.callback(context.close)
            context.set_default_timeout(120_000)  # the machine is shared
            page = context.new_page()
            page.on("console", lambda message: _note(seen, f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: seen.append(f"error: {error}"))
            page.on("request", lambda request: _note_foreign(seen, request.url))
            return page

        yield open_page
        assert seen == []


def _note(seen: list[str], message: str) -> None:
    if "Failed to load resource: the server responded with a status of 4" not in message:  # the test expects that
        seen.append(message)


def _note_foreign(seen: list[str], url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "blob:", "data:")):
        seen.append(f"request: {url}")
