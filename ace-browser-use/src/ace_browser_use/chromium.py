"""Finds an installed browser, so that browser-use does not download one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["HOW_TO_INSTALL", "find_chromium"]

HOW_TO_INSTALL = "apt-get install chromium (Debian), or brew install --cask chromium (macOS)"

_COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "brave-browser",
    "microsoft-edge-stable",
    "microsoft-edge",
)
_APPLICATIONS = ("Chromium", "Google Chrome", "Brave Browser", "Microsoft Edge")


def find_chromium() -> str | None:
    """Return the path of an installed Chromium or Chromium-based browser; None if none is found."""
    return next(_found(), None)


def _found() -> Iterator[str]:
    yield from filter(None, map(shutil.which, _COMMANDS))
    if sys.platform == "darwin":
        applications = (Path(f"/Applications/{name}.app/Contents/MacOS/{name}") for name in _APPLICATIONS)
        yield from (str(path) for path in applications if path.is_file())
        yield from _of_playwright("~/Library/Caches/ms-playwright", "chrome-mac*/Chromium.app/Contents/MacOS/Chromium")
    else:
        yield from _of_playwright("~/.cache/ms-playwright", "chrome-linux*/chrome")


def _of_playwright(folder: str, inside: str) -> Iterator[str]:
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or folder).expanduser()
    # The newest comes first.
    yield from map(str, sorted(root.glob(f"chromium-*/{inside}"), reverse=True))
