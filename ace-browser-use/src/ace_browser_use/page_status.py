"""Records the HTTP statuses of pages, which a history of browser-use does not contain."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from ace_browser_use.result import BrowserStep

if TYPE_CHECKING:
    from browser_use import Agent

__all__ = ["PageStatuses"]

_logger = logging.getLogger(__name__)
_LONGEST_LOOK = 2.0
_LOOK = """() => {
    const [entry] = performance.getEntriesByType("navigation");
    return JSON.stringify([location.href, entry ? entry.responseStatus : 0]);
}"""


class PageStatuses:
    """Reads the status of the page at the end of each step of one run.

    Args:
        and_then: The hook of the caller, which is called afterwards.
    """

    def __init__(self, and_then: Callable[[Any], Awaitable[None]] | None = None) -> None:
        self._and_then = and_then
        self._seen: dict[int, tuple[str, int]] = {}

    async def look(self, agent: Agent[Any, Any]) -> None:
        """Read the status of the agent's page. An error is ignored, so that the run continues.

        Args:
            agent: The agent, at the end of a step.
        """
        try:
            url, status = await asyncio.wait_for(_status_of(agent), _LONGEST_LOOK)
        except Exception:
            _logger.debug("the status of the page could not be read", exc_info=True)
        else:
            self._seen[len(agent.history.history)] = (url, status)
        if self._and_then is not None:
            await self._and_then(agent)

    def put_into(self, steps: Iterable[BrowserStep]) -> tuple[BrowserStep, ...]:
        """Return the steps with the page and the status at the end of each.

        Args:
            steps: The steps of the same run.
        """
        return tuple(self._with_status(step) for step in steps)

    def _with_status(self, step: BrowserStep) -> BrowserStep:
        url, status = self._seen.get(step["number"], ("", 0))
        return {**step, "arrived_at": url, "http_status": status or None}


async def _status_of(agent: Agent[Any, Any]) -> tuple[str, int]:
    page = await agent.browser_session.get_current_page()
    if page is None:
        return "", 0
    url, status = json.loads(await page.evaluate(_LOOK))
    return str(url), int(status)
