"""Where the settings files are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["project_file", "user_file"]


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's settings, whether it is there or not.

    Args:
        environ: The environment.

    Example:
        >>> user_file({"XDG_CONFIG_HOME": "/home/ann/settings"}).as_posix()
        '/home/ann/settings/ace/config.toml'
    """
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    home = Path(folder) if Path(folder).is_absolute() else _home(environ) / ".config"
    return home / "ace" / "config.toml"


def project_file(folder: Path) -> Path | None:
    """Return the `ace.toml` of the project, or None.

    It is looked for in the folder, and above it only inside a git repository: a file that a stranger put into a
    shared folder above must not steer a run.

    Args:
        folder: Where the command runs.
    """
    folder = folder.resolve()
    above = [folder, *folder.parents]
    root = next((place for place, each in enumerate(above) if (each / ".git").exists()), 0)
    return next((each / "ace.toml" for each in above[: root + 1] if (each / "ace.toml").is_file()), None)


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) if home else Path.home()
