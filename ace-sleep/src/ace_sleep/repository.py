"""Git repositories as sessions name them, and copies of them at a commit.

Nothing in a repository is changed: a copy has a git folder of its own that refers to the objects of the repository, so
no worktree is registered there. No hook, filter or other program that the repository names is run.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from ace_sleep.sandbox import Place

__all__ = ["NoCopyError", "Repository", "copy_at", "find_repository"]

_SETTINGS: Final = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0")
_ENVIRONMENT: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}


class NoCopyError(Exception):
    """The state of a session cannot be reproduced."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository with one of its worktrees."""

    root: Path
    """The folder of the worktree."""
    common: Path
    """The folder that all worktrees share; mostly `.git` in the main one. It identifies the repository."""
    own: Path
    """The git folder of this worktree."""

    @property
    def main_root(self) -> Path:
        """The folder of the main worktree; this one for a bare repository."""
        return self.common.parent if self.common.name == ".git" else self.root

    @property
    def objects(self) -> Path:
        """The folder with the objects."""
        return self.common / "objects"

    def head(self) -> str:
        """Return the commit that is checked out; empty if there is none."""
        return self._line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def has(self, commit: str) -> bool:
        """Return whether a commit exists here.

        Args:
            commit: Its full id.
        """
        return bool(self._line("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"))

    def commit_before(self, when: datetime, branch: str) -> str:
        """Return the last commit of a branch at a time; empty if there was none.

        Args:
            when: The time.
            branch: The branch; without one that exists, what is checked out counts.
        """
        name = f"refs/heads/{branch}"
        if not branch or not self._line("rev-parse", "--verify", "--quiet", name):
            name = "HEAD"
        return self._line("rev-list", "-1", f"--before={int(when.timestamp())}", name, "--")

    def _line(self, *arguments: str) -> str:
        return _git(self.own, *arguments).strip()


def find_repository(folder: str) -> Repository | None:
    """Return the repository that a folder is in; None if it is in none, or does not exist anymore.

    Args:
        folder: An absolute path.
    """
    path = Path(os.path.realpath(folder))
    if not path.is_dir():
        return None
    for parent in (path, *path.parents):
        mark = parent / ".git"
        if mark.is_symlink():
            return None  # a link may lead to the repository of someone else
        if mark.is_dir() and (mark / "HEAD").is_file():
            return Repository(parent, mark, mark)
        if mark.is_file():
            return _linked(parent, mark)
    return None


def _linked(root: Path, mark: Path) -> Repository | None:
    """Return the repository of a linked worktree, if that knows the worktree; None for a submodule."""
    named = mark.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
    own = Path(os.path.normpath(root / named))
    try:
        back = (own / "gitdir").read_text(encoding="utf-8").strip()
        common = (own / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    if os.path.realpath(back) != str(mark):
        return None
    return Repository(root, Path(os.path.normpath(own / common)), own)


def copy_at(repository: Repository, commit: str, folder: Path, *, shows_copy_as_root: bool) -> Place:
    """Write the files of a commit to a folder, with a git folder that belongs to them.

    Args:
        repository: Where the commit is.
        commit: The full id of the commit.
        folder: A folder that does not exist.
        shows_copy_as_root: Whether commands find the copy at the path of the repository, and the objects in the copy.

    Raises:
        NoCopyError: The commit does not exist, or cannot be checked out.
    """
    if not repository.has(commit):
        raise NoCopyError("the commit of the session does not exist anymore")
    tree = folder / "tree"
    tree.mkdir(parents=True)
    own = tree / ".git"
    objects = str(repository.objects)
    kind = repository._line("rev-parse", "--show-object-format")
    _git(None, "init", "--quiet", "--template=", f"--object-format={kind}", str(tree))
    (own / "shared").mkdir()
    (own / "objects" / "info").mkdir(exist_ok=True)
    inside = "../shared" if shows_copy_as_root else objects
    try:
        for arguments in (
            ("update-ref", "--no-deref", "HEAD", commit),
            ("read-tree", commit),
            ("checkout-index", "--all", "--quiet", "--index"),
        ):
            _git(own, *arguments, objects=objects, tree=tree, check=True)
    except subprocess.CalledProcessError as error:
        raise NoCopyError(f"the commit cannot be checked out: {error.stderr.strip()[:200]}") from error
    (own / "objects" / "info" / "alternates").write_text(f"{inside}\n", encoding="utf-8")
    return Place(root=repository.root, tree=tree, objects=repository.objects)


def _git(own: Path | None, *arguments: str, objects: str = "", tree: Path | None = None, check: bool = False) -> str:
    """Return what a command of git prints; nothing if it fails, unless that is to be raised."""
    command = ["git", "--no-pager"]
    for setting in _SETTINGS:
        command += ["-c", setting]
    if own is not None:
        command.append(f"--git-dir={own}")
    if tree is not None:
        command.append(f"--work-tree={tree}")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", **_ENVIRONMENT}
    if objects:
        environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = objects
    done = subprocess.run(
        [*command, *arguments],
        env=environment,
        cwd=tree or "/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=check,
    )
    return done.stdout if done.returncode == 0 else ""
