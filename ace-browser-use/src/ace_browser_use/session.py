"""Opens the browser of one run, and closes it so that nothing of it is left."""

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
"""Seconds that a browser gets to close by itself."""
_TEMPORARY = "browser-use-user-data-dir-"
"""How browser-use names the folders of profiles that it makes itself."""


@dataclass(frozen=True)
class OpenSession:
    """The session of one run.

    Its browser starts with the run. `close` ends it, unless the caller lent it with `keep_alive`. Should this process
    end before, a guard does, see `ace_browser_use.processes`.
    """

    session: BrowserSession
    folder: Path | None
    """Our folder with the profile and the downloads of this run."""

    def guard(self, *folders: Path) -> None:
        """Have the browser ended, and its folder and others removed, should this process end before `close` does it.

        Args:
            *folders: Other folders that the run writes.
        """
        profile = self.session.browser_profile
        if self._belongs_to_caller or profile.user_data_dir is None:
            return
        own = self.folder or Path(profile.user_data_dir)
        is_temporary = self.folder is not None or own.name.startswith(_TEMPORARY)
        folders = (own, *folders) if is_temporary else folders
        guarded(self._key, Remains(str(profile.user_data_dir), tuple(map(str, folders))))

    async def close(self, *, was_cut_off: bool) -> None:
        """End the browser and all of its processes, and remove what it wrote.

        Args:
            was_cut_off: Whether the run ended before its end, so that browser-use may not have closed it.
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
        """Note that the run is over and has left nothing."""
        await asyncio.to_thread(unguarded, self._key)

    @property
    def _belongs_to_caller(self) -> bool:
        return bool(self.session.browser_profile.keep_alive)

    @property
    def _key(self) -> str:
        return f"{self.session.id}-{id(self):x}"


def is_shared(browser: BrowserProfile | BrowserSession | None) -> bool:
    """Whether runs would meet in this browser, so that they must take turns.

    Args:
        browser: What the caller gave.
    """
    if browser is None:
        return False
    if hasattr(browser, "browser_profile") or browser.cdp_url is not None:
        return True
    return not _is_fresh(browser)


def open_session(browser: BrowserProfile | BrowserSession | None) -> OpenSession:
    """Make the session of one run: a browser of its own, after the caller's profile; or the caller's session.

    Args:
        browser: What the caller gave.

    Raises:
        FileNotFoundError: There is no browser on this machine.
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
    given: set[str] = profile.model_fields_set
    settings: dict[str, object] = {"keep_alive": False}
    if executable is not None:
        settings["executable_path"] = executable
    if _is_fresh(profile):
        settings["user_data_dir"] = folder / OWN_FOLDER
    if "downloads_path" not in given or "browser-use-downloads-" in str(profile.downloads_path):
        settings["downloads_path"] = folder / "downloads"
    if "enable_default_extensions" not in given:
        settings["enable_default_extensions"] = False
    if "chromium_sandbox" not in given and hasattr(os, "geteuid") and os.geteuid() == 0:
        # Chromium does not start as root with its sandbox.
        settings["chromium_sandbox"] = False
    for name in ("user_data_dir", "downloads_path"):
        if name in settings:
            Path(str(settings[name])).mkdir()
    session = framework.BrowserSession(browser_profile=profile.model_copy(update=settings))
    opened = OpenSession(session, folder)
    opened.guard()
    return opened


def _executable_for(profile: BrowserProfile) -> str | None:
    """Return the browser to start; None if the profile tells it, or if none is started here.

    Raises:
        FileNotFoundError: There is no such browser.
    """
    if profile.cdp_url is not None or profile.use_cloud or profile.cloud_browser_params is not None:
        return None
    if profile.executable_path is not None:
        if not Path(profile.executable_path).is_file():
            raise FileNotFoundError(f"there is no browser at executable_path={str(profile.executable_path)!r}")
        return None
    found = find_chromium()
    if found is None:
        raise FileNotFoundError(
            f"no Chromium was found on this machine. Install one: {HOW_TO_INSTALL}; "
            "or name one: browser=BrowserProfile(executable_path=...)"
        )
    return found if profile.channel is None else None


def _is_fresh(profile: BrowserProfile) -> bool:
    """Whether the profile names no folder of its own; where none is named, browser-use makes an empty one."""
    folder = profile.user_data_dir
    if folder is None or "user_data_dir" not in profile.model_fields_set:
        return True
    path = Path(folder)
    return path.name.startswith(_TEMPORARY) and path.is_dir() and not any(path.iterdir())


def _remove_if_empty(profile: BrowserProfile) -> None:
    """Remove the folders that browser-use made for a profile that will get others."""
    for folder in (profile.user_data_dir, profile.downloads_path):
        if folder is not None and Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()


async def _kill(session: BrowserSession) -> None:
    try:
        await asyncio.wait_for(session.kill(), _CLOSING)
    except Exception:
        _logger.debug("the browser did not close by itself; its processes are ended", exc_info=True)
