"""What the tests with a real browser share."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ace_browser_use.chromium import HOW_TO_INSTALL, find_chromium
from tests.browser_use.site import Site
from tests.requirement import missing

# It runs the blocks of a page, which is not beside the tests of a wheel.
collect_ignore = [] if (Path(__file__).parents[1] / "docs").is_dir() else ["test_how_to.py"]


@pytest.fixture
def chromium() -> str:
    """The browser of this machine."""
    found = find_chromium()
    if found is None:
        missing("chromium", f"there is no Chromium on this machine; install it: {HOW_TO_INSTALL}")
    return found


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        yield served


@pytest.fixture
def folder_of_browsers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where browsers keep their folders during the test; by it, their processes are told from those of others."""
    # pytest makes its own folder when it is first wanted; that must not be in ours.
    tmp_path_factory.getbasetemp()
    # Not below tmp_path: Chromium needs a short path for its socket.
    with (
        tempfile.TemporaryDirectory(prefix="ace-test-", ignore_cleanup_errors=True) as folder,
        monkeypatch.context() as patched,
    ):
        patched.setenv("TMPDIR", folder)
        patched.setattr("tempfile.tempdir", None)
        yield Path(folder)


@pytest.fixture
def browsers(folder_of_browsers: Path) -> Callable[[], list[int]]:
    """Returns the processes of browsers that this test has started, whoever their parents are by now."""
    psutil: Any = importlib.import_module("psutil")  # it has no types

    def running() -> list[int]:
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = " ".join(process.info["cmdline"] or ())
            if f"--user-data-dir={folder_of_browsers}" in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        return found

    return running


@pytest.fixture
def no_browser_is_left(chromium: str, browsers: Callable[[], list[int]], folder_of_browsers: Path) -> Iterator[None]:
    """Fails the test if a browser, or a folder of one, outlives it."""
    yield
    assert browsers() == []
    names = [path.name for path in folder_of_browsers.iterdir()]
    assert [name for name in names if name.startswith(("ace-browser-", "browser_use_agent_"))] == []
