"""The files of the plugin for Claude Code, as an installation writes them."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

__all__ = ["HOOK_MODULE", "is_our_plugin", "plugin_files"]

HOOK_MODULE = "ace_claude_code.sessions.hook"

# Claude Code gives a hook at the end of a session only a second or two, unless it asks for more.
_SECONDS = 30


def plugin_files() -> dict[str, str]:
    """Return the texts of the plugin's files, by their paths below its folder."""
    about = {
        "name": "ace-learning",
        "version": version("ace-claude-code"),
        "description": "Learn strategies from every session, and show them to the next one.",
        "author": {"name": "ACE developers"},
    }
    hooks = {
        "SessionStart": [{"matcher": "startup|resume|clear|compact", "hooks": [_hook("start")]}],
        "SessionEnd": [{"hooks": [_hook("end")]}],
    }
    return {".claude-plugin/plugin.json": _text(about), "hooks/hooks.json": _text({"hooks": hooks})}


def is_our_plugin(folder: Path) -> bool:
    """Tell whether a folder holds a plugin that was written here.

    Args:
        folder: The folder of a plugin.
    """
    path = folder / "hooks" / "hooks.json"
    return path.is_file() and HOOK_MODULE in path.read_text(encoding="utf-8", errors="replace")


def _hook(event: str) -> dict[str, object]:
    # The python of a session need not be the one in which ACE is installed. -E and -P: neither the variables nor
    # the files of the project decide what is imported.
    command = shlex.join([sys.executable, "-E", "-P", "-m", HOOK_MODULE, event])
    return {"type": "command", "command": command, "timeout": _SECONDS}


def _text(data: object) -> str:
    return json.dumps(data, indent=2) + "\n"
