"""The paths of Claude Code's files and of ours."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "LEARNER_MODULE",
    "OWN_COMMAND",
    "config_folder",
    "learned_path",
    "plugin_data_folder",
    "plugin_folder",
    "project_key",
    "repository_of",
    "skillbook_path",
    "state_folder",
    "transcripts_folder",
]

LEARNER_MODULE = "ace_claude_code.sessions.learner"
"""The module that works off the queue in a process of its own."""
OWN_COMMAND = "/ace-learning:"
"""The prefix of prompts that are slash commands of our plugin."""
_LONGEST_NAME = 200
_NO_LETTER = re.compile(r"[^A-Za-z0-9]")


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the user's settings of Claude Code.

    Args:
        environ: The environment of Claude Code; by default that of this process.
    """
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path.home() / ".claude"


def plugin_folder() -> Path:
    """Return the folder of our plugin, from which Claude Code loads it without changes to the user's settings."""
    return config_folder() / "skills" / "ace-learning"


def plugin_data_folder() -> Path:
    """Return the folder that Claude Code creates for data of our plugin, which does not use it."""
    return config_folder() / "plugins" / "data" / "ace-learning-skills-dir"


def state_folder() -> Path:
    """Return the folder with everything that was learned, and with the queue."""
    return config_folder() / "ace"


def transcripts_folder() -> Path:
    """Return the folder in which Claude Code stores its sessions, with one folder per project."""
    return config_folder() / "projects"


def skillbook_path(state: Path, key: str) -> Path:
    """Return the file of the skills of a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "skillbook.db"


def learned_path(state: Path, key: str) -> Path:
    """Return the file that records what was learned in a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "learned.jsonl"


def repository_of(folder: Path) -> Path:
    """Return the root of the git repository of a folder: for all its sub-folders and worktrees, that of the main one.

    Args:
        folder: A folder, which need not exist anymore.

    Returns:
        The root; the folder itself if it is not in a repository. A submodule is a separate repository.
    """
    folder = folder.absolute()
    for parent in (folder, *folder.parents):
        mark = parent / ".git"
        if mark.is_dir():
            return parent
        if mark.is_file():
            return _main_worktree(mark) or parent
    return folder


def _main_worktree(mark: Path) -> Path | None:
    """Return the main worktree that the `.git` file of a linked one leads to; None for a submodule."""
    named = mark.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
    own = mark.parent / named
    try:
        common = (own / "commondir").read_text(encoding="utf-8").strip()
    except OSError:  # a submodule has none
        return None
    shared = Path(os.path.normpath(own / common))
    return shared.parent if shared.name == ".git" else shared  # otherwise it is a bare repository


def project_key(project: Path) -> str:
    """Return the name of a folder in our state: the one under which Claude Code stores its sessions.

    Args:
        project: The folder. Of a very long path, the name is cut and ends with a hash; Claude Code has its own hash.

    Example:
        >>> project_key(Path("/home/dev/my.app"))
        '-home-dev-my-app'
    """
    path = os.fsdecode(project)
    # Claude Code counts as JavaScript does: a character beyond the first 65,536 is two.
    name = _NO_LETTER.sub(lambda found: "-" * (len(found[0].encode("utf-16-le", "surrogatepass")) // 2), path)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
