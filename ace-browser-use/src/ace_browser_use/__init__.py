"""ACE for browser-use: browser agents that learn from their own runs.

Importing it does not load the framework; if that is missing, the first use raises an error that says how to install it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

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


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BrowserExecuteStep": "execute",
        "BrowserResult": "result",
        "BrowserToTrace": "to_trace",
        "BrowserUse": "runner",
        "SiteSkillsStep": "site_skills",
        "history_to_trace": "to_trace",
        "result_to_trace": "to_trace",
    },
)
