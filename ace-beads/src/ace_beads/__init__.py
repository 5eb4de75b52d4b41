"""ACE for the issue tracker beads: closes issues when their tests pass, and learns from the work on them.

Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_beads.client import Bead, BeadsClient, BeadsError, BeadsNotFoundError, BeadsTimeoutError

__all__ = ["Bead", "BeadsClient", "BeadsError", "BeadsNotFoundError", "BeadsTimeoutError"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    dict.fromkeys(("Bead", "BeadsClient", "BeadsError", "BeadsNotFoundError", "BeadsTimeoutError"), "client"),
)
