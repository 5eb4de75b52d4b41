"""Opens the browser of one run, and closes it without leaving processes or files behind."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace_browser_use.chromium import HOW_TO_INSTALL, find_chromium
from ace_browser_use.framework import load
from ace_browser_use.processes import OWN_FOLDER, Remains, end_processes, guarded, remove_folder, unguarded

if TYPE_CHECKING:
    from browser_use import BrowserProfile, BrowserSession

__all__ = ["OpenSession", "is_shared", "open_session"]

_logger = logging.getLogger(__name__)
_CLOSING = 10.0
"""The time that a browser has to close by itself, in seconds."""
_TEMPORARY = "browser-use-user-data-dir-"
"""The prefix of the folders of temporary profiles that browser-use creates."""


@dataclass(frozen=True)
class OpenSession:
    """The session of one run.

    Its browser starts with the run. `close` ends it, unless it belongs to the caller and has `keep_alive`. If this
    process ends before that, the guard of `ace_browser_use.processes` ends the browser.
    """

    session: BrowserSession
    folder: Path | None
    """Our folder with the profile and the downloads of this run."""

    def guard(self, *folders: Path) -> None:
        """Register the browser, its folder and others with the guard, in case this process ends before `close`.

        Args:
            *folders: Other folders that the run writes to.
        """
        profile = self.session.browser_profile
        if self._belongs_to_caller or profile.user_data_dir is None:
            return
        own = self.folder or Path(profile.user_data_dir)
        is_temporary = self.folder is not None or own.name.startswith(_TEMPORARY)
        folders = (own, *folders) if is_temporary else folders
        guarded(self._key, Remains(str(profile.user_data_dir), tuple(map(str, folders))))

    async def close(self, *, was_cut_off: bool) -> None:
        """End the browser and all of its processes, and remove its files.

        Args:
            was_cut_off: Whether the run was stopped, so that browser-use may not have closed the browser.
        """
        profile = self.session.browser_profile
        if not self._belongs_to_caller:
            if was_cut_off:
                await _kill(self.session)
            if profile.user_data_dir is not None:
                await asyncio.to_thread(end_processes, str(profile.user_data_dir))
                await asyncio.sleep(0)
        if self.folder is not None:
            await asyncio.to_thread(remove_folder, self.folder)

    async def release(self) -> None:
        """Unregister the run, which has cleaned up, from the guard."""
        await asyncio.to_thread(unguarded, self._key)

    @property
    def _belongs_to_caller(self) -> bool:
        return bool(self.session.browser_profile.keep_alive)

    @property
    def _key(self) -> str:
        return f"{self.session.id}-{id(self):x}"


def is_shared(browser: BrowserProfile | BrowserSession | None) -> bool:
    """Return whether runs would share this browser, so that they must use it one at a time.

    Args:
        browser: The argument of the caller.
    """
    if browser is None:
        return False
    if hasattr(browser, "browser_profile") or browser.cdp_url is not None:
        return True
    return not _is_fresh(browser)


def open_session(browser: BrowserProfile | BrowserSession | None) -> OpenSession:
    """Create the session of one run: a new browser with the caller's profile, or the caller's session.

    Args:
        browser: The argument of the caller.

    Raises:
        FileNotFoundError: No browser was found on this machine.
    """
    framework = load("browser_use", needed_by="BrowserExecuteStep")
    if isinstance(browser, framework.BrowserSession):
        _executable_for(browser.browser_profile)
        opened = OpenSession(browser, folder=None)
        opened.guard()
        return opened
    profile: Any = browser
    if browser is None:
        profile = framework.BrowserProfile(headless=True)
        _remove_if_empty(profile)
    executable = _executable_for(profile)
    folder = Path(tempfile.mkdtemp(prefix="ace-browser-"))
    fields_set: set[str] = profile.model_fields_set
    settings: dict[str, object] = {"keep_alive": False}
    if executable is not None:
        settings["executable_path"] = executable
    if _is_fresh(profile):
        settings["user_data_dir"] = folder / OWN_FOLDER
    if "downloads_path" not in fields_set or "browser-use-downloads-" in str(profile.downloads_path):
        settings["downloads_path"] = folder / "downloads"
    if "enable_default_extensions" not in fields_set:
        settings["enable_default_extensions"] = False
    if "chromium_sandbox" not in fields_set and hasattr(os, "geteuid") and os.geteuid() == 0:
        # Chromium does not start with its sandbox as root.
        settings["chromium_sandbox"] = False
    for name in ("user_data_dir", "downloads_path"):
        if name in settings:
            Path(str(settings[name])).mkdir()
    session = framework.BrowserSession(browser_profile=profile.model_copy(update=settings))
    opened = OpenSession(session, folder)
    opened.guard()
    return opened


def _executable_for(profile: BrowserProfile) -> str | None:
    """Return the browser to start; None if the profile names it, or if no browser is started here.

    Raises:
        FileNotFoundError: The browser does not exist.
    """
    if profile.cdp_url is not None or profile.use_cloud or profile.cloud_browser_params is not None:
        return None
    if profile.executable_path is not None:
        if not Path(profile.executable_path).is_file():
            raise FileNotFoundError(f"no such browser: executable_path={str(profile.executable_path)!r}")
        return None
    found = find_chromium()
    if found is None:
        raise FileNotFoundError(
            f"no Chromium was found on this machine. Install one: {HOW_TO_INSTALL}; "
            "or name one: browser=BrowserProfile(executable_path=...)"
        )
    return found if profile.channel is None else None


def _is_fresh(profile: BrowserProfile) -> bool:
    """Return whether the profile does not name a folder, so that browser-use creates an empty one."""
    folder = profile.user_data_dir
    if folder is None or "user_data_dir" not in profile.model_fields_set:
        return True
    path = Path(folder)
    return path.name.startswith(_TEMPORARY) and path.is_dir() and not any(path.iterdir())


def _remove_if_empty(profile: BrowserProfile) -> None:
    """Remove the folders that browser-use created for a profile that will get others."""
    for folder in (profile.user_data_dir, profile.downloads_path):
        if folder is not None and Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()


async def _kill(session: BrowserSession) -> None:
    for _ in range(2):
        try:
            await asyncio.wait_for(session.kill(), _CLOSING)
        except Exception:
            _logger.debug("the browser did not close by itself; its processes are ended", exc_info=True)
            await _interrupt(session)
        else:
            return


async def _interrupt(session: BrowserSession) -> None:
    """Stop the event bus of a session, such as one that waits for a page to load and so cannot close.

    A running bus ignores the cancellation at the end of `asyncio.run`, which would wait for it indefinitely.
    """
    bus: Any = session.event_bus
    at_work = bus._runloop_task
    await bus.stop()
    if at_work is not None:
        await asyncio.wait({at_work}, timeout=_CLOSING)
    bus.event_queue = bus._on_idle = None  # so that it can start again; browser-use does the same
