"""The files of the plugin for Claude Code."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from ace_claude_code.sessions.in_session import LAST_LINE

__all__ = ["HOOK_MODULE", "is_foreign_plugin", "is_our_plugin", "plugin_files"]

HOOK_MODULE = "ace_claude_code.sessions.hook"

# The default timeout of a hook at the end of a session is one or two seconds, the maximum is a minute. Our hook takes a
# tenth of a second, and longer on a busy machine. Claude Code may still end it 1.5 seconds after the end of a session;
# the next hook then finds that session and learns from it.
_SECONDS = 60


def plugin_files() -> dict[str, str]:
    """Return the contents of the plugin's files by their paths, beginning with the one that identifies it as ours."""
    about = {
        "name": "ace-learning",
        "version": version("ace-claude-code"),
        "description": "Learn strategies from every session, and show them to the next one.",
        "author": {"name": "ACE developers"},
    }
    hooks = {
        "SessionStart": [{"matcher": "startup|resume|clear|compact", "hooks": [_hook("start")]}],
        "UserPromptSubmit": [{"hooks": [_hook("prompt")]}],
        "SessionEnd": [{"hooks": [_hook("end")]}],
    }
    return {
        "hooks/hooks.json": _text({"hooks": hooks}),
        ".claude-plugin/plugin.json": _text(about),
        "commands/skills.md": _command(),
    }


def is_our_plugin(folder: Path) -> bool:
    """Return whether the plugin in a folder was written by ACE."""
    path = folder / "hooks" / "hooks.json"
    return path.is_file() and HOOK_MODULE in path.read_text(encoding="utf-8", errors="replace")


def is_foreign_plugin(folder: Path) -> bool:
    """Return whether a folder contains files that were not written by ACE. A killed installation leaves it empty.

    Args:
        folder: The folder of a plugin, which need not exist.
    """
    return not is_our_plugin(folder) and any(
        path.is_file() and not (path.name.startswith(".hooks.json.") and path.suffix == ".tmp")
        for path in folder.rglob("*")
    )


def _hook(event: str) -> dict[str, object]:
    # The python of a session need not be the one in which ACE is installed. -E and -P: neither the variables nor
    # the files of the project decide what is imported.
    command = shlex.join([sys.executable, "-E", "-P", "-m", HOOK_MODULE, event])
    if os.name == "posix":  # the hook replaces the shell, so that its parent is Claude Code itself
        command = f"exec {command}"
    return {"type": "command", "command": command, "timeout": _SECONDS}


def _command() -> str:
    """Return the slash command, by which the user reads and changes the skills in a session."""
    ace = shlex.join([sys.executable, "-E", "-P", "-m", "ace_claude_code.sessions.in_session"])
    # Claude Code inserts what the user typed into the command. The shell reads nothing of it before a line with this
    # word, which no text can contain by chance or design.
    end = f"END_{secrets.token_hex(8)}"
    return (
        "---\n"
        "description: Show, forget, edit, pin or export what was learned from the sessions of this project\n"
        "argument-hint: show | forget ID --yes | edit ID TEXT | pin ID | unpin ID | export FILE | status\n"
        f"allowed-tools: Bash({ace}:*)\n"
        "---\n"
        "Tell the user what this command printed, and do nothing else:\n\n"
        f"```!\n{ace} <<'{end}'\n$ARGUMENTS\n{LAST_LINE}\n{end}\n```\n"
    )


def _text(data: object) -> str:
    return json.dumps(data, indent=2) + "\n"
