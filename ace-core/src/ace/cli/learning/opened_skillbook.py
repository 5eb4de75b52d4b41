"""Opens the skillbook of a run; for a dry run, a copy that is thrown away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ace.cli.errors import UsageError
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.skillbooks.opening import open_at
from ace.skillbook import SkillbookError, shown_location
from ace.skillbook.book import TEXT_SUFFIXES, Skillbook

__all__ = ["check_place", "opened_skillbook", "saved_elsewhere"]


@contextmanager
def opened_skillbook(
    place: SkillbookPlace, *, is_dry_run: bool = False, must_exist: bool = False
) -> Iterator[tuple[Skillbook, SkillbookPlace]]:
    """Open a skillbook, or start one.

    Args:
        place: Where it is: a store (`.db`, or what a plugin gives), or a JSON file.
        is_dry_run: Whether to work on a copy, so that nothing is written.
        must_exist: Whether a skillbook that is not there is an error. (Of a `scheme://` only its store knows that.)

    Yields:
        The book, and the place that it is open at.

    Raises:
        UsageError: The skillbook does not exist, cannot be read, or cannot be saved there.
    """
    check_place(place, is_dry_run=is_dry_run, must_exist=must_exist)
    with _copied(place) if is_dry_run else nullcontext(place) as used, open_at(used.location) as book:
        if not is_dry_run and not place.keeps_history:
            _check_save(book, place)
        yield book, used


def check_place(place: SkillbookPlace, *, is_dry_run: bool = False, must_exist: bool = False) -> None:
    """Refuse a place that cannot hold a skillbook, before anything is paid for that could not be kept.

    Args:
        place: Where it is, or will be.
        is_dry_run: Whether nothing is written.
        must_exist: Whether a skillbook that is not there is an error.

    Raises:
        UsageError: The place cannot hold a skillbook, or there is none.
    """
    if place.file is None:
        return
    if not is_dry_run and not place.file.parent.is_dir():
        raise UsageError(f"there is no folder {str(place.file.parent)!r} for the skillbook; create it first")
    _check_names(place)
    if not is_dry_run and not place.file.exists():  # one that is there is checked when it is open
        _check_folder(place.file.parent)
    _check_file(place.file, must_exist=must_exist)


def _check_names(place: SkillbookPlace) -> None:
    """Refuse a name that the file system does not take, for the skillbook or a file beside it."""
    for path in place.names():
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"the skillbook cannot be at {shown_location(place.location)!r} ({reason}); give --skillbook elsewhere"
            ) from error


def _check_file(path: Path, *, must_exist: bool) -> None:
    if path.suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(f"the skillbook {str(path)!r} is a text file; learn into a .db or .json file")
    if path.is_dir():
        raise UsageError(f"the skillbook {str(path)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}")
    if must_exist and not path.exists():
        raise UsageError(f"there is no skillbook {str(path)!r}; learn one with `ace learn`, or give --skillbook")


def saved_elsewhere(book: Skillbook) -> Path:
    """Save a skillbook that its own file does not take in a new temporary folder, so that it is not lost.

    Args:
        book: The skillbook.

    Returns:
        The new file.

    Raises:
        OSError: It cannot be saved there either.
    """
    # The own name may be what cannot be written.
    target = Path(tempfile.mkdtemp(prefix="ace-skillbook-")) / "skills.json"
    book.save_to_file(target)
    return target


def _check_folder(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"the skillbook cannot be saved in the folder {str(folder)!r} ({error.strerror}); "
            "check that you may write there, or choose another place with --skillbook"
        ) from error


def _check_save(book: Skillbook, place: SkillbookPlace) -> None:
    """A file is first written at a checkpoint: without this, all of a run could be paid for and lost."""
    try:
        book.check_save(place.location, merge=True)
    except (OSError, SkillbookError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the skillbook {place.name!r} cannot be saved ({reason}); "
            "check that you may write there, or choose another place with --skillbook"
        ) from error


@contextmanager
def _copied(place: SkillbookPlace) -> Iterator[SkillbookPlace]:
    with tempfile.TemporaryDirectory(prefix="ace-dry-run-") as name:
        folder = Path(name)
        if place.file is None:
            copy = folder / "skills.db"
            with open_at(place.location) as book:
                book.save_to_file(copy)
        else:
            copy = folder / place.file.name
            for each in place.existing_files():
                shutil.copyfile(each, folder / each.name)
        yield SkillbookPlace(str(copy))
