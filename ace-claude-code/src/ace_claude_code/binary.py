"""Finds the `claude` binary and its supported options."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from ace.integrations import checked_arguments

__all__ = ["BINARY_VARIABLE", "ClaudeNotFoundError", "find_claude", "knows_option"]

BINARY_VARIABLE = "ACE_CLAUDE_BINARY"
"""The environment variable that names the binary."""


class ClaudeNotFoundError(FileNotFoundError):
    """The `claude` binary was not found."""


@checked_arguments()
def find_claude(path: str | os.PathLike[str] | None = None) -> str:
    """Return the path of the `claude` binary.

    It is searched for in this order: the argument, the variable `ACE_CLAUDE_BINARY`, PATH, and the copy in the package
    `claude-agent-sdk`.

    Args:
        path: A path, or a name to search for on PATH.

    Raises:
        ClaudeNotFoundError: The binary was not found; the message says how to install it.
    """
    named = os.fspath(path) if path is not None else os.environ.get(BINARY_VARIABLE, "")
    if named:
        found = shutil.which(named)
        if found is None:
            by = "the argument claude" if path is not None else BINARY_VARIABLE
            raise ClaudeNotFoundError(
                f"{by} names {named!r}, which is not a program; give the path of the claude binary"
            )
        return str(Path(found).absolute())
    found = shutil.which("claude") or _bundled()
    if found is None:
        raise ClaudeNotFoundError(
            "the claude binary is not on PATH; install it with 'npm install -g @anthropic-ai/claude-code' or "
            f"'pip install claude-agent-sdk', or name it in {BINARY_VARIABLE}"
        )
    return str(Path(found).absolute())


def knows_option(claude: str, option: str) -> bool:
    """Return whether this release of the binary has an option, according to its help.

    Args:
        claude: The path of the binary.
        option: The option, such as `--system-prompt-snapshot`.
    """
    return option in _help(claude, Path(claude).stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _help(claude: str, changed: int) -> str:
    """Return the help text. An update of the binary changes its modification time, which is part of the cache key."""
    asked = subprocess.run(
        [claude, "--help"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )
    return asked.stdout


def _bundled() -> str | None:
    spec = importlib.util.find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "_bundled" / "claude"
        if path.is_file():
            return str(path)
    return None
