"""Where Claude Code keeps its things, and where we keep ours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "config_folder",
    "learned_path",
    "make_state_folder",
    "plugin_data_folder",
    "plugin_folder",
    "project_key",
    "skillbook_path",
    "state_folder",
    "transcripts_folder",
]

_NO_LETTER = re.compile(r"[^A-Za-z0-9]")


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the user's settings of Claude Code.

    Args:
        environ: The environment of Claude Code; by default that of this process.
    """
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path.home() / ".claude"


def plugin_folder() -> Path:
    """Return the folder of our plugin. What lies there is loaded; no settings of the user have to be changed."""
    return config_folder() / "skills" / "ace-learning"


def plugin_data_folder() -> Path:
    """Return the folder that Claude Code makes for the data of our plugin, which has none."""
    return config_folder() / "plugins" / "data" / "ace-learning-skills-dir"


def state_folder() -> Path:
    """Return the folder with all that is learned, and with what is still to be learned."""
    return config_folder() / "ace"


def make_state_folder(state: Path) -> None:
    """Make the folder of the state. As transcripts are, what is learned from them is for the user only.

    Args:
        state: The folder of the state.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)


def transcripts_folder() -> Path:
    """Return the folder in which Claude Code stores its sessions, one folder to a project."""
    return config_folder() / "projects"


def skillbook_path(state: Path, key: str) -> Path:
    """Return the file of the skills of a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "skillbook.db"


def learned_path(state: Path, key: str) -> Path:
    """Return the file that notes what was learned in a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "learned.jsonl"


def project_key(project: Path) -> str:
    """Return the name under which Claude Code stores the sessions of a project, unless its path is very long.

    Args:
        project: The folder of the project.

    Example:
        >>> project_key(Path("/home/dev/my.app"))
        '-home-dev-my-app'
    """
    # Claude Code counts as JavaScript does: a character beyond the first 65,536 is two.
    return _NO_LETTER.sub(
        lambda found: "-" * (len(found[0].encode("utf-16-le", "surrogatepass")) // 2), os.fsdecode(project)
    )
