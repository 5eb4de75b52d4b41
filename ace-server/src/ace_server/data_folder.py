"""The data folder: created for its owner only, and used without being named only where it was created.

It says who gets in, where the books are, and which class finds personal data. A cloned project can contain one, so a
folder that was not created in its place is only used if the user names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ace.integrations import UsageError, open_private

__all__ = ["check_unnamed_folder", "create_data_folder"]

_PLACE: Final = "folder.id"
"""The file with the number that the file system has given to the folder. No copy of the folder has the same one."""
_LOGS: Final = "logs"
"""What a service on Postgres creates without the rest."""


def create_data_folder(folder: Path) -> None:
    """Create the data folder, for its owner only, and note that this is its place.

    Raises:
        UsageError: It cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "books").mkdir(mode=0o700, exist_ok=True)
        if not _is_in_its_place(folder):
            with open(folder / _PLACE, "w", encoding="ascii", opener=open_private) as stream:
                stream.write(f"{folder.stat().st_ino}\n")
    except OSError as error:
        raise UsageError(f"the data folder {str(folder)!r} cannot be created: {error.strerror or error}") from error


def check_unnamed_folder(folder: Path) -> None:
    """Check that a data folder that the user has not named does not come from a stranger.

    Raises:
        UsageError: It is a link, or was created elsewhere.
    """
    if folder.is_symlink():
        raise UsageError(
            f"the data folder {str(folder)!r} is a link to {str(folder.resolve())!r}, which is not followed, since a "
            "cloned project can contain it; if it is yours, give that folder with --data"
        )
    if folder.is_dir() and not _is_in_its_place(folder) and any(entry.name != _LOGS for entry in folder.iterdir()):
        raise UsageError(
            f"the data folder {str(folder)!r} was not created here; a cloned project can contain one, with API keys "
            f"and books of a stranger; if it is yours, such as a copy or a backup, give it once with --data {folder}"
        )


def _is_in_its_place(folder: Path) -> bool:
    try:
        noted = (folder / _PLACE).read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return noted.strip() == str(folder.stat().st_ino)
