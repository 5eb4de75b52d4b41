"""Finds lessons in the sessions of coding agents, and proves them by running. The command is `ace sleep`.

Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_sleep.mining import CommandPair, mine
    from ace_sleep.sandbox import Limits, Outcome, Sandbox, sandboxes

__all__ = ["CommandPair", "Limits", "Outcome", "Sandbox", "mine", "sandboxes"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CommandPair": "mining",
        "Limits": "sandbox",
        "Outcome": "sandbox",
        "Sandbox": "sandbox",
        "mine": "mining",
        "sandboxes": "sandbox",
    },
)
