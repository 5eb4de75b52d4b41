"""The readers of the formats that are known."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ace.logs.reader import LogReader

__all__ = ["built_in"]

_MODULES: Final[tuple[str, ...]] = (
    "standard",
    *("codex", "gemini", "opencode", "cursor", "copilot", "vscode", "cline", "aider", "goose", "pi", "agents"),
    *(
        "spans",
        "pydantic_ai",
        "autogen",
        "crewai",
        "smolagents",
        "google_adk",
        "strands",
        "atif",
        "swe_agent",
        "openhands",
        "tau",
    ),
    *("inspect_evals", "openai_files", "chat_exports", "chats", "datasets", "table"),
)


@functools.cache
def built_in() -> tuple[LogReader, ...]:
    """Return the built-in readers, from the most special to the reader of everything else."""
    from ace.logs.unknown import UnknownReader

    found: list[LogReader] = []
    for module in _MODULES:
        found += import_module(f"ace.logs.formats.{module}").READERS
    return (*found, UnknownReader())
