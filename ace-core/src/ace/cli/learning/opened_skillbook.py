"""Opens the skillbook of a run; for a dry run, a copy that is thrown away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.cli.clock import clock_from_environment
from ace.cli.errors import UsageError
from ace.skillbook.book import TEXT_SUFFIXES, Skillbook
from ace.skillbook.stores import find_store

__all__ = ["VALIDATION_ANSWERS", "VALIDATION_LOG", "is_store", "opened_skillbook", "saved_elsewhere", "skillbook_files"]

VALIDATION_LOG = ".validation.jsonl"
VALIDATION_ANSWERS = ".answers.jsonl"
"""What `ace train --validate` keeps beside a store, so that it can be resumed."""
_COMPANIONS = ("-wal", "-shm", "-journal")


def is_store(path: Path) -> bool:
    """Tell whether a path is that of a store with history.

    Args:
        path: The path of a skillbook.
    """
    return find_store(path) is not None


def skillbook_files(path: Path) -> frozenset[Path]:
    """Return the files that belong to a skillbook, which are no traces.

    Args:
        path: The path of the skillbook.
    """
    beside = [path.with_name(path.name + suffix) for suffix in _COMPANIONS]
    beside += [path.with_name(path.name + suffix) for suffix in (VALIDATION_LOG, VALIDATION_ANSWERS)]
    return frozenset(each.resolve() for each in (path, *beside, path.with_name("failures.jsonl")))


@contextmanager
def opened_skillbook(
    path: Path, *, is_dry_run: bool = False, must_exist: bool = False
) -> Iterator[tuple[Skillbook, Path]]:
    """Open a skillbook, or start one.

    Args:
        path: Its path: a store (`.db`), or a JSON file.
        is_dry_run: Whether to work on a copy, so that nothing is written.
        must_exist: Whether a skillbook that is not there is an error.

    Returns:
        The book, and the path that it is open at.

    Raises:
        UsageError: The path cannot hold a skillbook, or there is none.
        SkillbookFileError: The file is no skillbook.
    """
    if path.suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(f"the skillbook {str(path)!r} is a text; learn into a .db or .json file")
    if path.is_dir():
        raise UsageError(f"the skillbook {str(path)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}")
    if must_exist and not path.exists():
        raise UsageError(f"there is no skillbook {str(path)!r}; learn one with `ace learn`, or give --skillbook")
    if not is_dry_run and not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {str(path.parent)!r} for the skillbook; make it first")
    if not is_dry_run and not is_store(path):
        _refuse_closed_folder(path.absolute().parent)
    clock = clock_from_environment()
    with tempfile.TemporaryDirectory(prefix="ace-dry-run-") as folder:
        used = _copied(path, Path(folder)) if is_dry_run else path
        book = Skillbook.open(used, clock=clock)
        try:
            yield book, used
        finally:
            book.close()


def saved_elsewhere(book: Skillbook, path: Path) -> Path:
    """Save a skillbook that its own file does not take in a new temporary folder, so that it is not lost.

    Args:
        book: The skillbook.
        path: Its own file.

    Returns:
        The new file.

    Raises:
        OSError: It cannot be saved there either.
    """
    target = Path(tempfile.mkdtemp(prefix="ace-skillbook-")) / path.name
    book.save_to_file(target)
    return target


def _refuse_closed_folder(folder: Path) -> None:
    """A file is first written at a checkpoint: without this, all of a run could be paid for and lost."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"the skillbook cannot be saved in the folder {str(folder)!r} ({error.strerror}); "
            "see to it that you may write there, or give --skillbook elsewhere"
        ) from error


def _copied(path: Path, folder: Path) -> Path:
    for each in (path, *(path.with_name(path.name + suffix) for suffix in _COMPANIONS if suffix != "-shm")):
        if each.exists():
            shutil.copyfile(each, folder / each.name)
    return folder / path.name
