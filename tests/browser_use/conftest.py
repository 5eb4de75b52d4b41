"""What the tests with a real browser share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ace_browser_use.chromium import HOW_TO_INSTALL, find_chromium
from tests.browser_use.site import Site
from tests.requirement import missing


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
def browsers() -> Callable[[], list[int]]:
    """Returns the processes of browsers that this process has started, and their processes."""
    return started_browsers


@pytest.fixture
def no_browser_is_left(chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails the test if a browser, or a folder of one, outlives it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield
    assert started_browsers() == []
    assert [
        path.name for path in tmp_path.iterdir() if path.name.startswith(("ace-browser-", "browser_use_agent_"))
    ] == []


def started_browsers() -> list[int]:
    psutil: Any = importlib.import_module("psutil")  # it has no types
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "--user-data-dir" in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
