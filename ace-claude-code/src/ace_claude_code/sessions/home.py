"""Where Claude Code keeps its things, and where we keep ours."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["config_folder", "plugin_folder", "project_key", "state_folder", "transcripts_folder"]


def config_folder() -> Path:
    """Return the folder with the user's settings of Claude Code."""
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path.home() / ".claude"


def plugin_folder() -> Path:
    """Return the folder of our plugin. What lies there is loaded; no settings of the user have to be changed."""
    return config_folder() / "skills" / "ace-learning"


def state_folder() -> Path:
    """Return the folder with all that is learned, and with what is still to be learned."""
    return config_folder() / "ace"


def transcripts_folder() -> Path:
    """Return the folder in which Claude Code stores its sessions, one folder to a project."""
    return config_folder() / "projects"


def project_key(project: Path) -> str:
    """Return the name under which Claude Code stores the sessions of a project.

    Args:
        project: The folder of the project.

    Example:
        >>> project_key(Path("/home/dev/my.app"))
        '-home-dev-my-app'
    """
    return re.sub(r"[^A-Za-z0-9]", "-", str(project))
