"""The folder `.beads` of a project, and the queue of the hook in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ace.integrations import JobQueue, MadeFolders, replace_file

__all__ = ["LEARNER_MODULE", "NoTrackerError", "Project", "find_project"]

LEARNER_MODULE: Final = "ace_beads.learner"
"""The module that processes the queue in a separate process."""
_IGNORES_ALL: Final = "# Written by ace: the queue of a learner is not part of the project.\n*\n"


class NoTrackerError(Exception):
    """The project has no `.beads` folder."""


class Project:
    """A project whose issues are in beads.

    Args:
        beads: Its folder `.beads`.
    """

    def __init__(self, beads: Path) -> None:
        self.beads: Final = beads
        """The folder of the tracker."""
        self.root: Final = beads.parent
        """The folder of the project, in which a hook learns."""
        self.hook: Final = beads / "hooks" / "on_close"
        """The file that `bd` runs after an issue was closed."""
        self.queue: Final = JobQueue(beads / "ace")
        """The queue, which git ignores."""
        self.made: Final = MadeFolders(beads / "ace" / "made-folders.json")
        """The folders that were created here."""

    def add_job(self, task_id: str, folder: Path) -> None:
        """Queue an issue.

        Args:
            task_id: The id of the issue.
            folder: The folder in which `ace learn` is run.
        """
        self.make_state_folder()
        self.queue.add({"task_id": task_id, "folder": str(folder)})

    def make_state_folder(self) -> None:
        """Create the folder of the queue, with a file that makes git ignore it."""
        ignore = self.queue.folder / ".gitignore"
        if not ignore.exists():
            self.queue.make_folder()
            replace_file(ignore, _IGNORES_ALL.encode())


def find_project(folder: Path) -> Project:
    """Return the project of a folder: that of `BEADS_DIR`, else the nearest one in it or above it, as `bd` does.

    Raises:
        NoTrackerError: There is none.
    """
    named = os.environ.get("BEADS_DIR")
    if named:
        if not Path(named).is_dir():
            raise NoTrackerError(f"BEADS_DIR names {named!r}, which is not a folder")
        return Project(Path(named).resolve())
    folder = folder.resolve()
    for parent in (folder, *folder.parents):
        if (parent / ".beads").is_dir():
            return Project(parent / ".beads")
    raise NoTrackerError(f"no folder .beads in {str(folder)!r} or above it; run 'bd init' in the project first")
