"""ACE for browser-use: browser agents that learn from their own runs.

Importing it loads no framework; what is missing is told when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace_browser_use.execute import BrowserExecuteStep
    from ace_browser_use.result import BrowserResult
    from ace_browser_use.runner import BrowserUse
    from ace_browser_use.site_skills import SiteSkillsStep
    from ace_browser_use.to_trace import BrowserToTrace, history_to_trace, result_to_trace

__all__ = [
    "BrowserExecuteStep",
    "BrowserResult",
    "BrowserToTrace",
    "BrowserUse",
    "SiteSkillsStep",
    "history_to_trace",
    "result_to_trace",
]

_HOMES = {
    "BrowserExecuteStep": "execute",
    "BrowserResult": "result",
    "BrowserToTrace": "to_trace",
    "BrowserUse": "runner",
    "SiteSkillsStep": "site_skills",
    "history_to_trace": "to_trace",
    "result_to_trace": "to_trace",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
