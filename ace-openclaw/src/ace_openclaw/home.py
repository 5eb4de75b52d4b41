"""The paths in the folder of OpenClaw, such as those of its sessions."""

from __future__ import annotations

import os
from pathlib import Path

from ace.integrations import string_at
from ace_openclaw.reading.exported import BRANCH_FILE
from ace_openclaw.reading.session import SessionReadError

__all__ = [
    "DATABASE",
    "ace_folder",
    "captured_file",
    "databases",
    "learner_lock_path",
    "make_ace_folder",
    "queue_folder",
    "session_files",
    "skillbook_path",
    "state_folder",
    "workspace_folder",
]

DATABASE = "openclaw-agent.sqlite"


def state_folder() -> Path:
    """Return the folder of OpenClaw: that of `OPENCLAW_STATE_DIR` or `OPENCLAW_PROFILE`, by default `~/.openclaw`."""
    named = os.environ.get("OPENCLAW_STATE_DIR")
    if named:
        return Path(named).expanduser()
    profile = os.environ.get("OPENCLAW_PROFILE")
    return Path.home() / (f".openclaw-{profile}" if profile and profile != "default" else ".openclaw")


def ace_folder(state: Path) -> Path:
    """Return the folder with all that is learned.

    Args:
        state: The folder of OpenClaw.
    """
    return state / "ace"


def make_ace_folder(state: Path) -> None:
    """Create the folder with all that is learned. Like sessions, it is only accessible to the user.

    Args:
        state: The folder of OpenClaw.
    """
    ace_folder(state).mkdir(mode=0o700, parents=True, exist_ok=True)


def skillbook_path(state: Path) -> Path:
    """Return the file of the skillbook.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "skillbook.db"


def captured_file(state: Path) -> Path:
    """Return the file that the capture plugin writes.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "turns.jsonl"


def queue_folder(state: Path) -> Path:
    """Return the folder into which the plugin puts the turns for the automatic learner.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "queue"


def learner_lock_path(state: Path) -> Path:
    """Return the file of the lock that is held while learning.

    Args:
        state: The folder of OpenClaw.
    """
    return ace_folder(state) / "learner.lock"


def workspace_folder(state: Path) -> Path:
    """Return the folder that the default agent works in.

    Args:
        state: The folder of OpenClaw.
    """
    try:
        config = (state / "openclaw.json").read_text(encoding="utf-8")
        named = string_at(config, ("agents", "defaults", "workspace"))
    except (FileNotFoundError, ValueError):  # ValueError: only OpenClaw itself can read the file
        named = ""
    return Path(named).expanduser() if named else state / "workspace"


def databases(state: Path) -> list[Path]:
    """Return the databases of all agents.

    Args:
        state: The folder of OpenClaw.
    """
    return sorted(state.glob(f"agents/*/agent/{DATABASE}"))


def session_files(source: str | os.PathLike[str], state: Path) -> list[Path]:
    """Return the files with the sessions of a source, oldest first.

    Trajectory files, which repeat a session, and sessions that the user deleted are skipped.

    Args:
        source: A session file, a folder of OpenClaw, of one of its agents, or of sessions, an exported session, or
            the id of an agent.
        state: The folder of OpenClaw, for ids.

    Raises:
        SessionReadError: The source does not exist, or has no sessions.
    """
    path = Path(source)
    if isinstance(source, str) and os.sep not in source and not path.exists():
        path = state / "agents" / source
        if not path.is_dir():
            known = ", ".join(sorted(agent.name for agent in state.glob("agents/*") if agent.is_dir())) or "none"
            raise SessionReadError(f"{source!r} is neither a file nor an agent in {state}; agents there: {known}")
    if not path.is_dir() or (path / BRANCH_FILE).exists():
        return [path]
    found = _of_state(path) or _of_agent(path) or _of_sessions(path)
    if not found:
        raise SessionReadError(f"no sessions of OpenClaw in {path}")
    return found


def _of_state(state: Path) -> list[Path]:
    found = [file for agent in sorted(state.glob("agents/*")) for file in _of_agent(agent)]
    captured = captured_file(state)
    return [*found, captured] if captured.exists() else found


def _of_agent(agent: Path) -> list[Path]:
    database = agent / "agent" / DATABASE
    return [*_of_sessions(agent / "sessions"), *([database] if database.exists() else [])]


def _of_sessions(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("*.jsonl") if not path.name.endswith(".trajectory.jsonl")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
